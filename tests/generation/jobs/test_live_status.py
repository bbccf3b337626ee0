"""Live status of a job: totals that agree with the ledger, read in one statement at any size."""

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
    WorkerBeat,
)
from generation.models.work import Work
from generation.templatetags.work import span
from review.models import User
from tests.conftest import Clock
from tests.engine import (
    bare_release,
    calls,
    conversations_file,
    create_lane,
    drafts,
    endpoint,
    import_file,
    run_batch,
    simulator,
)
from tests.generation.engine.test_worker_lane import lane_report
from tests.in_progress import put_in_progress

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
HOSTILE = "<script>alert('model')</script>"
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
SUMS = ("tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning", "cost")


def batch_asking(target: Endpoint, count: int = 1, name: str = "own") -> Batch:
    """A batch of `count` drafts whose generator is this endpoint."""
    batch = drafts(count, name)
    BatchRole.objects.create(batch=batch, role="generator", endpoint=target)
    return batch


def release_of(count: int) -> Release:
    """A release of `count` samples with two rubrics each."""
    return bare_release(*[("dialogue", [["A1"], ["C1"]])] * count)


def line(
    target: Endpoint, *, error: str = "", at: datetime = NOON, hit_of: int | None = None, text: str = ""
) -> ledger.LedgerLine:
    """A ledger line: 100 input tokens (40 cached), 10 output tokens (5 of reasoning)."""
    reply = Reply(text or "Said.", "", "stop", target.model, False, Usage(100, 10, 40, 5))
    attempt = Attempt(
        request=Asked(messages=(Message("user", "Say."),)),
        settings=target.settings,
        sent={"messages": []},
        number=1,
        started_at=at,
        seconds=0.2,
        reply=None if error and not text else reply,
        error=error,
        hit_of=hit_of,
    )
    return ledger.LedgerLine(attempt, target, "draft:1")


# ------------------------------------------------------------------------------------------- totals


def test_daily_totals_and_error_counts_agree_with_the_ledger(tmp_path: Path) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 8))
    with simulator("429@0.4", "500@0.2") as url:
        target = endpoint(url, price_in="1", price_out="2")
        batch = run_batch(source, target)
    written = calls(batch)
    failed = [call.error for call in written if call.error]
    assert set(failed) == {"RateLimited", "ServerError"}
    error_counts = dict(JobError.objects.filter(job=batch).values_list("error", "calls"))
    assert error_counts == {name: failed.count(name) for name in set(failed)} == BATCHES.live(batch).error_counts
    days = EndpointDay.objects.filter(endpoint=target)
    sums = days.aggregate(**{f"sum_{name}": Sum(name) for name in ("calls", "hits", "failed", *SUMS)})
    assert (sums["sum_calls"], sums["sum_hits"], sums["sum_failed"]) == (len(written), 0, len(failed))
    for name in SUMS:
        assert sums[f"sum_{name}"] == sum(getattr(call, name) for call in written) == getattr(batch, name)
    assert sums["sum_cost"] > 0


def test_an_attempt_is_one_ledger_line_however_often_it_is_written() -> None:
    batch, target = drafts(1), endpoint("http://models.example/v1", price_in="1")
    first_line, second_line = line(target), line(target)
    [first] = ledger.write(batch, [first_line])
    with pytest.raises(IntegrityError), transaction.atomic():
        ledger.write(batch, [first_line])
    calls_again = ledger.write(batch, [first_line, second_line], again=True)
    assert [call.pk == first.pk for call in calls_again] == [True, False]
    batch.refresh_from_db()
    assert (batch.calls, batch.tokens_in, EndpointDay.objects.get().calls) == (2, 200, 2)


def test_a_call_counts_on_the_day_it_began_and_a_hit_costs_nothing() -> None:
    batch, target = drafts(1), endpoint("http://models.example/v1", price_in="1")
    day_before = NOON - timedelta(hours=12, seconds=1)
    first, *_ = ledger.write(batch, [line(target), line(target, error="ServerError"), line(target, at=day_before)])
    ledger.write(batch, [line(target, hit_of=first.pk)])
    days = EndpointDay.objects.filter(endpoint=target).order_by("day")
    assert list(days.values_list("day", "calls", "hits", "failed", "tokens_in", "tokens_cached", "cost")) == [
        (date(2026, 3, 3), 1, 0, 0, 100, 40, Decimal("0.0001")),
        (date(2026, 3, 4), 2, 1, 1, 100, 40, Decimal("0.0001")),
    ]


def test_usage_lists_each_recent_day_and_sums_all_days() -> None:
    batch, target = drafts(1), endpoint("http://models.example/v1")
    today = timezone.now()
    ledger.write(batch, [line(target, at=today), line(target, at=today - timedelta(days=2)), line(target, at=NOON)])
    whole, days = endpoints_queries.usage(target, days=3)
    assert whole.calls == 3
    assert [(day.day, day.calls) for day in days] == [
        ((today - timedelta(days=2)).date(), 1),
        ((today - timedelta(days=1)).date(), 0),
        (today.date(), 1),
    ]


# --------------------------------------------------------------------------------------------- rate


def _update(batch: Batch, **fields: Any) -> None:
    Batch.objects.filter(pk=batch.pk).update(**fields)


def _rate_marks(batch: Batch) -> tuple[Any, ...]:
    return Batch.objects.values_list("since_at", "since_calls", "then_at", "then_calls", "then_hits").get(pk=batch.pk)


def test_the_rate_is_measured_over_the_last_minutes() -> None:
    batch = drafts(1)
    life_cycle.mark(batch.pk, NOON)
    assert _rate_marks(batch) == (NOON, 0, NOON, 0, 0)
    _update(batch, calls=10, hits=3)
    life_cycle.mark(batch.pk, NOON + timedelta(seconds=59))
    assert _rate_marks(batch) == (NOON, 0, NOON, 0, 0), "too early"
    life_cycle.mark(batch.pk, second := NOON + life_cycle.MARK_INTERVAL)
    assert _rate_marks(batch) == (NOON, 0, second, 10, 3)
    _update(batch, calls=30)
    life_cycle.mark(batch.pk, third := second + life_cycle.MARK_INTERVAL)
    assert _rate_marks(batch) == (second, 10, third, 30, 3)
    life_cycle.mark(batch.pk, later := third + life_cycle.IDLE_AFTER)
    assert _rate_marks(batch) == (later, 30, later, 30, 3), "no worker was active meanwhile"


def test_rate_remaining_time_and_projected_cost() -> None:
    batch = drafts(10)
    assert (BATCHES.live(batch).rate, BATCHES.live(batch).left) == (None, None), "nothing was measured"
    Draft.objects.filter(pk__in=batch.drafts.order_by("pk").values("pk")[:4]).update(status=Status.DONE)
    ago = timezone.now() - timedelta(minutes=2)
    # Four drafts took 12 ledger lines, 8 of them calls. In the last two minutes: 6 calls and
    # 4 hits, which is 5 lines a minute.
    _update(batch, calls=8, hits=4, cost=Decimal("0.8"), since_at=ago, since_calls=2, since_hits=0)
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


def test_a_lane_starts_measuring_the_rate(tmp_path: Path) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 2))
    with simulator() as url:
        batch = run_batch(source, endpoint(url))
    assert batch.since_at is not None
    assert (batch.since_calls, batch.calls) == (0, len(calls(batch)))


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(days=2, hours=4, minutes=5), "2 d 4 h"),
        (timedelta(hours=3, minutes=20, seconds=50), "3 h 20 min"),
        (timedelta(minutes=12, seconds=59), "12 min"),
        (timedelta(seconds=59), "< 1 min"),
    ],
)
def test_a_duration_is_shown_in_two_units(duration: timedelta, text: str) -> None:
    assert span(duration) == text


# -------------------------------------------------------------------------------------------- lanes


def test_an_endpoint_shows_its_lanes_and_their_shares() -> None:
    target = endpoint("http://models.example/v1", concurrency=8)
    batch, other = batch_asking(target), batch_asking(target, name="other")
    EndpointState.objects.create(endpoint=target)
    first, second = create_lane(batch), create_lane(other)
    Lane.objects.filter(pk=first.pk).update(worker="one:1")
    now = timezone.now()
    exchange(other, second, {target.pk: lane_report(2, in_flight=1)}, now)
    exchange(batch, first, {target.pk: lane_report(9, in_flight=3)}, now)
    live = BATCHES.live(batch)
    [status] = live.endpoints
    assert [(lane.worker, lane.in_flight) for lane in status.lanes] == [("one:1", 3)]
    assert (status.state, status.in_flight, status.share, status.others) == ("working", 3, 6, 2)
    whole = endpoint_now(target)
    assert [(lane.job, lane.share, lane.in_flight) for lane in whole.lanes] == [(batch.name, 6, 3), (other.name, 2, 1)]
    Lane.objects.update(until=now)
    assert endpoint_now(target).state == "idle", "expired lanes do not count"


def test_a_job_without_a_lane_says_behind_what_it_waits(clock: Clock, client: Client, adela: User) -> None:
    target = endpoint("http://models.example/v1")
    batch, other = batch_asking(target), batch_asking(target, name="other")
    WorkerBeat.objects.create(name="one:1", seen_at=clock.now)
    assert BATCHES.live(batch).waits is None, "a worker is free"
    create_lane(other)
    clock.advance(seconds=15)
    waits = BATCHES.live(batch).waits
    assert waits is not None
    assert (waits.lasted, waits.behind) == (timedelta(seconds=15), (other.name,))
    assert BATCHES.live(other).waits is None
    client.force_login(adela)
    assert f"behind {other.name}" in client.get(reverse("generation:batch-progress", args=[batch.pk])).content.decode()


def test_the_time_left_is_unknown_while_a_breaker_is_open(clock: Clock) -> None:
    target = endpoint("http://models.example/v1")
    batch = batch_asking(target, 2)
    put_in_progress(batch, target)
    EndpointState.objects.update(blocked_until=None, openings=0)
    batch.refresh_from_db()
    assert BATCHES.live(batch).left is not None
    EndpointState.objects.update(blocked_until=clock.now + timedelta(seconds=100), openings=1)
    assert BATCHES.live(batch).left is None


def test_lanes_at_an_open_breaker_hold_only_their_calls_in_flight() -> None:
    target = endpoint("http://models.example/v1", concurrency=8)
    batch, other = batch_asking(target), batch_asking(target, name="other")
    EndpointState.objects.create(endpoint=target)
    now = timezone.now()
    pause = {"blocked_for": 60.0, "error": "ServerError", "openings": 1, "opened": True}
    exchange(other, create_lane(other), {target.pk: lane_report(2, in_flight=1)}, now)
    exchange(batch, create_lane(batch), {target.pk: lane_report(9, in_flight=3, **pause)}, now)
    [status] = BATCHES.live(batch).endpoints
    assert (status.state, status.in_flight, status.share, status.others) == ("open", 3, 3, 1)
    EndpointState.objects.update(blocked_until=None, openings=0)
    [status] = BATCHES.live(batch).endpoints
    assert (status.share, status.others) == (6, 2), "the shares of before the pause"


@pytest.mark.parametrize(
    ("state", "name", "label"),
    [
        ({"blocked": 60, "error": "RateLimited"}, "waiting", "rate limited"),
        ({"blocked": 60, "error": "ServerError", "openings": 2}, "open", "circuit breaker open"),
        ({"down": True, "error": "AuthFailed", "detail": HOSTILE}, "down", "unavailable"),
        ({"blocked": -1, "error": "RateLimited"}, "idle", "idle"),
    ],
)
def test_pages_show_what_is_wrong_with_an_endpoint(admin: Client, state: dict[str, Any], name: str, label: str) -> None:
    target, now = endpoint("http://models.example/v1"), timezone.now()
    batch = batch_asking(target)
    until = now + timedelta(seconds=state.pop("blocked")) if "blocked" in state else None
    down = now if state.pop("down", False) else None
    EndpointState.objects.create(endpoint=target, blocked_until=until, down_since=down, **state)
    assert [status.state for status in BATCHES.live(batch).endpoints] == [name]
    for page in (reverse("generation:batch", args=[batch.pk]), reverse("generation:endpoint", args=[target.name])):
        text = admin.get(page).content.decode()
        assert label in text
        assert HOSTILE not in text


# -------------------------------------------------------------------------------------------- polls


def _poll(client: Client, address: str) -> list[str]:
    """The statements of a poll, without those that load session and account."""
    client.get(address)  # fills the caches
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 200
    signing_in = ('FROM "django_session"', 'FROM "review_user"')
    statements = [query["sql"] for query in queries.captured_queries]
    return [sql for sql in statements if not any(part in sql for part in signing_in)]


def _more_drafts(batch: Batch, count: int) -> None:
    start = SourceRecord.objects.count()
    rows = SourceRecord.objects.bulk_create(
        SourceRecord(source=batch.source, external_id=f"more-{start + n}", title="More", content={"kind": "dialogue"})
        for n in range(count)
    )
    Draft.objects.bulk_create(Draft(batch=batch, record=row) for row in rows)


def test_a_poll_of_a_batch_is_one_statement_however_large(admin: Client) -> None:
    batch = batch_asking(target := endpoint("http://models.example/v1"), 10)
    address = reverse("generation:batch-progress", args=[batch.pk])
    few = _poll(admin, address)
    assert len(few) == 1
    _more_drafts(batch, 990)
    ledger.write(batch, [line(target, error=error) for error in ("RateLimited", "ServerError", "TimedOut")])
    for _ in range(3):
        lane = create_lane(batch)
        Lane.objects.filter(pk=lane.pk).update(holds={str(target.pk): [1, 1, 1]})
    assert len(_poll(admin, address)) == 1
    text = admin.get(address).content.decode()
    assert "0 of 1000" in text.replace(",", "")
    assert "TimedOut" in text


def test_a_poll_of_a_run_is_one_statement_however_large(admin: Client) -> None:
    release = release_of(10)
    models = [endpoint("http://models.example/v1", f"model-{n}") for n in range(50)]
    small = runs_services.launch_run(RunSettings(release=release, endpoints=models[:1], judge=models[0]))
    large = runs_services.launch_run(RunSettings(release=release, endpoints=models, judge=models[0]))
    answered = list(Response.objects.filter(run=large)[:100].values_list("pk", "sample__rubrics"))
    Judgment.objects.bulk_create(Judgment(run=large, response_id=row, rubric_id=rubric) for row, rubric in answered)
    polls = [_poll(admin, reverse("evaluation:run-progress", args=[run.pk])) for run in (small, large)]
    assert [len(statements) for statements in polls] == [1, 1]
    whole = RUNS.progress(large)
    assert (whole.responses.total, whole.judgments.total) == (500, len(answered))


def test_the_page_makes_as_many_queries_for_many_rows(admin: Client) -> None:
    batch = batch_asking(target := endpoint("http://models.example/v1"), 10)
    Draft.objects.filter(batch=batch).update(status=Status.DONE)
    page = reverse("generation:batch", args=[batch.pk])
    ledger.write(batch, [line(target, error="ServerError") for _ in range(5)])
    few = _poll(admin, page)
    _more_drafts(batch, 990)
    ledger.write(batch, [line(target, error="ServerError") for _ in range(200)])
    assert len(_poll(admin, page)) == len(few)


def test_a_poll_of_an_ended_job_refreshes_the_page_and_stops_polling(admin: Client) -> None:
    batch = drafts(1)
    jobs_services.cancel(batch.pk)
    answer = admin.get(reverse("generation:batch-progress", args=[batch.pk]))
    assert "mhb:changed" in answer["HX-Trigger"]
    assert "hx-get" not in answer.content.decode()


def test_a_run_knows_its_number_of_judgments_from_the_start() -> None:
    release = release_of(3)
    run = runs_services.launch_run(
        RunSettings(
            release=release, endpoints=[endpoint("http://m.example/v1", f"m-{n}") for n in (1, 2)], judge=_judge()
        )
    )
    assert run.rubrics_total == 2 * release.rubrics_count > 0
    assert RUNS.progress(run).rubrics_total == run.rubrics_total


def _judge() -> Endpoint:
    return endpoint("http://models.example/v1", "judge")


# ----------------------------------------------------------------------------------------- failures


def _failure_pages(batch: Batch, run: Run) -> dict[str, str]:
    return {
        batch.name: reverse("generation:batch-failures", args=[batch.pk]),
        run.name: f"/evaluation/runs/{run.pk}/failures/",
    }


def test_failures_are_listed_with_the_reply(admin: Client) -> None:
    batch, run = (
        batch_asking(_judge()),
        runs_services.launch_run(RunSettings(release=release_of(1), endpoints=[_judge()], judge=_judge())),
    )
    target = _judge()
    for job in (batch, run):
        ledger.write(job, [line(target, error="BrokenReply", text=f"old {n}") for n in range(3)])
        ledger.write(job, [line(target, error="BrokenReply", text=f"new {HOSTILE}") for n in range(5)])
        ledger.write(job, [line(target), line(target, error="TimedOut")])
        page = admin.get(f"/{'generation/batches' if job is batch else 'evaluation/runs'}/{job.pk}/").content.decode()
        failures_url = _failure_pages(batch, run)[job.name]
        assert "new &lt;script&gt;" in page
        assert HOSTILE not in page
        assert "old 0" not in page
        assert f'href="{failures_url}"' in page
        assert f'href="{failures_url}?error=BrokenReply"' in page
        every = admin.get(failures_url).content.decode()
        assert every.count("<details") >= 9
        assert "old 0" in every
        assert HOSTILE not in every
        some = admin.get(failures_url, {"error": "TimedOut"}).content.decode()
        assert "No reply was received." in some
        assert "old 0" not in some
        assert Call.objects.filter(job=job).exclude(error="").count() == 9


def test_the_api_has_the_numbers_of_the_pages(admin: Client, tmp_path: Path) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 4))
    with simulator("500@0.4") as url:
        target = endpoint(url, price_in="1", price_out="2")
        batch = run_batch(source, target)
    whole = admin.get(f"/api/v1/batches/{batch.pk}/").json()
    failed = JobError.objects.get(job=batch).calls
    assert whole["live"]["error_counts"] == {"ServerError": failed}
    assert whole["totals"]["calls"] == len(calls(batch)) == batch.calls
    assert [status["name"] for status in whole["live"]["endpoints"]] == [target.name]
    rows = admin.get(f"/api/v1/batches/{batch.pk}/failures/?error=ServerError").json()["results"]
    assert [row["error"] for row in rows] == ["ServerError"] * failed
    usage = admin.get(f"/api/v1/endpoints/{target.name}/usage/?days=7").json()
    assert len(usage["days"]) == 7
    assert usage["total"]["calls"] == batch.calls
    assert Decimal(usage["total"]["cost"]) == batch.cost
    assert usage["now"]["state"] == "idle"
