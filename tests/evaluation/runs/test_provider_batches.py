"""Runs whose requests go into providers' batches: what comes back, what is paid, and what a kill at any step costs."""

import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from django.db import connection
from django.db.models import Sum
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from evaluation import errors
from evaluation.models import Judgment, Response, Run
from evaluation.runs import queries, services, views, work
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RunSettings
from generation.engine import ledger, provider_batch_filling, provider_batch_results, provider_batches
from generation.engine.sweeping import sweep
from generation.engine.task_queue import put_back, take
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.llm.batch_protocol import BatchClient, LineResult
from generation.llm.errors import BadRequest
from generation.llm.simulator import server, wire_format
from generation.llm.simulator.batches import BatchStore
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message
from generation.models import Call, Endpoint, ProviderBatch, ProviderLine, Release
from generation.models.work import Work
from review.models import User
from tests.conftest import Clock, RunConcurrently
from tests.engine import SEED, Manage, bare_release, calls, create_lane, endpoint, launch_run, simulator_stats
from tests.generation.llm.helpers import fake_endpoint
from tests.populations import population

pytestmark = pytest.mark.django_db
Status = Work.Status
State = ProviderBatch.State
BATCH = Run.Transport.BATCH
PRICES = {"price_in": Decimal(10), "price_out": Decimal(10)}


class Says:
    """Every model says what a judge would."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str:
        said = {"explanation": "It does.", "criteria_met": True}
        if '"key": "R2"' in messages[-1].text:  # all rubrics of a sample
            return json.dumps({"judgments": [{"key": key, **said} for key in ("R1", "R2")]})
        return json.dumps(said)


def simulated(**options: Any) -> AbstractContextManager[str]:
    return run_in_background(make_app([Says()], **{"seed": SEED, "retry_after": 0.001, **options}))


@pytest.fixture(autouse=True)
def look_at_once(settings: Any) -> None:
    settings.MHB_BATCH_POLL_SECONDS = 0.0


def of_samples(count: int) -> Release:
    """So many samples with two criteria each."""
    return bare_release(*[("dialogue", [["A1"], ["C2"]])] * count)


@population
def release() -> Release:
    return of_samples(4)


@pytest.fixture
def url() -> Iterator[str]:
    with simulated() as url:
        yield url


def in_batches(
    release: Release, url: str, target: str = "sim-average", judge: str = "sim-judge", **options: Any
) -> Run:
    for model in (target, judge):
        endpoint(url, model, batches=True, **PRICES)
    return launch_run(release, url, target, judge=judge, transport=BATCH, **options)


def worked(run: Run, rounds: int = 12) -> Run:
    """The run after a worker came back to it as often as it was told to, at most."""
    for _ in range(rounds):
        due = sweep(RUNS)
        run.refresh_from_db()
        if run.pk not in due:
            break
        work.work_on_run(run.pk)
    run.refresh_from_db()
    return run


def finished(run: Run) -> Run:
    """The same where the provider takes its time."""
    end = time.monotonic() + 30
    while worked(run, rounds=1).status == Run.Status.RUNNING and time.monotonic() < end:
        time.sleep(0.1)
    return run


def ended(run: Run) -> dict[str, Counter[str]]:
    return {
        model.__name__: Counter(model.objects.filter(run=run).values_list("status", flat=True))
        for model in (Response, Judgment)
    }


def verdicts(run: Run) -> list[tuple[Any, ...]]:
    rows = Judgment.objects.filter(run=run).order_by("response__sample", "rubric")
    return list(rows.values_list("response__text", "rubric", "status", "verdict", "error"))


@pytest.mark.both
def test_a_run_in_batches_finds_what_a_live_one_finds_at_half_the_price(release: Release, url: str) -> None:
    run = worked(in_batches(release, url))
    assert run.status == Run.Status.FINISHED
    stats = simulator_stats(url)
    assert stats["requests"] == 0, "nothing was asked live"
    made = list(queries.provider_batches_of(run))
    assert [(each.endpoint.name, each.lines_count, each.state) for each in made] == [
        ("sim-average", 4, State.COLLECTED),
        ("sim-judge", 8, State.COLLECTED),
    ]
    assert stats["batches"] == stats["files"] == 2
    assert stats["batch_billed"] == 12
    lines = Call.objects.filter(job=run, provider_line__isnull=False)
    assert lines.count() == 12
    whole = [
        (line.tokens_in * PRICES["price_in"] + line.tokens_out * PRICES["price_out"]) / 1_000_000 for line in lines
    ]
    assert lines.aggregate(cost=Sum("cost"))["cost"] == sum(whole) / 2
    assert run.calls == stats["batch_billed"] + stats["requests"]
    live = launch_run(release, url, "sim-average", fresh=True)
    work.work_on_run(live.pk)
    assert verdicts(live) == verdicts(run)
    assert ended(run) == {"Response": {Status.DONE: 4}, "Judgment": {Status.DONE: 8}}


def test_per_sample_judging_goes_in_batches_too(release: Release, url: str) -> None:
    run = worked(in_batches(release, url, judging=Run.Judging.PER_SAMPLE))
    assert run.status == Run.Status.FINISHED
    assert [each.lines_count for each in queries.provider_batches_of(run)] == [4, 4]
    assert ended(run) == {"Response": {Status.DONE: 4}, "Judgment": {Status.DONE: 8}}
    assert set(Counter(call.subject for call in calls(run) if call.hit_of_id is None).values()) == {1}
    assert (simulator_stats(url)["batch_billed"], simulator_stats(url)["requests"]) == (8, 0)


def test_an_endpoint_without_batches_is_asked_live_beside_one_that_has_them(release: Release, url: str) -> None:
    endpoint(url, "sim-careful")
    run = worked(in_batches(release, url, target="sim-careful"))
    Endpoint.objects.filter(name="sim-careful").update(batches=False)
    plain = worked(launch_run(release, url, "sim-careful", transport=BATCH, fresh=True))
    assert {run.status, plain.status} == {Run.Status.FINISHED}
    assert [each.endpoint.name for each in queries.provider_batches_of(plain)] == ["sim-judge"]


def test_where_none_offers_batches_the_run_is_refused(release: Release, url: str) -> None:
    with pytest.raises(errors.NoBatches):
        launch_run(release, url, "sim-average", transport=BATCH)


def test_what_was_paid_for_before_is_not_submitted_again(release: Release, url: str) -> None:
    worked(in_batches(release, url))
    before = simulator_stats(url)
    again = worked(in_batches(release, url))
    assert again.status == Run.Status.FINISHED
    assert simulator_stats(url)["batches"] == before["batches"]
    assert again.hits >= 4


@pytest.mark.both
def test_two_runs_at_once_submit_a_request_once(release: Release) -> None:
    with simulated(batch_delay=600) as url:
        first, second = in_batches(release, url), in_batches(release, url)
        work.work_on_run(first.pk)
        work.work_on_run(second.pk)
        assert ProviderLine.objects.count() == 4
        assert simulator_stats(url)["batches"] == 1
        assert set(Response.objects.values_list("via__job", flat=True)) == {first.pk}


# -------------------------------------------------------------------------------------------------------------- faults


def test_a_run_does_not_wait_for_a_batch_that_another_one_does_not_submit(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (in_batches(release, url) for _ in range(3))
    with monkeypatch.context() as patch:
        patch.setattr(provider_batches, "advance_batches", lambda run: None)
        for run in (first, second):
            work.work_on_run(run.pk)
    assert set(Response.objects.filter(run=second).values_list("via__job", flat=True)) == {first.pk}
    life_cycle.pause(first.pk)
    assert worked(third).status == Run.Status.FINISHED, "it did not join"
    assert worked(second).status == Run.Status.FINISHED, "it was let go"
    assert simulator_stats(url)["batch_billed"] == 12
    jobs_services.resume(first.pk)
    assert worked(first).status == Run.Status.FINISHED


@pytest.mark.both
def test_lines_that_fail_are_asked_live(release: Release) -> None:
    with simulated() as url:
        run = worked(in_batches(release, url, target="sim-average+500@0.5"))
        stats = simulator_stats(url)
    assert run.status == Run.Status.FINISHED
    assert ended(run)["Response"] == {Status.DONE: 4}
    [made] = queries.provider_batches_of(run).filter(endpoint__name="sim-average-500-0-5")
    assert 0 < made.refused < 4
    assert made.answered + made.refused == 4
    failed = [call for call in calls(run) if call.error and hasattr(call, "provider_line")]
    assert [(call.error, call.http_status) for call in failed] == [("ServerError", 500)] * made.refused
    assert not any(call.cost for call in failed)
    assert stats["by_model"]["sim-average"] >= made.refused


def test_lines_that_cannot_be_read_are_asked_live_and_it_says_so(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, garbled = BatchClient._parse_line, 3

    def garble(door: BatchClient, line: str) -> LineResult | None:
        nonlocal garbled
        garbled -= 1
        return read(door, line[:-9] if garbled >= 0 else line)

    run = in_batches(release, url)
    monkeypatch.setattr(BatchClient, "_parse_line", garble)
    assert worked(run).status == Run.Status.FINISHED
    made = queries.provider_batches_of(run)[0]
    assert (made.state, made.answered, made.missing) == (State.COLLECTED, 1, 3)
    assert (made.error, made.detail) == ("BrokenReply", "3 lines of its results could not be read.")
    assert ended(run)["Response"] == {Status.DONE: 4}


def test_lines_that_expire_are_asked_live(release: Release) -> None:
    with simulated(hang=0) as url:
        run = worked(in_batches(release, url, target="sim-average+timeout@0.5"))
    [made] = queries.provider_batches_of(run).filter(endpoint__name="sim-average-timeout-0-5")
    assert (made.said, made.state) == ("expired", State.COLLECTED)
    assert 0 < made.missing < 4
    assert made.answered + made.missing == 4
    missing = made.lines.filter(call__isnull=True)
    assert missing.count() == made.missing, "no call was made for them, so none is in the ledger"
    assert run.status == Run.Status.FINISHED
    assert ended(run)["Response"] == {Status.DONE: 4}


def test_a_reply_that_is_no_json_is_repaired_live(release: Release) -> None:
    with simulated() as url:
        run = worked(in_batches(release, url, judge="sim-judge+broken-json@0.4"))
        stats = simulator_stats(url)
    assert run.status == Run.Status.FINISHED
    assert stats["batch_billed"] == 12
    assert stats["requests"] >= 1, "the repairs"
    assert ended(run)["Judgment"][Status.DONE] >= 7
    assert run.calls == stats["batch_billed"] + stats["requests"]


def test_a_format_that_was_refused_is_not_asked_for_in_later_batches(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch finds it out, line by line and for nothing; its lines are asked live, for what is taken instead."""
    plain = server._Simulator.completion

    def completion(simulator: Any, body: Any) -> Any:
        if body.get("response_format", {}).get("type") == "json_schema":
            return "400", wire_format.error_body(400, "'response_format' of type 'json_schema' is not supported.")
        return plain(simulator, body)

    monkeypatch.setattr(server._Simulator, "completion", completion)
    with simulated() as url:
        first = worked(in_batches(release, url))
        second = worked(in_batches(release, url, fresh=True))
    assert first.status == second.status == Run.Status.FINISHED
    refused = [sum(each.refused for each in queries.provider_batches_of(run)) for run in (first, second)]
    assert refused == [8, 0]
    sent = Call.objects.filter(job=second, subject__startswith="judgment:", hit_of=None).values_list("sent", flat=True)
    assert [body["response_format"]["type"] for body in sent] == ["json_object"] * 8


def test_a_batch_refused_as_a_whole_pauses_the_run_and_says_why(release: Release, url: str) -> None:
    run = worked(in_batches(release, url, target="no-such-model"))
    assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BatchRefused")
    assert "no-such-model" in run.paused_detail
    assert run.calls == 0
    [made] = queries.provider_batches_of(run)
    assert (made.state, made.error) == (State.DROPPED, "BatchRefused")
    Endpoint.objects.filter(name="no-such-model").update(model="sim-average")
    jobs_services.resume(run.pk)
    assert worked(run).status == Run.Status.FINISHED


def test_a_batch_that_the_endpoint_does_not_know_any_more_is_dropped_and_asked_for_again_by_a_person_only(
    release: Release, url: str
) -> None:
    with simulated(batch_delay=600) as forgetful:
        run = in_batches(release, forgetful)
        work.work_on_run(run.pk)
    Endpoint.objects.update(url=url)
    worked(run)
    assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BatchLost")
    [lost] = queries.provider_batches_of(run)
    assert (lost.state, lost.error, lost.missing) == (State.DROPPED, "BatchLost", 4)
    assert lost.batch in run.paused_detail
    assert "answered and charged" in life_cycle.advice(run)
    assert ledger.outstanding(run).count() == 0
    assert not sweep(RUNS), "nobody looks at it again"
    assert simulator_stats(url)["files"] == 0, "nor submits it again unasked"
    jobs_services.resume(run.pk)
    assert worked(run).status == Run.Status.FINISHED
    assert (simulator_stats(url)["batch_billed"], simulator_stats(url)["requests"]) == (12, 0)


def test_a_batch_that_is_listed_is_not_given_up(release: Release, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(door: BatchClient, batch: str) -> None:
        raise BadRequest("No such batch.", http_status=404)

    monkeypatch.setattr(BatchClient, "state", unknown)
    run = worked(in_batches(release, url))
    assert run.status == Run.Status.FINISHED
    assert simulator_stats(url)["batches"] == 2


def test_of_a_batch_whose_results_are_gone_what_was_collected_is_kept(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replies came, the file of errors is gone: nobody knows what they were."""
    plain, gone = BatchClient.results, [True]

    async def results(door: BatchClient, file: str, most: int) -> AsyncIterator[LineResult | None]:
        if gone and "errors" in file:
            raise BadRequest("No such file.", http_status=404)
        async for each in plain(door, file, most):
            yield each

    monkeypatch.setattr(BatchClient, "results", results)
    with simulated() as url:
        run = worked(in_batches(release, url, target="sim-average+500@0.5"))
        assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BatchLost")
        [lost] = queries.provider_batches_of(run)
        assert (lost.state, lost.answered > 0, lost.missing > 0) == (State.DROPPED, True, True)
        assert run.calls == lost.answered
        gone.clear()
        jobs_services.resume(run.pk)
        assert worked(run).status == Run.Status.FINISHED
    assert [each.lines_count for each in queries.provider_batches_of(run)][1] == lost.missing, "only those"
    assert ended(run)["Response"] == {Status.DONE: 4}


def test_what_an_unmarked_endpoint_does_not_know_is_asked_live(release: Release) -> None:
    with simulated(batch_delay=600) as forgetful:
        run = in_batches(release, forgetful)
        work.work_on_run(run.pk)
    with fake_endpoint('{"explanation": "It does.", "criteria_met": true}') as plain:
        Endpoint.objects.update(url=plain.url)
        assert worked(run).paused_because == "BadRequest"
        assert queries.provider_batches_of(run).get().state == State.SUBMITTED, "the address may be wrong"
        Endpoint.objects.update(batches=False)
        jobs_services.resume(run.pk)
        assert worked(run).paused_because == "BadRequest"
        jobs_services.resume(run.pk)
        assert worked(run).status == Run.Status.FINISHED
    assert queries.provider_batches_of(run).get().state == State.DROPPED


def test_an_endpoint_without_the_protocol_pauses_the_run_and_is_asked_live_when_it_says_so(release: Release) -> None:
    with fake_endpoint("I would ask a pharmacist.") as plain:
        run = worked(in_batches(release, plain.url, target="m-1", judge="m-2"))
        assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BadRequest")
        Endpoint.objects.update(batches=False)
        jobs_services.resume(run.pk)
        worked(run)
    assert ended(run)["Response"] == {Status.DONE: 4}


def test_what_failed_is_tried_again_in_a_new_batch(url: str) -> None:
    """Lines that failed were asked live, and failed there as well."""
    two = bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2)
    run = worked(in_batches(two, url, target="sim-average+500"))
    assert ended(run) == {"Response": {Status.FAILED: 2}, "Judgment": {Status.FAILED: 4}}
    assert set(Response.objects.values_list("error", flat=True)) == {"ServerError"}
    Endpoint.objects.filter(name="sim-average-500").update(model="sim-average")
    before = simulator_stats(url)
    assert jobs_services.retry_failed(run.pk) == 2
    assert worked(run).status == Run.Status.FINISHED
    assert ended(run) == {"Response": {Status.DONE: 2}, "Judgment": {Status.DONE: 4}}
    after = simulator_stats(url)
    assert after["batch_billed"] - before["batch_billed"] == 6
    assert after["requests"] == before["requests"], "nothing was asked live"
    assert run.calls == Call.objects.filter(job=run, hit_of=None).count()
    assert jobs_services.retry_failed(run.pk) == 0


def test_judgments_whose_replies_could_not_be_used_are_asked_anew_live() -> None:
    """Such replies are paid for and in the ledger: a batch would be answered from there."""

    class Moody(Says):
        well = False

        def reply(self, model: str, messages: Sequence[Message], seed: int) -> str:
            return super().reply(model, messages, seed) if self.well or model != "sim-judge" else "I would not know."

    models = Moody()
    with run_in_background(make_app([models], seed=SEED)) as url:
        run = worked(in_batches(bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2), url))
        assert ended(run) == {"Response": {Status.DONE: 2}, "Judgment": {Status.FAILED: 4}}
        models.well = True
        before = simulator_stats(url)
        assert jobs_services.retry_failed(run.pk) == 4
        assert worked(run).status == Run.Status.FINISHED
        assert ended(run) == {"Response": {Status.DONE: 2}, "Judgment": {Status.DONE: 4}}
        after = simulator_stats(url)
    assert after["batch_billed"] == before["batch_billed"]
    assert after["requests"] - before["requests"] == 4
    assert run.calls == after["batch_billed"] + after["requests"]


def test_a_key_that_is_missing_pauses_the_run_and_is_stored_nowhere(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = in_batches(release, url)
    Endpoint.objects.update(key_env="OWN_KEY")
    assert worked(run).paused_because == "KeyMissing"
    monkeypatch.setenv("OWN_KEY", "sk-very-secret")
    jobs_services.resume(run.pk)
    assert worked(run).status == Run.Status.FINISHED
    rows = [*ProviderBatch.objects.values(), *ProviderLine.objects.values(), *Call.objects.values()]
    assert not [row for row in rows if "sk-very-secret" in str(row)]


# --------------------------------------------------------------------------------------------------------------- kills


class Killed(BaseException):
    """As kill -9: nothing is written after it."""


def killed_at(run: Run, monkeypatch: pytest.MonkeyPatch, clock: Clock, owner: Any, name: str, *, after: bool) -> None:
    """Work on a run until `name` is called, and die there, before or after it; then let the leases run out."""
    real = getattr(owner, name)

    if name in ("upload", "create", "state"):

        async def dies(*args: Any, **kwargs: Any) -> Any:
            if after:
                await real(*args, **kwargs)
            raise Killed
    else:

        def dies(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            if after:
                real(*args, **kwargs)
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dies)
        with pytest.raises(Killed):
            finished(run)
    clock.advance(minutes=5)


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        (provider_batches, "_may_submit", False),
        (BatchClient, "upload", False),
        (BatchClient, "upload", True),
        (BatchClient, "create", False),
        (BatchClient, "create", True),
        (BatchClient, "state", True),
        (provider_batch_results, "_store_results", False),
        (provider_batch_results, "_store_results", True),
        (provider_batches, "_close", False),
        (provider_batches, "_close", True),
    ],
)
def test_a_kill_at_any_step_neither_loses_nor_pays_twice(
    release: Release, monkeypatch: pytest.MonkeyPatch, clock: Clock, owner: Any, name: str, after: bool
) -> None:
    with simulated(batch_delay=0.05) as url:
        run = in_batches(release, url)
        killed_at(run, monkeypatch, clock, owner, name, after=after)
        assert finished(run).status == Run.Status.FINISHED
        stats = simulator_stats(url)
    assert stats["batches"] == 2
    assert stats["batch_billed"] == 12
    assert run.calls == stats["batch_billed"] + stats["requests"]
    assert (
        Counter(ProviderLine.objects.filter(call__isnull=False).values_list("identity", flat=True)).most_common(1)[0][1]
        == 1
    )


def test_a_batch_is_known_by_its_file_where_the_endpoint_drops_our_name_for_it(
    release: Release, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    told = BatchStore._as_json
    monkeypatch.setattr(BatchStore, "_as_json", lambda there, batch: {**told(there, batch), "metadata": None})
    with simulated() as url:
        run = in_batches(release, url)
        killed_at(run, monkeypatch, clock, BatchClient, "create", after=True)
        assert finished(run).status == Run.Status.FINISHED
        stats = simulator_stats(url)
    assert (stats["batches"], stats["batch_billed"]) == (2, 12)


def test_a_kill_while_a_batch_is_prepared_gives_its_rows_back(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    run = in_batches(release, url)
    killed_at(run, monkeypatch, clock, provider_batch_filling, "_give_back", after=False)
    assert not ProviderBatch.objects.exists()
    assert worked(run).status == Run.Status.FINISHED
    assert simulator_stats(url)["batch_billed"] == 12


def test_who_lost_the_lease_writes_nothing(release: Release, url: str, clock: Clock) -> None:
    run = in_batches(release, url)
    work.work_on_run(run.pk)
    made = ProviderBatch.objects.first()
    assert made is not None
    with pytest.raises(provider_batch_results.BatchGone):
        provider_batch_results.note_progress(made, batch="another")


# ------------------------------------------------------------------------------------------------- budget, pause, cancel


def test_never_more_lines_than_the_budget_of_calls(release: Release, url: str) -> None:
    run = worked(in_batches(release, url, budget_calls=6))
    assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BudgetSpent")
    assert run.calls == 6 == simulator_stats(url)["batch_billed"]
    life_cycle.set_budget(run.pk, money=None, calls=None)
    assert worked(run).status == Run.Status.FINISHED


def test_money_is_set_aside_before_anything_is_submitted(release: Release) -> None:
    with simulated(batch_delay=600) as url:
        budget = Decimal("0.006")  # half of 10 a million; some 600 tokens and more a line
        run = in_batches(release, url, budget_money=budget)
        work.work_on_run(run.pk)
        [made] = queries.provider_batches_of(run)
        assert 0 < made.lines_count < 4
        aside = made.lines.aggregate(cost=Sum("estimate"))["cost"]
        assert aside <= budget
        run.refresh_from_db()
        assert run.status == Run.Status.RUNNING, "what comes back may have cost less"
        assert run.rests_until is not None


def test_live_calls_count_what_is_in_batches(release: Release) -> None:
    with simulated(batch_delay=600) as url:
        run = in_batches(release, url, budget_calls=5)
        work.work_on_run(run.pk)
        assert ledger.outstanding(run).count() == 4
        assert ledger.reserve(run, 3, lane=create_lane(run).pk, now=timezone.now()) == 1


def test_live_calls_leave_alone_what_is_set_aside_for_batches(release: Release, clock: Clock, settings: Any) -> None:
    settings.MHB_BATCH_POLL_SECONDS = 60.0
    with simulated(batch_delay=600) as url:
        run = in_batches(release, url, budget_money=Decimal(1))
        work.work_on_run(run.pk)
        aside = ledger.outstanding(run).aggregate(cost=Sum("estimate"))["cost"]
        assert aside > 0
        room = Decimal("0.0001")
        Run.objects.filter(pk=run.pk).update(cost=1 - aside - room)
        assert ledger.reserve(run, 3, lane=create_lane(run).pk, now=clock()) == 3
        Run.objects.filter(pk=run.pk).update(cost=1 - aside)
        assert ledger.reserve(run, 3, lane=create_lane(run).pk, now=clock()) == 0
        job = life_cycle.pause(run.pk, because="BudgetSpent")
        assert job.status == Run.Status.RUNNING, "what comes back may have cost less"
        assert job.rests_until == ProviderBatch.objects.get().next_at
        Run.objects.filter(pk=run.pk).update(cost=1)
        assert ledger.reserve(run, 3, lane=create_lane(run).pk, now=clock()) == 0
        assert life_cycle.pause(run.pk, because="BudgetSpent").status == Run.Status.PAUSED


def test_what_is_set_aside_is_what_such_lines_cost(release: Release, url: str) -> None:
    limit = 4_000
    endpoint(url, "sim-average", batches=True, max_tokens=limit, **PRICES)
    run = in_batches(release, url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider_batches, "advance_batches", lambda run: None)
        work.work_on_run(run.pk)
    least = limit * PRICES["price_out"] / 2 / 1_000_000
    estimates = ProviderLine.objects.values_list("estimate", flat=True)
    assert all(least < each < least * 2 for each in estimates), "nothing was measured: all that it may say"
    assert worked(run).status == Run.Status.FINISHED
    ProviderLine.objects.all().update(estimate=0)
    again = launch_run(release, url, "sim-average", transport=BATCH, fresh=True)
    work.work_on_run(again.pk)
    assert all(0 < each < least for each in estimates.filter(batch__job=again, batch__endpoint__name="sim-average"))


def test_a_paused_run_submits_nothing_and_collects_what_was_submitted(release: Release) -> None:
    with simulated(batch_delay=0.3) as url:
        _pause_at_every_step(in_batches(release, url), url)


def _pause_at_every_step(run: Run, url: str) -> None:
    life_cycle.pause(run.pk)
    work.work_on_run(run.pk)
    assert not ProviderBatch.objects.exists()
    jobs_services.resume(run.pk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider_batches, "advance_batches", lambda run: None)
        work.work_on_run(run.pk)
    life_cycle.pause(run.pk)
    work.work_on_run(run.pk)
    assert simulator_stats(url)["files"] == 0, "prepared, and not submitted"
    jobs_services.resume(run.pk)
    provider_batches.advance_batches(Run.objects.get(pk=run.pk))
    assert simulator_stats(url)["batches"] == 1
    life_cycle.pause(run.pk)
    time.sleep(0.4)
    assert run.pk in sweep(RUNS)
    work.work_on_run(run.pk)
    run.refresh_from_db()
    assert (run.status, run.calls) == (Run.Status.PAUSED, 4)
    jobs_services.resume(run.pk)
    assert finished(run).status == Run.Status.FINISHED


def test_a_cancelled_run_cancels_its_batches_and_keeps_what_was_done(release: Release) -> None:
    with simulated(
        batch_delay=6.0
    ) as url:  # cancelled after a quarter at the earliest, and before the end on a busy machine
        run = in_batches(release, url)
        work.work_on_run(run.pk)
        time.sleep(1.6)
        jobs_services.cancel(run.pk)
        worked(run)
        stats = simulator_stats(url)
    [made] = queries.provider_batches_of(run)
    assert (made.said, made.state) == ("cancelled", State.COLLECTED)
    assert 0 < made.answered < 4
    assert made.answered + made.missing == 4
    assert run.calls == stats["batch_billed"] == made.answered
    assert not sweep(RUNS)


def test_a_cancelled_run_drops_what_was_never_submitted(release: Release, url: str) -> None:
    run = in_batches(release, url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider_batches, "advance_batches", lambda run: None)
        work.work_on_run(run.pk)
    jobs_services.cancel(run.pk)
    worked(run)
    assert [each.state for each in queries.provider_batches_of(run)] == [State.DROPPED]
    assert simulator_stats(url)["batches"] == 0


# ------------------------------------------------------------------------------------------------- what would do harm


def submitted(run: Run) -> ProviderBatch:
    """The provider batch of a run that has just been submitted."""
    work.work_on_run(run.pk)
    made: ProviderBatch = queries.provider_batches_of(run).get()
    assert made.state == State.SUBMITTED
    return made


def dies(*_: Any, **__: Any) -> Any:
    raise Killed


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_batch_with_which_workers_die_is_given_up_for_good(
    release: Release, monkeypatch: pytest.MonkeyPatch, clock: Clock, cancelled: bool
) -> None:
    deaths = 0
    monkeypatch.setattr(provider_batch_results, "_store_results", dies)
    with simulated() as url:
        run = in_batches(release, url)
        for _ in range(25):
            if run.pk in sweep(RUNS):
                try:
                    work.work_on_run(run.pk)
                except Killed:
                    deaths += 1
            if cancelled and deaths == 1:
                jobs_services.cancel(run.pk)
            clock.advance(minutes=5)
        stats = simulator_stats(url)
    run.refresh_from_db()
    made = queries.provider_batches_of(run).get()
    assert deaths == 10
    assert (made.state, made.status, made.error) == (State.DROPPED, Status.DONE, "GivenUp")
    assert (run.status, run.paused_because) == ((run.Status.CANCELLED, "") if cancelled else ("paused", "GivenUp"))
    assert life_cycle.advice(run).startswith("" if cancelled else "Check with the provider")
    assert stats["batches"] == 1, "nobody has it asked again but a person"
    assert run.pk not in sweep(RUNS)
    assert not ledger.outstanding(run).exists()


def test_a_step_that_meets_a_fault_of_ours_is_tried_again_and_given_up_in_the_end(
    release: Release, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("x")

    with simulated() as url:
        run = in_batches(release, url)
        monkeypatch.setattr(provider_batches, "_close", broken)
        for _ in range(15):
            work.work_on_run(run.pk)
            clock.advance(minutes=5)
    made = queries.provider_batches_of(run).get()
    run.refresh_from_db()
    assert (made.state, made.error, made.answered) == (State.DROPPED, "GivenUp", 4)
    assert run.paused_because == "GivenUp"


REFUSED: list[dict[str, Any]] = [
    {"error": {"code": [1]}, "response": None},
    {"error": {"code": {"a": 1}, "message": [1]}},
    {"error": [1], "response": 5},
    {"response": {"status_code": 200, "body": [{"choices": 5}]}},
    {"response": {"status_code": 500, "body": {"error": {"code": [1], "message": {}}}}},
]
TOO_LONG = {"response": {"status_code": 200, "body": {"choices": [{"message": {"content": "x" * 2**20}}]}}}


def test_results_that_make_no_sense_are_asked_live_and_the_others_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, odd = BatchStore.content, [*REFUSED, TOO_LONG]
    long: list[str] = []

    async def garbled(batches: BatchStore, request: web.Request) -> web.Response:
        response = await plain(batches, request)
        lines = [json.loads(line) for line in bytes(response.body).splitlines()]  # type: ignore[arg-type]
        long.extend(line["custom_id"] for line in lines[:-1][len(REFUSED) :: len(odd)])
        others = [{**line, **odd[at % len(odd)]} for at, line in enumerate(lines[:-1])]
        return web.Response(body=b"\n".join(json.dumps(line).encode() for line in [*others, lines[-1]]))

    monkeypatch.setattr(BatchStore, "content", garbled)
    with simulated() as url:
        run = worked(in_batches(of_samples(len(odd) + 1), url))
    assert run.status == Run.Status.FINISHED
    made = queries.provider_batches_of(run).order_by("pk")[0]
    assert (made.state, made.answered, made.refused, made.missing) == (State.COLLECTED, 1, len(REFUSED), 1)
    unheard = made.lines.get(call=None)
    assert unheard.custom_id.hex in long
    assert ended(run)["Response"] == {Status.DONE: len(odd) + 1}
    assert run.calls == Call.objects.filter(job=run, hit_of=None).count()


def test_a_result_that_cannot_be_written_is_a_broken_one_and_the_others_are_kept(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, cursed = ledger.write, list[Any]()

    def write(job: Run, lines: Sequence[ledger.LedgerLine], **options: Any) -> list[Call]:
        good = [line for line in lines if not line.attempt.error]
        cursed[:] = cursed or [line.attempt.id for line in good[1:2]]
        if [line for line in good if line.attempt.id in cursed]:
            raise ValueError("nothing that a database can hold")
        return plain(job, lines, **options)

    monkeypatch.setattr(ledger, "write", write)
    run = worked(in_batches(release, url))
    assert run.status == Run.Status.FINISHED
    made = queries.provider_batches_of(run).order_by("pk")[0]
    assert (made.state, made.answered, made.refused) == (State.COLLECTED, 3, 1)
    assert ended(run)["Response"] == {Status.DONE: 4}


def test_a_batch_that_never_ends_is_given_up_after_a_month(release: Release, clock: Clock) -> None:
    with simulated(batch_delay=10**9) as url:
        run = in_batches(release, url)
        made = submitted(run)
        work.work_on_run(run.pk)
        clock.advance(days=31)
        work.work_on_run(run.pk)
    made.refresh_from_db()
    assert (made.state, made.error) == (State.DROPPED, "BatchLost")


# ------------------------------------------------------------------------------------------------------------- waiting


def test_nobody_is_woken_while_a_batch_is_away(release: Release, settings: Any, clock: Clock) -> None:
    settings.MHB_BATCH_POLL_SECONDS = 60.0
    with simulated(batch_delay=600) as url:
        run = in_batches(release, url)
        assert sweep(RUNS) == [run.pk]
        work.work_on_run(run.pk)
        clock.advance(seconds=1)
        assert sweep(RUNS) == []
        assert not jobs_services.waits(run.pk)
        clock.advance(minutes=2)
        assert sweep(RUNS) == [run.pk]
        work.work_on_run(run.pk)
        assert sweep(RUNS) == []
        run.refresh_from_db()
        assert run.status == Run.Status.RUNNING


def test_nobody_is_woken_while_batches_cannot_be_filled_yet(release: Release, url: str, settings: Any) -> None:
    """Two lanes: one has live rows in flight, whose judgments are to go into the same batch; the other finds nothing."""
    settings.MHB_LANES = 2
    live, offers = endpoint(url, "sim-careful"), endpoint(url, "sim-average", batches=True)
    run = services.launch_run(RunSettings(release, [live, offers], endpoint(url, "sim-judge"), transport=BATCH))
    in_flight = take(Response.objects.filter(run=run, endpoint=live).order_by("pk"), 100)
    assert in_flight
    work.work_on_run(run.pk)
    assert not ProviderBatch.objects.exists()
    assert not jobs_services.waits(run.pk)
    assert sweep(RUNS) == []
    for row in in_flight:
        put_back(row)
    assert jobs_services.waits(run.pk)
    assert worked(run).status == Run.Status.FINISHED


def test_an_endpoint_that_is_away_is_looked_at_later(release: Release, settings: Any, clock: Clock) -> None:
    settings.MHB_BATCH_POLL_SECONDS = 60.0
    with simulated() as url:
        run = in_batches(release, url)
    work.work_on_run(run.pk)
    [made] = queries.provider_batches_of(run)
    assert (made.state, made.error) == (State.PREPARED, "NotReached")
    assert sweep(RUNS) == []
    with simulated() as url:
        Endpoint.objects.update(url=url)
        clock.advance(minutes=2)
        settings.MHB_BATCH_POLL_SECONDS = 0.0
        assert worked(run).status == Run.Status.FINISHED


def test_many_rows_make_several_batches(release: Release, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_batches, "MAX_LINES", 3)
    run = worked(in_batches(release, url))
    assert run.status == Run.Status.FINISHED
    assert [each.lines_count for each in queries.provider_batches_of(run)][:2] == [3, 1]
    assert simulator_stats(url)["batch_billed"] == 12


def test_no_file_is_larger_than_providers_allow(release: Release, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_batch_filling, "MAX_BYTES", 10)
    run = worked(in_batches(release, url))
    assert {each.lines_count for each in queries.provider_batches_of(run)} == {1}
    assert run.status == Run.Status.FINISHED


# ------------------------------------------------------------------------------------------------------------ together


@pytest.mark.django_db(transaction=True)
def test_workers_that_come_at_once_submit_each_request_once(run_concurrently: RunConcurrently) -> None:
    with simulated(batch_delay=0.2) as url:
        run = in_batches(of_samples(4), url)
        for _ in range(20):
            outcomes = run_concurrently([partial(work.work_on_run, run.pk)] * 3)
            assert not [each for each in outcomes if isinstance(each, Exception)]
            run.refresh_from_db()
            if run.status == Run.Status.FINISHED:
                break
            time.sleep(0.1)
        stats = simulator_stats(url)
    assert run.status == Run.Status.FINISHED
    assert stats["batch_billed"] == 12
    assert run.calls == stats["batch_billed"] + stats["requests"]


# --------------------------------------------------------------------------------------------------------- page and API


def test_the_form_offers_it_and_refuses_it_where_no_endpoint_does(
    release: Release, adela: User, client: Client, url: str
) -> None:
    client.force_login(adela)
    for model in ("sim-average", "sim-judge"):
        endpoint(url, model)
    typed = {
        "release": release.pk,
        "endpoints": ["sim-average"],
        "judge": "sim-judge",
        "judging": Run.Judging.PER_RUBRIC,
        "transport": BATCH,
    }
    refused = client.post(reverse("evaluation:run-new"), typed)
    assert refused.status_code == 422
    assert "None of these endpoints supports provider batches." in refused.content.decode()
    Endpoint.objects.filter(name="sim-judge").update(batches=True)
    estimate = client.post(reverse("evaluation:run-new"), typed)
    assert estimate.status_code == 200
    assert f'name="transport" value="{BATCH}"' in estimate.content.decode(), "it is carried to the confirmation"
    assert client.post(reverse("evaluation:run-new"), {**typed, "confirmed": "1"}).status_code == 302
    assert Run.objects.get().transport == BATCH


def test_the_page_lists_them_in_as_many_queries_however_many(
    release: Release, adela: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(adela)

    def page(run: Run) -> tuple[str, int]:
        client.get(reverse("evaluation:run", args=[run.pk]))  # whatever is looked up once only
        with CaptureQueriesContext(connection) as asked:
            text = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
        return text, len(asked)

    with simulated(hang=0) as url:
        few = worked(in_batches(release, url, target="sim-average+timeout@0.5"))
        monkeypatch.setattr(provider_batches, "MAX_LINES", 1)
        many = worked(in_batches(release, url, target="sim-careful", fresh=True))
        live = launch_run(release, url, "sim-careful")
    text, asked = page(few)
    assert text.count(">collected</span>") == 2
    [expired] = queries.provider_batches_of(few).filter(said="expired")
    row = re.sub(r"\s+", "", strip_tags(text[text.index("provider-batches") :])).partition("sim-average-timeout-0-5")[2]
    assert row.startswith(f"collected4{expired.answered}0{expired.missing}")
    text, asked_of_many = page(many)
    assert text.count(">collected</span>") == 12
    assert asked_of_many == asked
    monkeypatch.setattr(views, "BATCHES_SHOWN", 5)
    text, _ = page(many)
    assert text.count(">collected</span>") == 5
    assert "The API lists all of them" in text
    assert "provider-batches" not in page(live)[0]
    polled = client.get(reverse("evaluation:run-progress", args=[live.pk])).content.decode()
    assert "provider-batches" not in polled


def test_the_command_takes_it_and_follows_it_to_its_end(release: Release, url: str, manage: Manage) -> None:
    for name in ("sim-average", "sim-judge"):
        manage.json("add_endpoint", name, "--url", url, "--model", name, "--batches", "--batch-discount", "0.25")
    assert set(Endpoint.objects.values_list("batches", "batch_discount")) == {(True, Decimal("0.25"))}
    chosen = ["--release", "bare", "--endpoint", "sim-average", "--judge", "sim-judge", "--transport", "batch"]
    assert manage.json("evaluate", *chosen, "--yes", "--wait")["status"] == "finished"
    assert simulator_stats(url)["batch_billed"] == 12


def test_the_api_says_what_became_of_each_batch(release: Release, adela: User, client: Client) -> None:
    with simulated(hang=0) as url:
        run = worked(in_batches(release, url, target="sim-average+timeout@0.5"))
    client.force_login(adela)
    told = client.get(f"/api/v1/runs/{run.pk}/").json()
    assert told["transport"] == "batch"
    first = told["provider_batches"][0]
    assert (first["state"], first["said"], first["lines"]) == ("collected", "expired", 4)
    assert first["answered"] + first["missing"] == 4
