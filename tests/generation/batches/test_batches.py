"""Batches take each record once, show physicians nothing broken, and always come to an end.

Every attempt to call a model is in the ledger.
"""

import json
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from generation import errors
from generation.batches import launch
from generation.batches import queries as batches_queries
from generation.batches import services as batches_services
from generation.batches.kind import BATCHES
from generation.batches.launch import BatchSettings
from generation.endpoints import services as endpoints_services
from generation.engine import ledger
from generation.engine.sweeping import sweep
from generation.engine.task_queue import MAX_TRIES, requeue_expired, take
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.models import Batch, Call, Draft, Endpoint, Lane, Rubric, Sample, SampleVersion, Source
from generation.models.jobs import Job
from generation.models.work import Work
from generation.recipes import registry
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import Dropped, Models, Step, per_draft
from generation.sources import queries as sources_queries
from mhb_site.benchmarks.mhb import recipe
from review.models import Case
from tests.conftest import Clock, RunConcurrently
from tests.engine import (
    calls,
    conversations_file,
    create_lane,
    drafts,
    endpoint,
    import_file,
    launch_batch,
    reports_file,
    run_batch,
    simulator,
    simulator_of_calls_at_once,
    status_counts,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status


def no_cases_or_samples() -> bool:
    return not (Case.objects.exists() or Sample.objects.exists() or SampleVersion.objects.exists())


# ------------------------------------------------------------------------------------------- launch


def test_unknown_benchmarks_unbound_roles_and_empty_batches_are_refused(source: Source, models: str) -> None:
    generator = endpoint(models)
    with pytest.raises(errors.UnknownBenchmark, match="mhb"):
        launch.launch_batch(BatchSettings(benchmark="mbh", source=source, roles={"generator": generator}))
    with pytest.raises(errors.RolesUnbound, match="generator"):
        launch.launch_batch(BatchSettings(benchmark="mhb", source=source, roles={"judge": generator}))
    theirs = Endpoint.objects.create(name="theirs", model="theirs", url="")
    disabled = endpoint(models, "disabled", name="off", disabled=True)
    for unusable in (theirs, disabled):
        with pytest.raises(errors.NotCallable, match=unusable.name):
            launch.launch_batch(BatchSettings(benchmark="mhb", source=source, roles={"generator": unusable}))
    with pytest.raises(errors.InvalidSettings, match="limit"):
        launch_batch(source, generator, 0)
    assert not Batch.objects.exists()
    assert not Draft.objects.exists()


def test_a_record_is_used_once(source: Source, models: str) -> None:
    generator = endpoint(models)
    oldest = list(sources_queries.records(source).values_list("pk", flat=True))
    first, second = launch_batch(source, generator, 2), launch_batch(source, generator)
    assert list(first.drafts.order_by("pk").values_list("record", flat=True)) == oldest[:2]
    assert list(second.drafts.order_by("pk").values_list("record", flat=True)) == oldest[2:]
    with pytest.raises(errors.NothingToDo):
        launch_batch(source, generator)
    assert Batch.objects.count() == 2


def test_concurrent_launches_use_no_record_twice(
    tmp_path: Path, run_concurrently: RunConcurrently, models: str
) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 40))
    generator = endpoint(models)
    outcomes = run_concurrently([lambda: launch_batch(source, generator, 25)] * 4)
    batches = [outcome for outcome in outcomes if isinstance(outcome, Batch)]
    assert len(batches) == 2
    assert all(isinstance(outcome, errors.NothingToDo) for outcome in outcomes if outcome not in batches), outcomes
    assert Draft.objects.count() == 40
    assert Draft.objects.values("record").distinct().count() == 40


# ----------------------------------------------------------------------------------------- the work


def test_drafts_become_samples_with_open_cases(source: Source, tmp_path: Path, models: str) -> None:
    reports = import_file(reports_file(tmp_path / "own.json", 3), "own-reports", "pmc-patients")
    batches = [run_batch(source, endpoint(models)), run_batch(reports, endpoint(models))]
    assert [batch.status for batch in batches] == [Batch.Status.FINISHED] * 2
    assert all(batch.finished_at for batch in batches)
    assert not Lane.objects.exists()
    assert [status_counts(batch) for batch in batches] == [{Status.DONE: 6}, {Status.DONE: 3}]
    assert Counter(Sample.objects.values_list("task", flat=True)) == {"dialogue": 6, "report": 3}
    assert set(Sample.objects.values_list("status", flat=True)) == {Sample.Status.IN_REVIEW}
    for version in SampleVersion.objects.select_related("case", "sample__record", "draft"):
        assert version.number == 1
        assert version.case.state == Case.State.PRIMARY
        assert version.case.lineage == version.sample.key
        assert version.simulated
        assert version.case.simulated
        criteria = [rubric.criterion for rubric in version.case.frozen.form.rubrics]
        assert criteria == list(version.rubrics.order_by("pk").values_list("criterion", flat=True))
        assert criteria
        if version.sample.task == "dialogue":  # the original text, beside the changed one
            assert version.content["source_turns"] == version.sample.record.content["turns"]
        else:
            assert version.content["report"] == version.sample.record.content["text"]


def test_the_ledger_contains_the_whole_call(source: Source, models: str) -> None:
    generator = endpoint(models, temperature=0.7, price_in=Decimal("1.25"), price_out=Decimal("5"))
    batch = run_batch(source, generator, 1)
    [call] = calls(batch)
    draft = batch.drafts.get()
    assert calls(f"draft:{draft.pk}") == [call]
    assert (call.endpoint, call.model, call.prompt) == (
        generator,
        "sim-generator",
        recipe.SETS[""]["inject_dialogue"].label,
    )
    assert call.sent["temperature"] == 0.7
    system, user = call.sent["messages"]
    assert system["content"].startswith("# MHB trap architect")
    assert "This is case 1." in user["content"]
    assert json.loads(call.text)["rubrics"], "the raw reply"
    assert (call.attempt, call.error, call.http_status, call.simulated) == (1, "", 200, True)
    assert call.tokens_in > 1000
    assert call.tokens_out > 100
    assert call.cost == (call.tokens_in * Decimal("1.25") + call.tokens_out * 5) / 1_000_000
    assert call.seconds > 0


def test_concurrent_lanes_work_on_each_draft_once(
    tmp_path: Path, run_concurrently: RunConcurrently, models: str
) -> None:
    batch = launch_batch(import_file(conversations_file(tmp_path / "own.jsonl", 24)), endpoint(models, concurrency=3))
    outcomes = run_concurrently([lambda: batches_services.work_on_batch(batch.pk)] * 3)
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    assert sum(outcomes) == 24
    assert set(batch.drafts.values_list("status", "tries")) == {(Status.DONE, 1)}
    assert Sample.objects.count() == Case.objects.count() == len(calls(batch)) == 24


def test_a_batch_keeps_to_the_concurrency_of_its_endpoint(source: Source) -> None:
    with simulator_of_calls_at_once(2) as url:
        run_batch(source, endpoint(url, concurrency=2))
        assert _served(url)["peak_in_flight"] == 2


def test_concurrent_workers_keep_to_the_concurrency_of_the_endpoint(
    tmp_path: Path, run_concurrently: RunConcurrently, models: str
) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 12))
    with simulator_of_calls_at_once(2) as url:
        batch = launch_batch(source, endpoint(url, concurrency=2))
        outcomes = run_concurrently([lambda: batches_services.work_on_batch(batch.pk)] * 4)
        assert sum(outcomes) == 12, outcomes
        assert _served(url)["peak_in_flight"] == 2


def test_an_endpoint_that_turns_out_simulated_is_marked(source: Source, models: str) -> None:
    generator = endpoint(models, name="harmless")
    Endpoint.objects.update(simulated=False)
    run_batch(source, generator, 2)
    assert Endpoint.objects.get().simulated
    assert set(SampleVersion.objects.values_list("simulated", flat=True)) == {True}


# ------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("fault", ["broken-json", "wrong-schema", "refusal"])
def test_an_invalid_reply_never_reaches_a_physician(source: Source, models: str, fault: str) -> None:
    batch = run_batch(source, endpoint(models, f"sim-generator+{fault}"), 2)
    assert batch.status == Batch.Status.FINISHED
    assert no_cases_or_samples()
    for draft in batch.drafts.all():
        assert (draft.status, draft.error) == (Status.FAILED, "BrokenReply")
        assert "reply" in draft.detail or "JSON" in draft.detail
        attempts = calls(f"draft:{draft.pk}")
        assert len(attempts) == 2, "the model was told of its error once"
        assert all(call.text and not call.error for call in attempts), "each reply is stored unchanged"
        correction = attempts[1].sent["messages"][-1]["content"]
        assert correction.startswith("Your last reply cannot be used.")
        assert attempts[1].sent["messages"][-2]["content"] == attempts[0].text


def test_a_reply_that_breaks_a_rule_is_requested_again_with_the_reason(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is valid JSON but lacks the bait question at its end."""
    from mhb_site.benchmarks.mhb import simulate

    script = simulate.SCRIPT

    class Forgetful:
        def reply(self, model: str, messages: Any, seed: int) -> str | None:
            text = script.reply(model, messages, seed)
            if text is None or len(messages) > 2:
                return text
            content = json.loads(text)
            return json.dumps({**content, "turns": content["turns"][:-1]})

    monkeypatch.setattr(simulate, "SCRIPT", Forgetful())
    with simulator() as url:
        batch = run_batch(source, endpoint(url), 2)
    assert status_counts(batch) == {Status.DONE: 2}
    for draft in batch.drafts.all():
        first, second = calls(f"draft:{draft.pk}")
        assert "There is no bait question" in second.sent["messages"][-1]["content"]
        assert first.attempt == second.attempt == 1, "both calls succeeded at the first attempt"
    assert Case.objects.count() == 2


@pytest.mark.parametrize(
    ("fault", "error", "status"),
    [
        ("429", "RateLimited", 429),
        ("500", "ServerError", 500),
        ("cut", "ConnectionCut", None),
    ],
)
def test_calls_recover_from_a_fault_and_every_attempt_is_in_the_ledger(
    source: Source, fault: str, error: str, status: int | None
) -> None:
    # Faults depend on the seed and the prompts: with this seed, no draft fails five times in a row,
    # and some fail once.
    with simulator(f"{fault}@0.4", seed=3) as url:
        batch = run_batch(source, endpoint(url, price_in="1", price_out="2"))
        served = _served(url)
    assert status_counts(batch) == {Status.DONE: 6}
    ledger = calls(batch)
    failed = [call for call in ledger if call.error]
    assert failed
    assert {(call.error, call.http_status, call.text) for call in failed} == {(error, status, "")}
    assert len(ledger) == len(failed) + 6 == served["requests"]
    for draft in batch.drafts.all():
        assert [call.attempt for call in calls(f"draft:{draft.pk}")] == list(
            range(1, len(calls(f"draft:{draft.pk}")) + 1)
        )
    progress = BATCHES.progress(batch)
    assert progress.calls == len(ledger)
    tokens = sum(call.tokens_in + 2 * call.tokens_out for call in ledger)
    assert progress.cost == Decimal(tokens) / 1_000_000
    assert progress.cost > 0


def test_a_permanent_fault_fails_the_drafts_after_five_attempts(source: Source, models: str) -> None:
    batch = run_batch(source, endpoint(models, "sim-generator+500"), 2)
    assert batch.status == Batch.Status.FINISHED
    assert set(batch.drafts.values_list("status", "error")) == {(Status.FAILED, "ServerError")}
    assert [call.attempt for call in calls(f"draft:{batch.drafts.order_by('pk')[0].pk}")] == [1, 2, 3, 4, 5]
    assert no_cases_or_samples()
    progress = BATCHES.progress(batch)
    assert (progress.failed, progress.total, progress.percent) == (2, 2, 100)


def test_a_missing_key_pauses_the_batch_until_it_is_set(
    source: Source, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OWN_TEST_KEY", raising=False)
    batch = run_batch(source, endpoint(models, key_env="OWN_TEST_KEY"))
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "KeyMissing")
    assert "OWN_TEST_KEY" in batch.paused_detail
    assert set(batch.drafts.values_list("status", "error", "tries")) == {(Status.QUEUED, "", 0)}
    assert calls(batch) == []
    assert sweep(BATCHES) == []
    monkeypatch.setenv("OWN_TEST_KEY", "is-there-now")
    jobs_services.resume(batch.pk)
    batches_services.work_on_batch(batch.pk)
    assert status_counts(batch) == {Status.DONE: 6}


def test_a_wrong_address_can_be_corrected_until_the_endpoint_has_answered(source: Source, models: str) -> None:
    generator = endpoint(f"{models}/v2")
    batch = run_batch(source, generator, 1)
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "EndpointDown")
    assert {call.error for call in calls(batch)} == {"NotFound"}
    endpoints_services.change_endpoint(generator, url=models)
    jobs_services.resume(batch.pk)
    batches_services.work_on_batch(batch.pk)
    assert status_counts(batch) == {Status.DONE: 1}
    with pytest.raises(ValidationError, match="already been called"):
        endpoints_services.change_endpoint(generator, url="https://elsewhere.example/v1", concurrency=2)
    assert Endpoint.objects.get().url == models, "the endpoint has answered, and results name it"
    assert Endpoint.objects.get().concurrency != 2, "all is changed, or nothing"


def _served(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as answer:
        return dict(json.load(answer))


# ---------------------------------------------------------------------------- retry, cancel, settle


def test_retry_requeues_failed_drafts_and_no_others(source: Source, models: str) -> None:
    generator = endpoint(models, "sim-generator+wrong-schema@0.7")
    batch = run_batch(source, generator)
    before = status_counts(batch)
    assert before[Status.FAILED] >= 1
    assert before[Status.DONE] >= 1
    first_samples = set(Sample.objects.values_list("pk", flat=True))
    endpoints_services.change_endpoint(generator, concurrency=2)
    Endpoint.objects.update(model="sim-generator")
    assert jobs_services.retry_failed(batch.pk) == before[Status.FAILED]
    batch.refresh_from_db()
    assert (batch.status, batch.finished_at) == (Batch.Status.RUNNING, None)
    assert not batch.drafts.exclude(error="").exists()
    assert sweep(BATCHES) == [batch.pk]
    assert batches_services.work_on_batch(batch.pk) == before[Status.FAILED]
    assert status_counts(batch) == {Status.DONE: 6}
    assert Sample.objects.count() == 6
    assert first_samples < set(Sample.objects.values_list("pk", flat=True))
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED
    assert jobs_services.retry_failed(batch.pk) == 0
    assert Batch.objects.get().status == Batch.Status.FINISHED


def test_a_record_that_failed_in_a_finished_batch_goes_to_a_later_one_and_is_not_retried(
    source: Source, models: str
) -> None:
    generator = endpoint(models, "sim-generator+wrong-schema@0.7")
    batch = run_batch(source, generator)
    failed = set(batch.drafts.filter(status=Status.FAILED).values_list("record_id", flat=True))
    assert 1 <= len(failed) < 6
    remaining = batches_queries.records_without_draft(source, "mhb", recipe.RECIPE.kinds)
    assert set(remaining.values_list("pk", flat=True)) == failed
    Endpoint.objects.update(model="sim-generator")
    later = run_batch(source, generator, limit=1)
    taken = later.drafts.get().record_id
    assert taken in failed
    assert not remaining.filter(pk=taken).exists()
    assert jobs_services.retry_failed(batch.pk) == len(failed) - 1
    batches_services.work_on_batch(batch.pk)
    assert Sample.objects.count() == 6
    assert not remaining.exists()


def test_a_retry_ignores_the_other_batch_of_a_comparison(source: Source, models: str) -> None:
    settings = BatchSettings(
        benchmark="mhb", source=source, roles={"generator": endpoint(models)}, compare="v1", limit=2, checks=()
    )
    first, second = launch.launch_comparison(settings).batches.order_by("arm")
    first.drafts.update(status=Status.FAILED)
    second.drafts.update(status=Status.DONE)
    sweep(BATCHES)
    assert set(Batch.objects.values_list("status", flat=True)) == {Batch.Status.FINISHED}
    assert batches_queries.records_without_draft(source, "mhb", recipe.RECIPE.kinds).count() == 4
    assert jobs_services.retry_failed(first.pk) == 2


def test_a_retry_does_not_start_a_second_lane(source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models))
    Draft.objects.filter(pk=batch.drafts.order_by("pk")[0].pk).update(status=Status.FAILED)
    create_lane(batch)
    assert jobs_services.retry_failed(batch.pk) == 1
    assert sweep(BATCHES) == [], "the lane that is running takes the draft"
    assert batches_services.work_on_batch(batch.pk) == 0


def test_a_cancelled_batch_calls_no_model_and_frees_its_records(source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models))
    jobs_services.cancel(batch.pk)
    assert batches_services.work_on_batch(batch.pk) == 0
    assert sweep(BATCHES) == []
    assert calls(batch) == []
    ended = Batch.objects.get()
    assert ended.status == Batch.Status.CANCELLED
    assert jobs_services.cancel(batch.pk).finished_at == ended.finished_at, "cancelling twice does no harm"
    for action in (jobs_services.retry_failed, life_cycle.pause, jobs_services.resume):
        with pytest.raises(errors.JobOver):
            action(batch.pk)
    assert status_counts(run_batch(source, endpoint(models))) == {Status.DONE: 6}


def test_a_finished_batch_cannot_be_cancelled(source: Source, models: str) -> None:
    batch = run_batch(source, endpoint(models), 1)
    with pytest.raises(errors.JobOver):
        jobs_services.cancel(batch.pk)


def test_drafts_in_flight_are_kept_when_a_running_batch_is_cancelled(
    source: Source, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = launch_batch(source, endpoint(models, concurrency=2))
    reserve, started = ledger.reserve, 0

    def reserve_and_cancel(job: Job, count: int, **lane: Any) -> int | None:
        nonlocal started
        granted = reserve(job, count, **lane)
        started += granted or 0
        if started >= 2 and granted:  # the first call is over, and one or two others begin
            jobs_services.cancel(batch.pk)
        return granted

    monkeypatch.setattr(ledger, "reserve", reserve_and_cancel)
    batches_services.work_on_batch(batch.pk)
    done = Sample.objects.count()
    assert done == started < 6, "each call that had begun was finished"
    assert status_counts(batch) == {Status.DONE: done, Status.QUEUED: 6 - done}
    assert len(calls(batch)) == done, "no model was called after the cancellation"
    assert set(batch.drafts.filter(status=Status.QUEUED).values_list("tries", flat=True)) == {0}
    assert Batch.objects.get().status == Batch.Status.CANCELLED
    assert batches_queries.records_without_draft(source, "mhb", recipe.RECIPE.kinds).count() == 6 - done


def test_the_sweeper_finds_batches_that_no_lane_works_on(source: Source, models: str, clock: Clock) -> None:
    idle, busy, stale = (launch_batch(source, endpoint(models), 2) for _ in range(3))
    create_lane(stale)
    clock.advance(minutes=2)
    create_lane(busy)
    assert sweep(BATCHES) == [idle.pk, stale.pk]
    batches_services.work_on_batch(idle.pk)
    assert sweep(BATCHES) == [stale.pk]


def test_the_sweeper_finishes_a_batch_whose_worker_died_before_doing_so(source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models), 2)
    Draft.objects.update(status=Status.FAILED)
    sweep(BATCHES)
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED


# ----------------------------------------------------------------------------- recipes of any shape


def set_steps(monkeypatch: pytest.MonkeyPatch, *steps: Step) -> None:
    monkeypatch.setattr(recipe, "RECIPE", replace(recipe.RECIPE, steps=steps))


def add_step_name(draft: DraftValue, name: str) -> DraftValue:
    return replace(draft, data={**draft.data, "steps": [*draft.data.get("steps", []), name]})


async def add_first(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    return [add_step_name(draft, "first")]


async def drop_draft(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    raise Dropped("Nothing in it invites a trap.")


async def return_nothing(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    return []


async def split_in_two(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    return [add_step_name(draft, "left"), add_step_name(draft, "right")]


@pytest.fixture
def bare(models: str) -> Batch:
    """Three drafts with a generator."""
    batch = drafts(3)
    batch.roles.create(role="generator", endpoint=endpoint(models))
    return batch


def test_a_draft_that_stops_its_lane_again_and_again_fails(
    bare: Batch, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    attempts: Counter[str] = Counter()

    async def crash(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
        attempts[draft.record.external_id] += 1
        raise ZeroDivisionError

    set_steps(monkeypatch, per_draft(crash))
    for _ in range(MAX_TRIES):
        with pytest.raises(ZeroDivisionError):
            batches_services.work_on_batch(bare.pk)
        clock.advance(minutes=2)
        assert sweep(BATCHES) == [bare.pk]
    batches_services.work_on_batch(bare.pk)
    assert status_counts(bare) == {Status.FAILED: 3}
    assert set(bare.drafts.values_list("error", flat=True)) == {"GivenUp"}
    assert max(attempts.values()) == MAX_TRIES
    bare.refresh_from_db()
    assert bare.status == Batch.Status.FINISHED
    assert jobs_services.retry_failed(bare.pk) == 3
    assert set(bare.drafts.values_list("tries", flat=True)) == {0}


@pytest.mark.parametrize(
    ("step", "detail"), [(drop_draft, "Nothing in it invites a trap."), (return_nothing, "return_nothing")]
)
def test_a_dropped_draft_has_not_failed(bare: Batch, monkeypatch: pytest.MonkeyPatch, step: Any, detail: str) -> None:
    set_steps(monkeypatch, per_draft(step), per_draft(recipe.inject))
    batches_services.work_on_batch(bare.pk)
    assert set(bare.drafts.values_list("status", "error", "detail")) == {(Status.DROPPED, "Dropped", detail)}
    assert jobs_services.retry_failed(bare.pk) == 0
    bare.refresh_from_db()
    assert bare.status == Batch.Status.FINISHED
    assert no_cases_or_samples()


def test_a_draft_resumes_at_the_step_that_was_interrupted(
    bare: Batch, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    runs = 0

    async def count_runs(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
        nonlocal runs
        runs += 1
        return [add_step_name(draft, "counted")]

    async def crash(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
        raise ZeroDivisionError

    set_steps(monkeypatch, per_draft(count_runs), per_draft(crash))
    with pytest.raises(ZeroDivisionError):
        batches_services.work_on_batch(bare.pk)
    assert runs == 3
    set_steps(monkeypatch, per_draft(count_runs), per_draft(recipe.inject))
    clock.advance(minutes=2)
    assert sweep(BATCHES) == [bare.pk]
    batches_services.work_on_batch(bare.pk)
    assert runs == 3, "the first step is not run again"
    assert status_counts(bare) == {Status.DONE: 3}
    assert Sample.objects.count() == 3


def test_one_draft_becomes_several(bare: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    set_steps(monkeypatch, per_draft(add_first), per_draft(split_in_two), per_draft(recipe.inject))
    batches_services.work_on_batch(bare.pk)
    assert status_counts(bare) == {Status.DONE: 9}
    assert bare.drafts.filter(parent=None).count() == 3
    assert Sample.objects.count() == 6
    assert set(Counter(Sample.objects.values_list("record", flat=True)).values()) == {2}


def test_a_lane_that_lost_its_lease_makes_no_second_sample(
    bare: Batch, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """The first lane's lease expires after the reply, and another lane makes the sample."""
    store_outputs, expired = batches_services._store_outputs, 0

    def store_after_expiry(row: Draft, batch: Batch, outputs: list[DraftValue]) -> None:
        nonlocal expired
        if not expired:
            expired = row.pk
            Draft.objects.filter(pk=row.pk).update(lease_until=clock.now - timedelta(seconds=1))
            requeue_expired(Draft)
            [claimed] = take(Draft.objects.filter(pk=row.pk).order_by("pk"), 1)
            store_outputs(claimed, batch, outputs)
        store_outputs(row, batch, outputs)

    monkeypatch.setattr(batches_services, "_store_outputs", store_after_expiry)
    batches_services.work_on_batch(bare.pk)
    assert status_counts(bare) == {Status.DONE: 3}
    assert Sample.objects.count() == Case.objects.count() == SampleVersion.objects.count() == 3
    assert Rubric.objects.values("version", "key").distinct().count() == Rubric.objects.count()


def test_a_batch_can_run_without_a_model(bare: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.roles.all().delete()
    set_steps(monkeypatch, per_draft(add_first), per_draft(return_nothing))
    assert batches_services.work_on_batch(bare.pk) == 6
    assert not Call.objects.exists()


def test_a_batch_with_one_record_first_pauses_when_that_has_ended(source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models), first_only=True)
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "FirstRecord")
    ended = batch.drafts.exclude(status=Status.QUEUED)
    assert set(ended.values_list("record", flat=True)) == {batches_queries.first_record(batch)}
    assert BATCHES.first_result(batch)
    jobs_services.resume(batch.pk)
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert (batch.status, batch.first_only) == (Batch.Status.FINISHED, False)
    assert not batch.drafts.filter(status=Status.QUEUED).exists()


def test_pages_name_each_setting_of_a_preset() -> None:
    for benchmark in registry.names():
        recipe = registry.recipe(benchmark)
        for preset in recipe.presets:
            assert preset.values.keys() <= recipe.setting_labels.keys(), benchmark
            quoted = [name for name in recipe.presets[0].values if "_" in name and name in preset.rule]
            assert not quoted, (benchmark, preset.name)
        texts = {text for _label, _name, values in batches_queries.presets(benchmark).rows for text in values}
        assert not texts & {"", "true", "false", "null"}, benchmark
        for plan in recipe.plans:
            assert registry.plan_label(benchmark, plan.name) != plan.name, benchmark
