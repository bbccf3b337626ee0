"""What a job's page shows while it works: in one statement whatever the size, told from totals that agree with the ledger."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import Sum
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from evaluation.models import Judgment, Response, Run
from evaluation.runs import services as runs_services
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RunSettings
from generation.batches.kind import BATCHES
from generation.endpoints import queries as endpoints_queries
from generation.engine import ledger
from generation.engine.lane_coordination import exchange
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.jobs.live_status import endpoint_now
from generation.llm.types import Attempt, Message, Reply, Usage
from generation.llm.types import Request as Asked
from generation.models import (
    Batch,
    BatchRole,
    Call,
    Draft,
    Endpoint,
    EndpointDay,
    EndpointState,
    JobError,
    Lane,
    Release,
    SourceRecord,
)
from generation.models.work import Work
from generation.templatetags.work import span
from review.models import User
from tests.engine import bare_release, calls, conversations_file, drafts, endpoint, generated, held, imported, simulated
from tests.generation.engine.test_worker_lane import seen

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
HOSTILE = "<script>alert('model')</script>"
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
SUMS = ("tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning", "cost")


@pytest.fixture
def admin(adela: User) -> Client:
    client = Client()
    client.force_login(adela)
    return client


def asking(of: Endpoint, count: int = 1, name: str = "own") -> Batch:
    """A batch of so many drafts whose generator is this endpoint."""
    batch = drafts(count, name)
    BatchRole.objects.create(batch=batch, role="generator", endpoint=of)
    return batch


def released(count: int) -> Release:
    """A release of so many samples, with two rubrics each."""
    return bare_release(*[("dialogue", [["A1"], ["C1"]])] * count)


def line(
    of: Endpoint, *, error: str = "", at: datetime = NOON, hit_of: int | None = None, text: str = ""
) -> ledger.LedgerLine:
    """A line for the ledger: 100 tokens in, 10 out, 40 of a cache, 5 of reasoning."""
    reply = Reply(text or "Said.", "", "stop", of.model, False, Usage(100, 10, 40, 5))
    attempt = Attempt(
        request=Asked(messages=(Message("user", "Say."),)),
        settings=of.settings,
        sent={"messages": []},
        number=1,
        started_at=at,
        seconds=0.2,
        reply=None if error and not text else reply,
        error=error,
        hit_of=hit_of,
    )
    return ledger.LedgerLine(attempt, of, "draft:1")


# ------------------------------------------------------------------------------------------------------------- totals


def test_the_days_and_errors_agree_with_the_ledger(tmp_path: Path) -> None:
    source = imported(conversations_file(tmp_path / "own.jsonl", 8))
    with simulated("429@0.4", "500@0.2") as url:
        of = endpoint(url, price_in="1", price_out="2")
        batch = generated(source, of)
    written = calls(batch)
    failed = [call.error for call in written if call.error]
    assert set(failed) == {"RateLimited", "ServerError"}
    kept = dict(JobError.objects.filter(job=batch).values_list("error", "calls"))
    assert kept == {name: failed.count(name) for name in set(failed)} == BATCHES.live(batch).error_counts
    days = EndpointDay.objects.filter(endpoint=of)
    sums = days.aggregate(**{f"sum_{name}": Sum(name) for name in ("calls", "hits", "failed", *SUMS)})
    assert (sums["sum_calls"], sums["sum_hits"], sums["sum_failed"]) == (len(written), 0, len(failed))
    for name in SUMS:
        assert sums[f"sum_{name}"] == sum(getattr(call, name) for call in written) == getattr(batch, name)
    assert sums["sum_cost"] > 0


def test_an_attempt_is_one_line_however_often_it_is_written() -> None:
    batch, of = drafts(1), endpoint("http://models.example/v1", price_in="1")
    once, other = line(of), line(of)
    [first] = ledger.write(batch, [once])
    with pytest.raises(IntegrityError), transaction.atomic():
        ledger.write(batch, [once])
    again = ledger.write(batch, [once, other], again=True)
    assert [call.pk == first.pk for call in again] == [True, False]
    batch.refresh_from_db()
    assert (batch.calls, batch.tokens_in, EndpointDay.objects.get().calls) == (2, 200, 2)


def test_a_call_counts_on_the_day_that_it_began_and_a_hit_costs_nothing() -> None:
    batch, of = drafts(1), endpoint("http://models.example/v1", price_in="1")
    eve = NOON - timedelta(hours=12, seconds=1)
    first, *_ = ledger.write(batch, [line(of), line(of, error="ServerError"), line(of, at=eve)])
    ledger.write(batch, [line(of, hit_of=first.pk)])
    days = EndpointDay.objects.filter(endpoint=of).order_by("day")
    assert list(days.values_list("day", "calls", "hits", "failed", "tokens_in", "tokens_cached", "cost")) == [
        (date(2026, 3, 3), 1, 0, 0, 100, 40, Decimal("0.0001")),
        (date(2026, 3, 4), 2, 1, 1, 100, 40, Decimal("0.0001")),
    ]


def test_usage_has_every_day_and_all_before_them_in_the_sum() -> None:
    batch, of = drafts(1), endpoint("http://models.example/v1")
    today = timezone.now()
    ledger.write(batch, [line(of, at=today), line(of, at=today - timedelta(days=2)), line(of, at=NOON)])
    whole, days = endpoints_queries.usage(of, days=3)
    assert whole.calls == 3
    assert [(day.day, day.calls) for day in days] == [
        ((today - timedelta(days=2)).date(), 1),
        ((today - timedelta(days=1)).date(), 0),
        (today.date(), 1),
    ]


# --------------------------------------------------------------------------------------------------------------- rate


def _counts(batch: Batch, **fields: Any) -> None:
    Batch.objects.filter(pk=batch.pk).update(**fields)


def _moments(batch: Batch) -> tuple[Any, ...]:
    return Batch.objects.values_list("since_at", "since_calls", "then_at", "then_calls", "then_hits").get(pk=batch.pk)


def test_the_rate_is_told_of_the_last_minutes() -> None:
    batch = drafts(1)
    life_cycle.mark(batch.pk, NOON)
    assert _moments(batch) == (NOON, 0, NOON, 0, 0)
    _counts(batch, calls=10, hits=3)
    life_cycle.mark(batch.pk, NOON + timedelta(seconds=59))
    assert _moments(batch) == (NOON, 0, NOON, 0, 0), "too early"
    life_cycle.mark(batch.pk, second := NOON + life_cycle.MARK_INTERVAL)
    assert _moments(batch) == (NOON, 0, second, 10, 3)
    _counts(batch, calls=30)
    life_cycle.mark(batch.pk, third := second + life_cycle.MARK_INTERVAL)
    assert _moments(batch) == (second, 10, third, 30, 3)
    life_cycle.mark(batch.pk, later := third + life_cycle.IDLE_AFTER)
    assert _moments(batch) == (later, 30, later, 30, 3), "nobody worked meanwhile"


def test_rate_time_left_and_projected_cost() -> None:
    batch = drafts(10)
    assert (BATCHES.live(batch).rate, BATCHES.live(batch).left) == (None, None), "nothing was measured"
    Draft.objects.filter(pk__in=batch.drafts.order_by("pk").values("pk")[:4]).update(status=Status.DONE)
    ago = timezone.now() - timedelta(minutes=2)
    # Four drafts took 12 lines, 8 of them paid for; since two minutes 6 calls and 4 hits: 5 lines a minute.
    _counts(batch, calls=8, hits=4, cost=Decimal("0.8"), since_at=ago, since_calls=2, since_hits=0)
    batch.refresh_from_db()
    live = BATCHES.live(batch)
    assert live.rate == pytest.approx(3, rel=0.01)
    assert live.left is not None
    assert live.left.total_seconds() == pytest.approx(60 * 18 / 5, rel=0.01)
    assert live.projected == Decimal("0.8") + 18 * Decimal("0.1")
    life_cycle.pause(batch.pk)
    batch.refresh_from_db()
    live = BATCHES.live(batch)
    assert (live.rate, live.left, live.projected) == (None, None, Decimal("2.6"))
    jobs_services.cancel(batch.pk)
    batch.refresh_from_db()
    assert BATCHES.live(batch).projected is None


def test_a_lane_measures(tmp_path: Path) -> None:
    source = imported(conversations_file(tmp_path / "own.jsonl", 2))
    with simulated() as url:
        batch = generated(source, endpoint(url))
    assert batch.since_at is not None
    assert (batch.since_calls, batch.calls) == (0, len(calls(batch)))


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (timedelta(days=2, hours=4, minutes=5), "2 d 4 h"),
        (timedelta(hours=3, minutes=20, seconds=50), "3 h 20 min"),
        (timedelta(minutes=12, seconds=59), "12 min"),
        (timedelta(seconds=59), "< 1 min"),
    ],
)
def test_a_length_of_time_in_words(length: timedelta, said: str) -> None:
    assert span(length) == said


# -------------------------------------------------------------------------------------------------------------- lanes


def test_who_works_at_an_endpoint_and_with_which_share() -> None:
    of = endpoint("http://models.example/v1", concurrency=8)
    mine, other = asking(of), asking(of, name="other")
    EndpointState.objects.create(endpoint=of)
    first, second = held(mine), held(other)
    Lane.objects.filter(pk=first.pk).update(worker="one:1")
    now = timezone.now()
    exchange(other, second, {of.pk: seen(2, flying=1)}, now)
    exchange(mine, first, {of.pk: seen(9, flying=3)}, now)
    live = BATCHES.live(mine)
    [there] = live.endpoints
    assert [(lane.worker, lane.flying) for lane in there.lanes] == [("one:1", 3)]
    assert (there.state, there.flying, there.share, there.others) == ("working", 3, 6, 2)
    both = endpoint_now(of)
    assert [(lane.job, lane.share, lane.flying) for lane in both.lanes] == [(mine.name, 6, 3), (other.name, 2, 1)]
    Lane.objects.update(until=now)
    assert endpoint_now(of).state == "idle", "the dead do not work"


def test_an_endpoint_that_is_left_alone_is_held_by_nobody_beyond_what_flies() -> None:
    of = endpoint("http://models.example/v1", concurrency=8)
    mine, other = asking(of), asking(of, name="other")
    EndpointState.objects.create(endpoint=of)
    now = timezone.now()
    pause = {"blocked_for": 60.0, "because": "ServerError", "openings": 1, "opened": True}
    exchange(other, held(other), {of.pk: seen(2, flying=1)}, now)
    exchange(mine, held(mine), {of.pk: seen(9, flying=3, **pause)}, now)
    [there] = BATCHES.live(mine).endpoints
    assert (there.state, there.flying, there.share, there.others) == ("open", 3, 3, 1)
    EndpointState.objects.update(blocked_until=None, openings=0)
    [there] = BATCHES.live(mine).endpoints
    assert (there.share, there.others) == (6, 2), "as before"


@pytest.mark.parametrize(
    ("state", "name", "said"),
    [
        ({"blocked": 60, "because": "RateLimited"}, "waiting", "rate limited"),
        ({"blocked": 60, "because": "ServerError", "openings": 2}, "open", "circuit breaker open"),
        ({"down": True, "because": "AuthFailed", "detail": HOSTILE}, "down", "unavailable"),
        ({"blocked": -1, "because": "RateLimited"}, "idle", "idle"),
    ],
)
def test_a_page_says_what_is_the_matter_with_an_endpoint(
    admin: Client, state: dict[str, Any], name: str, said: str
) -> None:
    of, now = endpoint("http://models.example/v1"), timezone.now()
    batch = asking(of)
    until = now + timedelta(seconds=state.pop("blocked")) if "blocked" in state else None
    down = now if state.pop("down", False) else None
    EndpointState.objects.create(endpoint=of, blocked_until=until, down_since=down, **state)
    assert [each.state for each in BATCHES.live(batch).endpoints] == [name]
    for page in (reverse("generation:batch", args=[batch.pk]), reverse("generation:endpoint", args=[of.name])):
        text = admin.get(page).content.decode()
        assert said in text
        assert HOSTILE not in text


# --------------------------------------------------------------------------------------------------------------- polls


def _poll(client: Client, address: str) -> list[str]:
    """The statements of a poll besides those that say who asks."""
    client.get(address)  # whatever is looked up once only
    with CaptureQueriesContext(connection) as asked:
        assert client.get(address).status_code == 200
    return [query["sql"] for query in asked.captured_queries if "FROM django_session" not in query["sql"]]


def _more_drafts(batch: Batch, count: int) -> None:
    start = SourceRecord.objects.count()
    rows = SourceRecord.objects.bulk_create(
        SourceRecord(source=batch.source, external_id=f"more-{start + n}", title="More", content={"kind": "dialogue"})
        for n in range(count)
    )
    Draft.objects.bulk_create(Draft(batch=batch, record=row) for row in rows)


def test_a_poll_of_a_batch_is_one_statement_however_large(admin: Client) -> None:
    batch = asking(of := endpoint("http://models.example/v1"), 10)
    address = reverse("generation:batch-progress", args=[batch.pk])
    few = _poll(admin, address)
    assert len(few) == 1
    _more_drafts(batch, 990)
    ledger.write(batch, [line(of, error=error) for error in ("RateLimited", "ServerError", "TimedOut")])
    for _ in range(3):
        lane = held(batch)
        Lane.objects.filter(pk=lane.pk).update(holds={str(of.pk): [1, 1, 1]})
    assert len(_poll(admin, address)) == 1
    text = admin.get(address).content.decode()
    assert "0 of 1000" in text.replace(",", "")
    assert "TimedOut" in text


def test_a_poll_of_a_run_is_one_statement_however_large(admin: Client) -> None:
    release = released(10)
    models = [endpoint("http://models.example/v1", f"model-{n}") for n in range(50)]
    small = runs_services.launch_run(RunSettings(release, models[:1], models[0]))
    large = runs_services.launch_run(RunSettings(release, models, models[0]))
    answered = list(Response.objects.filter(run=large)[:100].values_list("pk", "sample__rubrics"))
    Judgment.objects.bulk_create(Judgment(run=large, response_id=row, rubric_id=rubric) for row, rubric in answered)
    polls = [_poll(admin, reverse("evaluation:run-progress", args=[run.pk])) for run in (small, large)]
    assert [len(statements) for statements in polls] == [1, 1]
    whole = RUNS.progress(large)
    assert (whole.responses.total, whole.judgments.total) == (500, len(answered))


def test_the_pages_cost_the_same_for_many_rows(admin: Client) -> None:
    batch = asking(of := endpoint("http://models.example/v1"), 10)
    Draft.objects.filter(batch=batch).update(status=Status.DONE)
    page = reverse("generation:batch", args=[batch.pk])
    ledger.write(batch, [line(of, error="ServerError") for _ in range(5)])
    few = _poll(admin, page)
    _more_drafts(batch, 990)
    ledger.write(batch, [line(of, error="ServerError") for _ in range(200)])
    assert len(_poll(admin, page)) == len(few)


def test_a_poll_after_the_end_has_the_page_refreshed_and_polls_no_more(admin: Client) -> None:
    batch = drafts(1)
    jobs_services.cancel(batch.pk)
    answer = admin.get(reverse("generation:batch-progress", args=[batch.pk]))
    assert "mhb:changed" in answer["HX-Trigger"]
    assert "hx-get" not in answer.content.decode()


def test_a_run_knows_its_judgments_from_the_start() -> None:
    release = released(3)
    run = runs_services.launch_run(
        RunSettings(release, [endpoint("http://m.example/v1", f"m-{n}") for n in (1, 2)], _judge())
    )
    assert run.rubrics_total == 2 * release.rubrics_count > 0
    assert RUNS.progress(run).rubrics_total == run.rubrics_total


def _judge() -> Endpoint:
    return endpoint("http://models.example/v1", "judge")


# ------------------------------------------------------------------------------------------------------------ failures


def _pages(batch: Batch, run: Run) -> dict[str, str]:
    return {
        batch.name: reverse("generation:batch-failures", args=[batch.pk]),
        run.name: f"/evaluation/runs/{run.pk}/failures/",
    }


def test_the_last_failures_with_what_came_back(admin: Client) -> None:
    batch, run = asking(_judge()), runs_services.launch_run(RunSettings(released(1), [_judge()], _judge()))
    of = _judge()
    for job in (batch, run):
        ledger.write(job, [line(of, error="BrokenReply", text=f"old {n}") for n in range(3)])
        ledger.write(job, [line(of, error="BrokenReply", text=f"new {HOSTILE}") for n in range(5)])
        ledger.write(job, [line(of), line(of, error="TimedOut")])
        page = admin.get(f"/{'generation/batches' if job is batch else 'evaluation/runs'}/{job.pk}/").content.decode()
        there = _pages(batch, run)[job.name]
        assert "new &lt;script&gt;" in page
        assert HOSTILE not in page
        assert "old 0" not in page
        assert f'href="{there}"' in page
        assert f'href="{there}?error=BrokenReply"' in page
        every = admin.get(there).content.decode()
        assert every.count("<details") >= 9
        assert "old 0" in every
        assert HOSTILE not in every
        some = admin.get(there, {"error": "TimedOut"}).content.decode()
        assert "No reply was received." in some
        assert "old 0" not in some
        assert Call.objects.filter(job=job).exclude(error="").count() == 9


def test_the_numbers_of_the_pages_over_the_api(admin: Client, tmp_path: Path) -> None:
    source = imported(conversations_file(tmp_path / "own.jsonl", 4))
    with simulated("500@0.4") as url:
        of = endpoint(url, price_in="1", price_out="2")
        batch = generated(source, of)
    whole = admin.get(f"/api/v1/batches/{batch.pk}/").json()
    failed = JobError.objects.get(job=batch).calls
    assert whole["live"]["error_counts"] == {"ServerError": failed}
    assert whole["totals"]["calls"] == len(calls(batch)) == batch.calls
    assert [each["name"] for each in whole["live"]["endpoints"]] == [of.name]
    rows = admin.get(f"/api/v1/batches/{batch.pk}/failures/?error=ServerError").json()["results"]
    assert [row["error"] for row in rows] == ["ServerError"] * failed
    usage = admin.get(f"/api/v1/endpoints/{of.name}/usage/?days=7").json()
    assert len(usage["days"]) == 7
    assert usage["total"]["calls"] == batch.calls
    assert Decimal(usage["total"]["cost"]) == batch.cost
    assert usage["now"]["state"] == "idle"
