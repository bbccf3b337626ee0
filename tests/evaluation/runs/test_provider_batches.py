"""Runs that send requests in provider batches: results, costs, faults, kills at every step."""

import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
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
from generation.engine.task_queue import requeue, take
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.llm import batch_protocol
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


class JudgeReplies:
    """Simulated models that all reply as a judge would."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str:
        verdict = {"explanation": "It does.", "criteria_met": True}
        if '"key": "R2"' in messages[-1].text:  # the judge is asked about all rubrics of a sample
            return json.dumps({"judgments": [{"key": key, **verdict} for key in ("R1", "R2")]})
        return json.dumps(verdict)


def simulated_models(**options: Any) -> AbstractContextManager[str]:
    return run_in_background(make_app([JudgeReplies()], **{"seed": SEED, "retry_after": 0.001, **options}))


@pytest.fixture(autouse=True)
def no_poll_delay(settings: Any) -> None:
    """Let workers look after a batch whenever they are called."""
    settings.MHB_BATCH_POLL_SECONDS = 0.0


def release_of(samples: int) -> Release:
    """A release with this number of samples, with two criteria each."""
    return bare_release(*[("dialogue", [["A1"], ["C2"]])] * samples)


@population
def release() -> Release:
    return release_of(samples=4)


@pytest.fixture
def url() -> Iterator[str]:
    with simulated_models() as url:
        yield url


def launch_in_batches(
    release: Release, url: str, target: str = "sim-average", judge: str = "sim-judge", **options: Any
) -> Run:
    """Launch a run whose model and judge both offer batches."""
    for model in (target, judge):
        endpoint(url, model, batches=True, **PRICES)
    return launch_run(release, url, target, judge=judge, transport=BATCH, **options)


def work_until_idle(run: Run, rounds: int = 12) -> Run:
    """Work on a run as long as a sweep finds it due, at most `rounds` times."""
    for _ in range(rounds):
        due = sweep(RUNS)
        run.refresh_from_db()
        if run.pk not in due:
            break
        work.work_on_run(run.pk)
    run.refresh_from_db()
    return run


def work_until_finished(run: Run) -> Run:
    """Work on a run, waiting for a slow provider for up to 30 seconds."""
    deadline = time.monotonic() + 30
    while work_until_idle(run, rounds=1).status == Run.Status.RUNNING and time.monotonic() < deadline:
        time.sleep(0.1)
    return run


def status_counts(run: Run) -> dict[str, Counter[str]]:
    return {
        model.__name__: Counter(model.objects.filter(run=run).values_list("status", flat=True))
        for model in (Response, Judgment)
    }


def verdicts(run: Run) -> list[tuple[Any, ...]]:
    rows = Judgment.objects.filter(run=run).order_by("response__sample", "rubric")
    return list(rows.values_list("response__text", "rubric", "status", "verdict", "error"))


@pytest.mark.both
def test_a_run_in_batches_finds_what_a_live_one_finds_at_half_the_price(release: Release, url: str) -> None:
    run = work_until_idle(launch_in_batches(release, url))
    assert run.status == Run.Status.FINISHED
    stats = simulator_stats(url)
    assert stats["requests"] == 0, "nothing was asked live"
    batches = list(queries.provider_batches_of(run))
    assert [(batch.endpoint.name, batch.lines_count, batch.state) for batch in batches] == [
        ("sim-average", 4, State.COLLECTED),
        ("sim-judge", 8, State.COLLECTED),
    ]
    assert stats["batches"] == stats["files"] == 2
    assert stats["batch_billed"] == 12
    lines = Call.objects.filter(job=run, provider_line__isnull=False)
    assert lines.count() == 12
    full_prices = [
        (line.tokens_in * PRICES["price_in"] + line.tokens_out * PRICES["price_out"]) / 1_000_000 for line in lines
    ]
    assert lines.aggregate(cost=Sum("cost"))["cost"] == sum(full_prices) / 2
    assert run.calls == stats["batch_billed"] + stats["requests"]
    live = launch_run(release, url, "sim-average", fresh=True)
    work.work_on_run(live.pk)
    assert verdicts(live) == verdicts(run)
    assert status_counts(run) == {"Response": {Status.DONE: 4}, "Judgment": {Status.DONE: 8}}


def test_per_sample_judging_works_in_batches(release: Release, url: str) -> None:
    run = work_until_idle(launch_in_batches(release, url, judging=Run.Judging.PER_SAMPLE))
    assert run.status == Run.Status.FINISHED
    assert [batch.lines_count for batch in queries.provider_batches_of(run)] == [4, 4]
    assert status_counts(run) == {"Response": {Status.DONE: 4}, "Judgment": {Status.DONE: 8}}
    assert set(Counter(call.subject for call in calls(run) if call.hit_of_id is None).values()) == {1}
    assert (simulator_stats(url)["batch_billed"], simulator_stats(url)["requests"]) == (8, 0)


def test_an_endpoint_without_batches_is_asked_live_while_another_uses_batches(release: Release, url: str) -> None:
    endpoint(url, "sim-careful")
    run = work_until_idle(launch_in_batches(release, url, target="sim-careful"))
    Endpoint.objects.filter(name="sim-careful").update(batches=False)
    plain = work_until_idle(launch_run(release, url, "sim-careful", transport=BATCH, fresh=True))
    assert {run.status, plain.status} == {Run.Status.FINISHED}
    assert [batch.endpoint.name for batch in queries.provider_batches_of(plain)] == ["sim-judge"]


def test_a_run_in_batches_is_refused_when_no_endpoint_offers_them(release: Release, url: str) -> None:
    with pytest.raises(errors.NoBatches):
        launch_run(release, url, "sim-average", transport=BATCH)


def test_requests_with_paid_replies_are_not_submitted_again(release: Release, url: str) -> None:
    work_until_idle(launch_in_batches(release, url))
    before = simulator_stats(url)
    again = work_until_idle(launch_in_batches(release, url))
    assert again.status == Run.Status.FINISHED
    assert simulator_stats(url)["batches"] == before["batches"]
    assert again.hits >= 4


@pytest.mark.both
def test_two_runs_submit_a_common_request_once(release: Release) -> None:
    with simulated_models(batch_delay=600) as url:
        first, second = launch_in_batches(release, url), launch_in_batches(release, url)
        work.work_on_run(first.pk)
        work.work_on_run(second.pk)
        assert ProviderLine.objects.count() == 4
        assert simulator_stats(url)["batches"] == 1
        assert set(Response.objects.values_list("via__job", flat=True)) == {first.pk}


# ------------------------------------------------------------------------------------------- faults


def test_a_run_does_not_wait_for_a_batch_that_a_paused_run_has_not_submitted(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (launch_in_batches(release, url) for _ in range(3))
    with monkeypatch.context() as patch:
        patch.setattr(provider_batches, "advance_batches", lambda run: None)
        for run in (first, second):
            work.work_on_run(run.pk)
    assert set(Response.objects.filter(run=second).values_list("via__job", flat=True)) == {first.pk}
    life_cycle.pause(first.pk)
    assert work_until_idle(third).status == Run.Status.FINISHED, "it did not wait for the batch of the first run"
    assert work_until_idle(second).status == Run.Status.FINISHED, "it no longer waits for the batch of the first run"
    assert simulator_stats(url)["batch_billed"] == 12
    jobs_services.resume(first.pk)
    assert work_until_idle(first).status == Run.Status.FINISHED


@pytest.mark.both
def test_failed_lines_are_asked_live(release: Release) -> None:
    with simulated_models() as url:
        run = work_until_idle(launch_in_batches(release, url, target="sim-average+500@0.5"))
        stats = simulator_stats(url)
    assert run.status == Run.Status.FINISHED
    assert status_counts(run)["Response"] == {Status.DONE: 4}
    [batch] = queries.provider_batches_of(run).filter(endpoint__name="sim-average-500-0-5")
    assert 0 < batch.refused < 4
    assert batch.answered + batch.refused == 4
    failed = [call for call in calls(run) if call.error and hasattr(call, "provider_line")]
    assert [(call.error, call.http_status) for call in failed] == [("ServerError", 500)] * batch.refused
    assert not any(call.cost for call in failed)
    assert stats["by_model"]["sim-average"] >= batch.refused


def test_unreadable_lines_are_asked_live_and_reported(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse_line, remaining = BatchClient._parse_line, 3

    def garble(client: BatchClient, line: str) -> LineResult | None:
        nonlocal remaining
        remaining -= 1
        return parse_line(client, line[:-9] if remaining >= 0 else line)

    run = launch_in_batches(release, url)
    monkeypatch.setattr(BatchClient, "_parse_line", garble)
    assert work_until_idle(run).status == Run.Status.FINISHED
    batch = queries.provider_batches_of(run)[0]
    assert (batch.state, batch.answered, batch.missing) == (State.COLLECTED, 1, 3)
    assert (batch.error, batch.detail) == ("BrokenReply", "3 lines of its results could not be read.")
    assert status_counts(run)["Response"] == {Status.DONE: 4}


def test_expired_lines_are_asked_live(release: Release) -> None:
    with simulated_models(hang=0) as url:
        run = work_until_idle(launch_in_batches(release, url, target="sim-average+timeout@0.5"))
    [batch] = queries.provider_batches_of(run).filter(endpoint__name="sim-average-timeout-0-5")
    assert (batch.remote_status, batch.state) == ("expired", State.COLLECTED)
    assert 0 < batch.missing < 4
    assert batch.answered + batch.missing == 4
    missing = batch.lines.filter(call__isnull=True)
    assert missing.count() == batch.missing, "no call was made for them, so the ledger has none"
    assert run.status == Run.Status.FINISHED
    assert status_counts(run)["Response"] == {Status.DONE: 4}


def test_an_invalid_json_reply_is_repaired_live(release: Release) -> None:
    with simulated_models() as url:
        run = work_until_idle(launch_in_batches(release, url, judge="sim-judge+broken-json@0.4"))
        stats = simulator_stats(url)
    assert run.status == Run.Status.FINISHED
    assert stats["batch_billed"] == 12
    assert stats["requests"] >= 1, "the repairs"
    assert status_counts(run)["Judgment"][Status.DONE] >= 5, "of eight; a repair may be broken again"
    assert run.calls == stats["batch_billed"] + stats["requests"]


def test_a_refused_format_is_not_requested_in_later_batches(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch finds out, line by line and without cost, that the format is refused.

    Its lines are then asked live, in the format that the endpoint accepts.
    """
    original = server._Simulator.completion

    def completion(simulator: Any, body: Any) -> Any:
        if body.get("response_format", {}).get("type") == "json_schema":
            return "400", wire_format.error_body(400, "'response_format' of type 'json_schema' is not supported.")
        return original(simulator, body)

    monkeypatch.setattr(server._Simulator, "completion", completion)
    with simulated_models() as url:
        first = work_until_idle(launch_in_batches(release, url))
        second = work_until_idle(launch_in_batches(release, url, fresh=True))
    assert first.status == second.status == Run.Status.FINISHED
    refused = [sum(batch.refused for batch in queries.provider_batches_of(run)) for run in (first, second)]
    assert refused == [8, 0]
    asked = Call.objects.filter(job=second, subject__startswith="judgment:", hit_of=None)
    assert [call.sent["response_format"]["type"] for call in asked] == ["json_object"] * 8


def test_a_refused_batch_pauses_the_run_with_the_reason(release: Release, url: str) -> None:
    run = work_until_idle(launch_in_batches(release, url, target="no-such-model"))
    assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BatchRefused")
    assert "no-such-model" in run.paused_detail
    assert run.calls == 0
    [batch] = queries.provider_batches_of(run)
    assert (batch.state, batch.error) == (State.DROPPED, "BatchRefused")
    Endpoint.objects.filter(name="no-such-model").update(model="sim-average")
    jobs_services.resume(run.pk)
    assert work_until_idle(run).status == Run.Status.FINISHED


def test_a_batch_that_the_endpoint_has_lost_is_dropped_and_repeated_only_on_request(release: Release, url: str) -> None:
    with simulated_models(batch_delay=600) as forgetful:
        run = launch_in_batches(release, forgetful)
        work.work_on_run(run.pk)
    Endpoint.objects.update(url=url)
    work_until_idle(run)
    assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BatchLost")
    [lost] = queries.provider_batches_of(run)
    assert (lost.state, lost.error, lost.missing) == (State.DROPPED, "BatchLost", 4)
    assert lost.batch in run.paused_detail
    assert "answered and charged" in life_cycle.advice(run)
    assert ledger.outstanding(run).count() == 0
    assert not sweep(RUNS), "no worker looks at it again"
    assert simulator_stats(url)["files"] == 0, "nor is it submitted again without a request"
    jobs_services.resume(run.pk)
    assert work_until_idle(run).status == Run.Status.FINISHED
    assert (simulator_stats(url)["batch_billed"], simulator_stats(url)["requests"]) == (12, 0)


def test_a_batch_that_is_still_listed_is_not_given_up(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_found(client: BatchClient, batch: str) -> None:
        raise BadRequest("No such batch.", http_status=404)

    monkeypatch.setattr(BatchClient, "state", not_found)
    run = work_until_idle(launch_in_batches(release, url))
    assert run.status == Run.Status.FINISHED
    assert simulator_stats(url)["batches"] == 2


def test_collected_results_are_kept_when_the_others_disappear(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of replies was read, but the file of errors has disappeared."""
    original, gone = BatchClient.results, [True]

    async def results(client: BatchClient, file: str, most: int) -> AsyncIterator[LineResult | None]:
        if gone and "errors" in file:
            raise BadRequest("No such file.", http_status=404)
        async for result in original(client, file, most):
            yield result

    monkeypatch.setattr(BatchClient, "results", results)
    with simulated_models() as url:
        run = work_until_idle(launch_in_batches(release, url, target="sim-average+500@0.5"))
        assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BatchLost")
        [lost] = queries.provider_batches_of(run)
        assert (lost.state, lost.answered > 0, lost.missing > 0) == (State.DROPPED, True, True)
        assert run.calls == lost.answered
        gone.clear()
        jobs_services.resume(run.pk)
        assert work_until_idle(run).status == Run.Status.FINISHED
    assert [batch.lines_count for batch in queries.provider_batches_of(run)][1] == lost.missing, (
        "the missing lines only"
    )
    assert status_counts(run)["Response"] == {Status.DONE: 4}


def test_a_batch_that_completes_without_a_file_pauses_the_run_before_anything_is_paid_twice(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = batch_protocol._parse_state
    monkeypatch.setattr(batch_protocol, "_parse_state", lambda *given: replace(original(*given), files=()))
    run = work_until_idle(launch_in_batches(release, url))
    assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BatchLost")
    assert simulator_stats(url)["requests"] == 0


def test_a_batch_is_dropped_and_asked_live_once_its_endpoint_offers_no_batches(release: Release) -> None:
    with simulated_models(batch_delay=600) as forgetful:
        run = launch_in_batches(release, forgetful)
        work.work_on_run(run.pk)
    with fake_endpoint('{"explanation": "It does.", "criteria_met": true}') as plain:
        Endpoint.objects.update(url=plain.url)
        assert work_until_idle(run).paused_because == "BadRequest"
        assert queries.provider_batches_of(run).get().state == State.SUBMITTED, (
            "it is kept, as the address may be wrong"
        )
        Endpoint.objects.update(batches=False)
        jobs_services.resume(run.pk)
        assert work_until_idle(run).paused_because == "BadRequest"
        jobs_services.resume(run.pk)
        assert work_until_idle(run).status == Run.Status.FINISHED
    assert queries.provider_batches_of(run).get().state == State.DROPPED


def test_an_endpoint_without_the_protocol_pauses_the_run_until_it_is_marked_so(release: Release) -> None:
    with fake_endpoint("I would ask a pharmacist.") as plain:
        run = work_until_idle(launch_in_batches(release, plain.url, target="m-1", judge="m-2"))
        assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BadRequest")
        Endpoint.objects.update(batches=False)
        jobs_services.resume(run.pk)
        work_until_idle(run)
    assert status_counts(run)["Response"] == {Status.DONE: 4}


def test_failed_rows_are_retried_in_a_new_batch(url: str) -> None:
    """The failed lines were asked live, and failed there as well."""
    two = bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2)
    run = work_until_idle(launch_in_batches(two, url, target="sim-average+500"))
    assert status_counts(run) == {"Response": {Status.FAILED: 2}, "Judgment": {Status.FAILED: 4}}
    assert set(Response.objects.values_list("error", flat=True)) == {"ServerError"}
    Endpoint.objects.filter(name="sim-average-500").update(model="sim-average")
    before = simulator_stats(url)
    assert jobs_services.retry_failed(run.pk) == 2
    assert work_until_idle(run).status == Run.Status.FINISHED
    assert status_counts(run) == {"Response": {Status.DONE: 2}, "Judgment": {Status.DONE: 4}}
    after = simulator_stats(url)
    assert after["batch_billed"] - before["batch_billed"] == 6
    assert after["requests"] == before["requests"], "nothing was asked live"
    assert run.calls == Call.objects.filter(job=run, hit_of=None).count()
    assert jobs_services.retry_failed(run.pk) == 0


def test_judgments_with_unusable_replies_are_retried_live() -> None:
    """Such replies are paid for and in the ledger, from which a batch would reuse them."""

    class UnusableAtFirst(JudgeReplies):
        usable = False

        def reply(self, model: str, messages: Sequence[Message], seed: int) -> str:
            return super().reply(model, messages, seed) if self.usable or model != "sim-judge" else "I would not know."

    models = UnusableAtFirst()
    with run_in_background(make_app([models], seed=SEED)) as url:
        run = work_until_idle(launch_in_batches(bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2), url))
        assert status_counts(run) == {"Response": {Status.DONE: 2}, "Judgment": {Status.FAILED: 4}}
        models.usable = True
        before = simulator_stats(url)
        assert jobs_services.retry_failed(run.pk) == 4
        assert work_until_idle(run).status == Run.Status.FINISHED
        assert status_counts(run) == {"Response": {Status.DONE: 2}, "Judgment": {Status.DONE: 4}}
        after = simulator_stats(url)
    assert after["batch_billed"] == before["batch_billed"]
    assert after["requests"] - before["requests"] == 4
    assert run.calls == after["batch_billed"] + after["requests"]


def test_a_missing_key_pauses_the_run_and_keys_are_never_stored(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launch_in_batches(release, url)
    Endpoint.objects.update(key_env="OWN_KEY")
    assert work_until_idle(run).paused_because == "KeyMissing"
    monkeypatch.setenv("OWN_KEY", "sk-very-secret")
    jobs_services.resume(run.pk)
    assert work_until_idle(run).status == Run.Status.FINISHED
    requests = [call.sent for call in Call.objects.all()]
    assert all(requests)
    rows = [*ProviderBatch.objects.values(), *ProviderLine.objects.values(), *Call.objects.values(), *requests]
    assert not [row for row in rows if "sk-very-secret" in str(row)]


# -------------------------------------------------------------------------------------------- kills


class Killed(BaseException):
    """Stands for kill -9: nothing is written after it."""


def kill_at(run: Run, monkeypatch: pytest.MonkeyPatch, clock: Clock, owner: Any, name: str, *, after: bool) -> None:
    """Work on a run until `name` is called, die before or after the call, and expire the leases."""
    original = getattr(owner, name)

    if name in ("upload", "create", "state"):

        async def die(*args: Any, **kwargs: Any) -> Any:
            if after:
                await original(*args, **kwargs)
            raise Killed
    else:

        def die(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            if after:
                original(*args, **kwargs)
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, die)
        with pytest.raises(Killed):
            work_until_finished(run)
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
def test_a_kill_at_any_step_loses_nothing_and_pays_nothing_twice(
    release: Release, monkeypatch: pytest.MonkeyPatch, clock: Clock, owner: Any, name: str, after: bool
) -> None:
    with simulated_models(batch_delay=0.05) as url:
        run = launch_in_batches(release, url)
        kill_at(run, monkeypatch, clock, owner, name, after=after)
        assert work_until_finished(run).status == Run.Status.FINISHED
        stats = simulator_stats(url)
    assert stats["batches"] == 2
    assert stats["batch_billed"] == 12
    assert run.calls == stats["batch_billed"] + stats["requests"]
    assert (
        Counter(ProviderLine.objects.filter(call__isnull=False).values_list("identity", flat=True)).most_common(1)[0][1]
        == 1
    )


def test_a_batch_is_recognised_by_its_file_when_the_endpoint_drops_our_metadata(
    release: Release, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    original = BatchStore._advanced

    def forgetful(store: BatchStore, batch: Any) -> Any:
        batch.shown["metadata"] = None
        return original(store, batch)

    monkeypatch.setattr(BatchStore, "_advanced", forgetful)
    with simulated_models() as url:
        run = launch_in_batches(release, url)
        kill_at(run, monkeypatch, clock, BatchClient, "create", after=True)
        assert work_until_finished(run).status == Run.Status.FINISHED
        stats = simulator_stats(url)
    assert (stats["batches"], stats["batch_billed"]) == (2, 12)


def test_a_kill_while_a_batch_is_prepared_gives_its_rows_back(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    run = launch_in_batches(release, url)
    kill_at(run, monkeypatch, clock, provider_batch_filling, "_requeue", after=False)
    assert not ProviderBatch.objects.exists()
    assert work_until_idle(run).status == Run.Status.FINISHED
    assert simulator_stats(url)["batch_billed"] == 12


def test_a_worker_that_lost_its_lease_writes_nothing(release: Release, url: str, clock: Clock) -> None:
    run = launch_in_batches(release, url)
    work.work_on_run(run.pk)
    provider_batch = ProviderBatch.objects.first()
    assert provider_batch is not None
    with pytest.raises(provider_batch_results.BatchGone):
        provider_batch_results.note_progress(provider_batch, batch="another")


# ---------------------------------------------------------------------------- budget, pause, cancel


def test_a_run_never_submits_more_lines_than_its_budget_of_calls(release: Release, url: str) -> None:
    run = work_until_idle(launch_in_batches(release, url, budget_calls=6))
    assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BudgetSpent")
    assert run.calls == 6 == simulator_stats(url)["batch_billed"]
    life_cycle.change_limits(run.pk, budget_money=None, budget_calls=None)
    assert work_until_idle(run).status == Run.Status.FINISHED


def test_money_is_reserved_before_a_batch_is_submitted(release: Release) -> None:
    with simulated_models(batch_delay=600) as url:
        budget = Decimal("0.006")  # at half of 10 per million tokens, and 600 tokens or more per line
        run = launch_in_batches(release, url, budget_money=budget)
        work.work_on_run(run.pk)
        [batch] = queries.provider_batches_of(run)
        assert 0 < batch.lines_count < 4
        reserved = batch.lines.aggregate(cost=Sum("estimate"))["cost"]
        assert reserved <= budget
        run.refresh_from_db()
        assert run.status == Run.Status.RUNNING, "the results may cost less than reserved"
        assert run.rests_until is not None


def test_live_calls_get_only_the_calls_that_batches_leave(release: Release) -> None:
    with simulated_models(batch_delay=600) as url:
        run = launch_in_batches(release, url, budget_calls=5)
        work.work_on_run(run.pk)
        assert ledger.outstanding(run).count() == 4
        assert ledger.reserve(run, 3, lane=create_lane(run).pk, now=timezone.now()) == 1


def test_live_calls_get_only_the_money_that_batches_leave(release: Release, clock: Clock, settings: Any) -> None:
    settings.MHB_BATCH_POLL_SECONDS = 60.0
    with simulated_models(batch_delay=600) as url:
        run = launch_in_batches(release, url, budget_money=Decimal(1))
        work.work_on_run(run.pk)
        reserved = ledger.outstanding(run).aggregate(cost=Sum("estimate"))["cost"]
        assert reserved > 0
        room = Decimal("0.0001")
        Run.objects.filter(pk=run.pk).update(cost=1 - reserved - room)
        assert ledger.reserve(run, 3, lane=create_lane(run).pk, now=clock()) == 3
        Run.objects.filter(pk=run.pk).update(cost=1 - reserved)
        assert ledger.reserve(run, 3, lane=create_lane(run).pk, now=clock()) == 0
        job = life_cycle.pause(run.pk, because="BudgetSpent")
        assert job.status == Run.Status.RUNNING, "the results may cost less than reserved"
        assert job.rests_until == ProviderBatch.objects.get().next_at
        Run.objects.filter(pk=run.pk).update(cost=1)
        assert ledger.reserve(run, 3, lane=create_lane(run).pk, now=clock()) == 0
        assert life_cycle.pause(run.pk, because="BudgetSpent").status == Run.Status.PAUSED


def test_the_reserved_money_follows_measured_costs(release: Release, url: str) -> None:
    limit = 4_000
    endpoint(url, "sim-average", batches=True, max_tokens=limit, **PRICES)
    run = launch_in_batches(release, url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider_batches, "advance_batches", lambda run: None)
        work.work_on_run(run.pk)
    lowest = limit * PRICES["price_out"] / 2 / 1_000_000
    estimates = ProviderLine.objects.values_list("estimate", flat=True)
    assert all(lowest < estimate < lowest * 2 for estimate in estimates), (
        "nothing was measured yet, so the longest reply is assumed"
    )
    assert work_until_idle(run).status == Run.Status.FINISHED
    ProviderLine.objects.all().update(estimate=0)
    again = launch_run(release, url, "sim-average", transport=BATCH, fresh=True)
    work.work_on_run(again.pk)
    assert all(
        0 < estimate < lowest for estimate in estimates.filter(batch__job=again, batch__endpoint__name="sim-average")
    )


def test_a_paused_run_submits_nothing_and_collects_submitted_batches(release: Release) -> None:
    with simulated_models(batch_delay=0.3) as url:
        _pause_at_every_step(launch_in_batches(release, url), url)


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
    assert simulator_stats(url)["files"] == 0, "the batch is prepared, but not submitted"
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
    assert work_until_finished(run).status == Run.Status.FINISHED


def test_a_cancelled_run_cancels_its_batches_and_keeps_finished_lines(release: Release) -> None:
    # Long enough that even on a busy machine the batch is cancelled before its end.
    with simulated_models(batch_delay=6.0) as url:
        run = launch_in_batches(release, url)
        work.work_on_run(run.pk)
        time.sleep(1.6)
        jobs_services.cancel(run.pk)
        work_until_idle(run)
        stats = simulator_stats(url)
    [batch] = queries.provider_batches_of(run)
    assert (batch.remote_status, batch.state) == ("cancelled", State.COLLECTED)
    assert 0 < batch.answered < 4
    assert batch.answered + batch.missing == 4
    assert run.calls == stats["batch_billed"] == batch.answered
    assert not sweep(RUNS)


def test_a_cancelled_run_drops_batches_that_were_never_submitted(release: Release, url: str) -> None:
    run = launch_in_batches(release, url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider_batches, "advance_batches", lambda run: None)
        work.work_on_run(run.pk)
    jobs_services.cancel(run.pk)
    work_until_idle(run)
    assert [batch.state for batch in queries.provider_batches_of(run)] == [State.DROPPED]
    assert simulator_stats(url)["batches"] == 0


# ---------------------------------------------------------------------------------- harmful results


def submit_batch(run: Run) -> ProviderBatch:
    """Work on a run until its provider batch is submitted."""
    work.work_on_run(run.pk)
    batch: ProviderBatch = queries.provider_batches_of(run).get()
    assert batch.state == State.SUBMITTED
    return batch


def die(*_: Any, **__: Any) -> Any:
    raise Killed


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_batch_that_kills_its_workers_is_given_up(
    release: Release, monkeypatch: pytest.MonkeyPatch, clock: Clock, cancelled: bool
) -> None:
    deaths = 0
    monkeypatch.setattr(provider_batch_results, "_store_results", die)
    with simulated_models() as url:
        run = launch_in_batches(release, url)
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
    batch = queries.provider_batches_of(run).get()
    assert deaths == 10
    assert (batch.state, batch.status, batch.error) == (State.DROPPED, Status.DONE, "GivenUp")
    assert (run.status, run.paused_because) == ((run.Status.CANCELLED, "") if cancelled else ("paused", "GivenUp"))
    assert life_cycle.advice(run).startswith("" if cancelled else "Check with the provider")
    assert stats["batches"] == 1, "only a person can have it submitted again"
    assert run.pk not in sweep(RUNS)
    assert not ledger.outstanding(run).exists()


def test_a_step_that_keeps_failing_is_retried_and_finally_given_up(
    release: Release, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("x")

    with simulated_models() as url:
        run = launch_in_batches(release, url)
        monkeypatch.setattr(provider_batches, "_close", broken)
        for _ in range(15):
            work.work_on_run(run.pk)
            clock.advance(minutes=5)
    batch = queries.provider_batches_of(run).get()
    run.refresh_from_db()
    assert (batch.state, batch.error, batch.answered) == (State.DROPPED, "GivenUp", 4)
    assert run.paused_because == "GivenUp"


INVALID_RESULTS: list[dict[str, Any]] = [
    {"error": {"code": [1]}, "response": None},
    {"error": {"code": {"a": 1}, "message": [1]}},
    {"error": [1], "response": 5},
    {"response": {"status_code": 200, "body": [{"choices": 5}]}},
    {"response": {"status_code": 500, "body": {"error": {"code": [1], "message": {}}}}},
]
TOO_LONG = {"response": {"status_code": 200, "body": {"choices": [{"message": {"content": "x" * 2**20}}]}}}


def test_invalid_results_are_asked_live_and_the_others_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    original, invalid = BatchStore.content, [*INVALID_RESULTS, TOO_LONG]
    too_long: list[str] = []

    async def garbled(batches: BatchStore, request: web.Request) -> web.Response:
        response = await original(batches, request)
        lines = [json.loads(line) for line in bytes(response.body).splitlines()]  # type: ignore[arg-type]
        too_long.extend(line["custom_id"] for line in lines[:-1][len(INVALID_RESULTS) :: len(invalid)])
        altered = [{**line, **invalid[at % len(invalid)]} for at, line in enumerate(lines[:-1])]
        return web.Response(body=b"\n".join(json.dumps(line).encode() for line in [*altered, lines[-1]]))

    monkeypatch.setattr(BatchStore, "content", garbled)
    with simulated_models() as url:
        run = work_until_idle(launch_in_batches(release_of(samples=len(invalid) + 1), url))
    assert run.status == Run.Status.FINISHED
    batch = queries.provider_batches_of(run).order_by("pk")[0]
    assert (batch.state, batch.answered, batch.refused, batch.missing) == (State.COLLECTED, 1, len(INVALID_RESULTS), 1)
    missing = batch.lines.get(call=None)
    assert missing.custom_id.hex in too_long
    assert status_counts(run)["Response"] == {Status.DONE: len(invalid) + 1}
    assert run.calls == Call.objects.filter(job=run, hit_of=None).count()


def test_a_result_that_cannot_be_stored_is_asked_live_and_the_others_are_kept(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, unwritable = ledger.write, list[Any]()

    def write(job: Run, lines: Sequence[ledger.LedgerLine], **options: Any) -> list[Call]:
        good = [line for line in lines if not line.attempt.error]
        unwritable[:] = unwritable or [line.attempt.id for line in good[1:2]]
        if [line for line in good if line.attempt.id in unwritable]:
            raise ValueError("the database cannot store this")
        return original(job, lines, **options)

    monkeypatch.setattr(ledger, "write", write)
    run = work_until_idle(launch_in_batches(release, url))
    assert run.status == Run.Status.FINISHED
    batch = queries.provider_batches_of(run).order_by("pk")[0]
    assert (batch.state, batch.answered, batch.refused) == (State.COLLECTED, 3, 1)
    assert status_counts(run)["Response"] == {Status.DONE: 4}


def test_a_batch_that_never_ends_is_given_up_after_a_month(release: Release, clock: Clock) -> None:
    with simulated_models(batch_delay=10**9) as url:
        run = launch_in_batches(release, url)
        batch = submit_batch(run)
        work.work_on_run(run.pk)
        clock.advance(days=31)
        work.work_on_run(run.pk)
    batch.refresh_from_db()
    assert (batch.state, batch.error) == (State.DROPPED, "BatchLost")


# ------------------------------------------------------------------------------------------ waiting


def test_no_worker_is_woken_while_a_batch_is_pending(release: Release, settings: Any, clock: Clock) -> None:
    settings.MHB_BATCH_POLL_SECONDS = 60.0
    with simulated_models(batch_delay=600) as url:
        run = launch_in_batches(release, url)
        assert sweep(RUNS) == [run.pk]
        work.work_on_run(run.pk)
        clock.advance(seconds=1)
        assert sweep(RUNS) == []
        assert run.pk not in RUNS.due()
        clock.advance(minutes=2)
        assert sweep(RUNS) == [run.pk]
        work.work_on_run(run.pk)
        assert sweep(RUNS) == []
        run.refresh_from_db()
        assert run.status == Run.Status.RUNNING


def test_no_worker_is_woken_while_batches_cannot_be_filled_yet(release: Release, url: str, settings: Any) -> None:
    """Of two lanes one has live rows in flight, whose judgments belong in the same batch.

    The other one finds nothing to do.
    """
    settings.MHB_LANES = 2
    live, batched = endpoint(url, "sim-careful"), endpoint(url, "sim-average", batches=True)
    run = services.launch_run(
        RunSettings(release=release, endpoints=[live, batched], judge=endpoint(url, "sim-judge"), transport=BATCH)
    )
    in_flight = take(Response.objects.filter(run=run, endpoint=live).order_by("pk"), 100)
    assert in_flight
    work.work_on_run(run.pk)
    assert not ProviderBatch.objects.exists()
    assert run.pk not in RUNS.due()
    assert sweep(RUNS) == []
    for row in in_flight:
        requeue(row)
    assert run.pk in RUNS.due()
    assert work_until_idle(run).status == Run.Status.FINISHED


def test_an_unreachable_endpoint_is_tried_again_later(release: Release, settings: Any, clock: Clock) -> None:
    settings.MHB_BATCH_POLL_SECONDS = 60.0
    with simulated_models() as url:
        run = launch_in_batches(release, url)
    work.work_on_run(run.pk)
    [batch] = queries.provider_batches_of(run)
    assert (batch.state, batch.error) == (State.PREPARED, "NobodyListens")
    assert sweep(RUNS) == []
    with simulated_models() as url:
        Endpoint.objects.update(url=url)
        clock.advance(minutes=2)
        settings.MHB_BATCH_POLL_SECONDS = 0.0
        assert work_until_idle(run).status == Run.Status.FINISHED


def test_many_rows_are_split_into_several_batches(release: Release, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_batches, "MAX_LINES", 3)
    run = work_until_idle(launch_in_batches(release, url))
    assert run.status == Run.Status.FINISHED
    assert [batch.lines_count for batch in queries.provider_batches_of(run)][:2] == [3, 1]
    assert simulator_stats(url)["batch_billed"] == 12


def test_no_file_exceeds_the_size_that_providers_allow(
    release: Release, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_batch_filling, "MAX_BYTES", 10)
    run = work_until_idle(launch_in_batches(release, url))
    assert {batch.lines_count for batch in queries.provider_batches_of(run)} == {1}
    assert run.status == Run.Status.FINISHED


# ----------------------------------------------------------------------------------------- together


@pytest.mark.django_db(transaction=True)
def test_concurrent_workers_submit_each_request_once(run_concurrently: RunConcurrently) -> None:
    with simulated_models(batch_delay=0.2) as url:
        run = launch_in_batches(release_of(samples=4), url)
        for _ in range(20):
            outcomes = run_concurrently([partial(work.work_on_run, run.pk)] * 3)
            assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
            run.refresh_from_db()
            if run.status == Run.Status.FINISHED:
                break
            time.sleep(0.1)
        stats = simulator_stats(url)
    assert run.status == Run.Status.FINISHED
    assert stats["batch_billed"] == 12
    assert run.calls == stats["batch_billed"] + stats["requests"]


# ------------------------------------------------------------------------------------- page and API


def test_the_form_accepts_batches_only_if_an_endpoint_offers_them(
    release: Release, adela: User, client: Client, url: str
) -> None:
    client.force_login(adela)
    for model in ("sim-average", "sim-judge"):
        endpoint(url, model)
    form = {
        "release": release.pk,
        "endpoints": ["sim-average"],
        "judge": "sim-judge",
        "judging": Run.Judging.PER_RUBRIC,
        "transport": BATCH,
    }
    refused = client.post(reverse("evaluation:run-new"), form)
    assert refused.status_code == 422
    assert "None of these endpoints supports provider batches." in refused.content.decode()
    Endpoint.objects.filter(name="sim-judge").update(batches=True)
    estimate = client.post(reverse("evaluation:run-new"), form)
    assert estimate.status_code == 200
    assert f'name="transport" value="{BATCH}"' in estimate.content.decode(), "the confirmation keeps the transport"
    assert client.post(reverse("evaluation:run-new"), {**form, "confirmed": "1"}).status_code == 302
    assert Run.objects.get().transport == BATCH


def test_the_page_lists_batches_with_a_fixed_number_of_queries(
    release: Release, adela: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(adela)

    def page(run: Run) -> tuple[str, int]:
        """The page of a run, and the number of queries that it needs."""
        client.get(reverse("evaluation:run", args=[run.pk]))  # so that lookups which are cached do not count
        with CaptureQueriesContext(connection) as executed:
            text = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
        return text, len(executed)

    with simulated_models(hang=0) as url:
        few = work_until_idle(launch_in_batches(release, url, target="sim-average+timeout@0.5"))
        monkeypatch.setattr(provider_batches, "MAX_LINES", 1)
        many = work_until_idle(launch_in_batches(release, url, target="sim-careful", fresh=True))
        live = launch_run(release, url, "sim-careful")
    text, query_count = page(few)
    assert text.count(">collected</span>") == 2
    [expired] = queries.provider_batches_of(few).filter(remote_status="expired")
    row = re.sub(r"\s+", "", strip_tags(text[text.index("provider-batches") :])).partition("sim-average-timeout-0-5")[2]
    assert row.startswith(f"collected4{expired.answered}0{expired.missing}")
    text, query_count_of_many = page(many)
    assert text.count(">collected</span>") == 12
    assert query_count_of_many == query_count
    monkeypatch.setattr(views, "BATCHES_SHOWN", 5)
    text, _ = page(many)
    assert text.count(">collected</span>") == 5
    assert "The API lists all of them" in text
    assert "provider-batches" not in page(live)[0]
    progress = client.get(reverse("evaluation:run-progress", args=[live.pk])).content.decode()
    assert "provider-batches" not in progress


def test_the_command_launches_a_run_in_batches_and_waits_for_it(release: Release, url: str, manage: Manage) -> None:
    for name in ("sim-average", "sim-judge"):
        manage.json("add_endpoint", name, "--url", url, "--model", name, "--batches", "--batch-discount", "0.25")
    assert set(Endpoint.objects.values_list("batches", "batch_discount")) == {(True, Decimal("0.25"))}
    options = ["--release", "bare", "--endpoint", "sim-average", "--judge", "sim-judge", "--transport", "batch"]
    assert manage.json("evaluate", *options, "--yes", "--wait")["status"] == "finished"
    assert simulator_stats(url)["batch_billed"] == 12


def test_the_api_shows_the_state_of_each_batch(release: Release, adela: User, client: Client) -> None:
    with simulated_models(hang=0) as url:
        run = work_until_idle(launch_in_batches(release, url, target="sim-average+timeout@0.5"))
    client.force_login(adela)
    data = client.get(f"/api/v1/runs/{run.pk}/").json()
    assert data["transport"] == "batch"
    first = data["provider_batches"][0]
    assert (first["state"], first["remote_status"], first["lines"]) == ("collected", "expired", 4)
    assert first["answered"] + first["missing"] == 4
