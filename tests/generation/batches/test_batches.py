"""Batches: every record once, nothing broken before a physician, every attempt in the ledger, and an end to everything."""

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

from generation import errors
from generation.batches import launch
from generation.batches import queries as batches_queries
from generation.batches import services as batches_services
from generation.batches.kind import BATCHES
from generation.batches.launch import BatchSettings
from generation.endpoints import services as endpoints_services
from generation.engine.sweeping import sweep
from generation.engine.task_queue import MAX_TRIES, give_back_expired, take
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.models import Batch, Call, Draft, Endpoint, Lane, Rubric, Sample, SampleVersion, Source
from generation.models.work import Work
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import Dropped, Models, Step, per_draft
from generation.sources import queries as sources_queries
from mhb_site.benchmarks.mhb import recipe
from review.models import Case
from tests.conftest import Clock, Together
from tests.engine import (
    calls,
    conversations_file,
    drafts,
    endpoint,
    generated,
    held,
    imported,
    launched,
    reports_file,
    simulated,
    statuses,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status


@pytest.fixture
def source(tmp_path: Path, db: None) -> Source:
    """Six conversations."""
    return imported(conversations_file(tmp_path / "own.jsonl", 6))


def nothing_for_physicians() -> bool:
    return not (Case.objects.exists() or Sample.objects.exists() or SampleVersion.objects.exists())


# ------------------------------------------------------------------------------------------------------------ launch


def test_what_cannot_be_launched(source: Source, models: str) -> None:
    generator = endpoint(models)
    with pytest.raises(errors.UnknownBenchmark, match="mhb"):
        launch.launch_batch(BatchSettings(benchmark="mbh", source=source, roles={"generator": generator}))
    with pytest.raises(errors.RolesUnbound, match="generator"):
        launch.launch_batch(BatchSettings(benchmark="mhb", source=source, roles={"judge": generator}))
    for limit in (0, -1):
        with pytest.raises(errors.NothingToDo):
            launched(source, generator, limit)
    assert not Batch.objects.exists()
    assert not Draft.objects.exists()


def test_a_record_is_used_once(source: Source, models: str) -> None:
    generator = endpoint(models)
    oldest = list(sources_queries.records(source).values_list("pk", flat=True))
    first, second = launched(source, generator, 2), launched(source, generator)
    assert list(first.drafts.order_by("pk").values_list("record", flat=True)) == oldest[:2]
    assert list(second.drafts.order_by("pk").values_list("record", flat=True)) == oldest[2:]
    with pytest.raises(errors.NothingToDo):
        launched(source, generator)
    assert Batch.objects.count() == 2


def test_launches_at_once_use_no_record_twice(tmp_path: Path, together: Together, models: str) -> None:
    source = imported(conversations_file(tmp_path / "own.jsonl", 40))
    generator = endpoint(models)
    outcomes = together([lambda: launched(source, generator, 25)] * 4)
    made = [outcome for outcome in outcomes if isinstance(outcome, Batch)]
    assert len(made) == 2
    assert all(isinstance(outcome, errors.NothingToDo) for outcome in outcomes if outcome not in made), outcomes
    assert Draft.objects.count() == 40
    assert Draft.objects.values("record").distinct().count() == 40


# ---------------------------------------------------------------------------------------------------------- the work


def test_a_batch_from_drafts_to_cases(source: Source, tmp_path: Path, models: str) -> None:
    reports = imported(reports_file(tmp_path / "own.json", 3), "own-reports", "pmc-patients")
    batches = [generated(source, endpoint(models)), generated(reports, endpoint(models))]
    assert [batch.status for batch in batches] == [Batch.Status.FINISHED] * 2
    assert all(batch.finished_at for batch in batches)
    assert not Lane.objects.exists()
    assert [statuses(batch) for batch in batches] == [{Status.DONE: 6}, {Status.DONE: 3}]
    assert Counter(Sample.objects.values_list("task", flat=True)) == {"dialogue": 6, "report": 3}
    assert set(Sample.objects.values_list("status", flat=True)) == {Sample.Status.IN_REVIEW}
    for version in SampleVersion.objects.select_related("case", "sample__record", "draft"):
        assert version.number == 1
        assert version.case.state == Case.State.PRIMARY
        assert version.case.lineage == version.sample.key
        assert version.simulated
        assert version.case.simulated
        asked = [rubric.criterion for rubric in version.case.frozen.form.rubrics]
        assert asked == list(version.rubrics.order_by("pk").values_list("criterion", flat=True))
        assert asked
        if version.sample.task == "dialogue":  # the source as it was, beside what became of it
            assert version.content["source_turns"] == version.sample.record.content["turns"]
        else:
            assert version.content["report"] == version.sample.record.content["text"]


def test_the_ledger_has_the_whole_call(source: Source, models: str) -> None:
    generator = endpoint(models, temperature=0.7, price_in=Decimal("1.25"), price_out=Decimal("5"))
    batch = generated(source, generator, 1)
    [call] = calls(batch)
    draft = batch.drafts.get()
    assert calls(f"draft:{draft.pk}") == [call]
    assert (call.endpoint, call.model, call.prompt) == (generator, "sim-generator", recipe.INJECT_DIALOGUE.label)
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


def test_lanes_at_once_work_on_each_draft_once(tmp_path: Path, together: Together, models: str) -> None:
    batch = launched(imported(conversations_file(tmp_path / "own.jsonl", 24)), endpoint(models, concurrency=3))
    outcomes = together([lambda: batches_services.work_on_batch(batch.pk)] * 3)
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    assert sum(outcomes) == 24
    assert set(batch.drafts.values_list("status", "tries")) == {(Status.DONE, 1)}
    assert Sample.objects.count() == Case.objects.count() == len(calls(batch)) == 24


def test_no_more_calls_at_once_than_the_endpoint_allows(source: Source) -> None:
    with simulated(latency=0.02) as url:
        generated(source, endpoint(url, concurrency=2))
        assert _served(url)["peak_in_flight"] == 2


def test_workers_woken_at_once_keep_to_what_the_endpoint_allows(
    tmp_path: Path, together: Together, models: str
) -> None:
    source = imported(conversations_file(tmp_path / "own.jsonl", 12))
    with simulated(latency=0.05) as url:
        batch = launched(source, endpoint(url, concurrency=2))
        outcomes = together([lambda: batches_services.work_on_batch(batch.pk)] * 4)
        assert sum(outcomes) == 12, outcomes
        assert _served(url)["peak_in_flight"] == 2


def test_an_endpoint_that_turns_out_simulated_is_marked(source: Source, models: str) -> None:
    generator = endpoint(models, name="harmless")
    Endpoint.objects.update(simulated=False)
    generated(source, generator, 2)
    assert Endpoint.objects.get().simulated
    assert set(SampleVersion.objects.values_list("simulated", flat=True)) == {True}


# ------------------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("fault", ["broken-json", "wrong-schema", "refusal"])
def test_what_is_not_valid_never_reaches_a_physician(source: Source, models: str, fault: str) -> None:
    batch = generated(source, endpoint(models, f"sim-generator+{fault}"), 2)
    assert batch.status == Batch.Status.FINISHED
    assert nothing_for_physicians()
    for draft in batch.drafts.all():
        assert (draft.status, draft.error) == (Status.FAILED, "BrokenReply")
        assert "reply" in draft.detail or "JSON" in draft.detail
        tries = calls(f"draft:{draft.pk}")
        assert len(tries) == 2, "it was shown its own error once"
        assert all(call.text and not call.error for call in tries), "each was answered, and is kept as it was"
        said_again = tries[1].sent["messages"][-1]["content"]
        assert said_again.startswith("Your last reply cannot be used.")
        assert tries[1].sent["messages"][-2]["content"] == tries[0].text


def test_a_reply_that_breaks_a_rule_is_asked_again_with_the_reason(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MHB-5: valid JSON, but no bait question at its end."""
    from mhb_site.benchmarks.mhb import simulate

    class Forgetful(simulate.MhbModels):
        def reply(self, model: str, messages: Any, seed: int) -> str | None:
            text = super().reply(model, messages, seed)
            if text is None or len(messages) > 2:
                return text
            made = json.loads(text)
            return json.dumps({**made, "turns": made["turns"][:-1]})

    monkeypatch.setattr(simulate, "SCRIPT", Forgetful())
    with simulated() as url:
        batch = generated(source, endpoint(url), 2)
    assert statuses(batch) == {Status.DONE: 2}
    for draft in batch.drafts.all():
        first, second = calls(f"draft:{draft.pk}")
        assert "There is no bait question" in second.sent["messages"][-1]["content"]
        assert first.attempt == second.attempt == 1, "both were answered at once"
    assert Case.objects.count() == 2


@pytest.mark.parametrize(
    ("fault", "error", "status"),
    [
        ("429", "RateLimited", 429),
        ("500", "ServerError", 500),
        ("cut", "ConnectionCut", None),
        ("timeout", "TimedOut", None),
    ],
)
def test_a_fault_heals_and_every_attempt_is_in_the_ledger(
    source: Source, fault: str, error: str, status: int | None
) -> None:
    # Dice of these very prompts: with this seed no draft is struck five times running, and some are struck once.
    with simulated(f"{fault}@0.4", seed=3) as url:
        batch = generated(source, endpoint(url, timeout=0.8 if fault == "timeout" else 10, price_in="1", price_out="2"))
        served = _served(url)
    assert statuses(batch) == {Status.DONE: 6}
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


def test_a_fault_that_does_not_heal(source: Source, models: str) -> None:
    batch = generated(source, endpoint(models, "sim-generator+500"), 2)
    assert batch.status == Batch.Status.FINISHED
    assert set(batch.drafts.values_list("status", "error")) == {(Status.FAILED, "ServerError")}
    assert [call.attempt for call in calls(f"draft:{batch.drafts.order_by('pk')[0].pk}")] == [1, 2, 3, 4, 5]
    assert nothing_for_physicians()
    progress = BATCHES.progress(batch)
    assert (progress.failed, progress.total, progress.percent) == (2, 2, 100)


def test_a_key_that_is_not_there(source: Source, models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OWN_TEST_KEY", raising=False)
    batch = generated(source, endpoint(models, key_env="OWN_TEST_KEY"))
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "KeyMissing")
    assert "OWN_TEST_KEY" in batch.paused_detail
    assert set(batch.drafts.values_list("status", "error", "tries")) == {(Status.QUEUED, "", 0)}
    assert calls(batch) == []
    assert sweep(BATCHES) == []
    monkeypatch.setenv("OWN_TEST_KEY", "is-there-now")
    jobs_services.resume(batch.pk)
    batches_services.work_on_batch(batch.pk)
    assert statuses(batch) == {Status.DONE: 6}


def test_a_slip_in_the_address_can_be_mended(source: Source, models: str) -> None:
    generator = endpoint(f"{models}/v2")
    batch = generated(source, generator, 1)
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "EndpointDown")
    assert {call.error for call in calls(batch)} == {"NotThere"}
    endpoints_services.change_endpoint(generator, url=models)
    jobs_services.resume(batch.pk)
    batches_services.work_on_batch(batch.pk)
    assert statuses(batch) == {Status.DONE: 1}
    endpoints_services.change_endpoint(generator, url="https://elsewhere.example/v1")
    assert Endpoint.objects.get().url == models, "it has answered: results name it"


def _served(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as answer:
        return dict(json.load(answer))


# ----------------------------------------------------------------------------------------------- retry, cancel, settle


def test_retry_takes_up_what_failed_and_nothing_else(source: Source, models: str) -> None:
    generator = endpoint(models, "sim-generator+wrong-schema@0.7")
    batch = generated(source, generator)
    before = statuses(batch)
    assert before[Status.FAILED] >= 1
    assert before[Status.DONE] >= 1
    kept = set(Sample.objects.values_list("pk", flat=True))
    endpoints_services.change_endpoint(generator, concurrency=2)
    Endpoint.objects.update(model="sim-generator")
    assert jobs_services.retry_failed(batch.pk) == before[Status.FAILED]
    batch.refresh_from_db()
    assert (batch.status, batch.finished_at) == (Batch.Status.RUNNING, None)
    assert not batch.drafts.exclude(error="").exists()
    assert sweep(BATCHES) == [batch.pk]
    assert batches_services.work_on_batch(batch.pk) == before[Status.FAILED]
    assert statuses(batch) == {Status.DONE: 6}
    assert Sample.objects.count() == 6
    assert kept < set(Sample.objects.values_list("pk", flat=True))
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED
    assert jobs_services.retry_failed(batch.pk) == 0
    assert Batch.objects.get().status == Batch.Status.FINISHED


def test_what_a_finished_batch_failed_at_goes_to_a_later_one_and_is_not_tried_twice(
    source: Source, models: str
) -> None:
    generator = endpoint(models, "sim-generator+wrong-schema@0.7")
    batch = generated(source, generator)
    failed = set(batch.drafts.filter(status=Status.FAILED).values_list("record_id", flat=True))
    assert 1 <= len(failed) < 6
    left = batches_queries.records_without_draft(source, "mhb", recipe.RECIPE.kinds)
    assert set(left.values_list("pk", flat=True)) == failed
    Endpoint.objects.update(model="sim-generator")
    later = generated(source, generator, limit=1)
    taken = later.drafts.get().record_id
    assert taken in failed
    assert not left.filter(pk=taken).exists()
    assert jobs_services.retry_failed(batch.pk) == len(failed) - 1
    batches_services.work_on_batch(batch.pk)
    assert Sample.objects.count() == 6
    assert not left.exists()


def test_a_batch_beside_which_it_is_compared_is_no_later_one(source: Source, models: str) -> None:
    settings = BatchSettings(
        benchmark="mhb", source=source, roles={"generator": endpoint(models)}, compare="v1", limit=2
    )
    first, second = launch.launch_comparison(settings).batches.order_by("arm")
    first.drafts.update(status=Status.FAILED)
    second.drafts.update(status=Status.DONE)
    sweep(BATCHES)
    assert set(Batch.objects.values_list("status", flat=True)) == {Batch.Status.FINISHED}
    assert batches_queries.records_without_draft(source, "mhb", recipe.RECIPE.kinds).count() == 4
    assert jobs_services.retry_failed(first.pk) == 2


def test_a_retry_does_not_start_a_second_lane(source: Source, models: str) -> None:
    batch = launched(source, endpoint(models))
    Draft.objects.filter(pk=batch.drafts.order_by("pk")[0].pk).update(status=Status.FAILED)
    held(batch)
    assert jobs_services.retry_failed(batch.pk) == 1
    assert sweep(BATCHES) == [], "the lane that lives takes it up"
    assert batches_services.work_on_batch(batch.pk) == 0


def test_a_cancelled_batch_asks_nothing_and_frees_its_records(source: Source, models: str) -> None:
    batch = launched(source, endpoint(models))
    jobs_services.cancel(batch.pk)
    assert batches_services.work_on_batch(batch.pk) == 0
    assert sweep(BATCHES) == []
    assert calls(batch) == []
    ended = Batch.objects.get()
    assert ended.status == Batch.Status.CANCELLED
    assert jobs_services.cancel(batch.pk).finished_at == ended.finished_at, "twice is as good as once"
    for over in (jobs_services.retry_failed, life_cycle.pause, jobs_services.resume):
        with pytest.raises(errors.JobOver):
            over(batch.pk)
    assert statuses(generated(source, endpoint(models))) == {Status.DONE: 6}


def test_a_finished_batch_cannot_be_cancelled(source: Source, models: str) -> None:
    batch = generated(source, endpoint(models), 1)
    with pytest.raises(errors.JobOver):
        jobs_services.cancel(batch.pk)


def test_cancelled_while_it_runs_what_is_in_flight_is_kept(
    source: Source, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = launched(source, endpoint(models, concurrency=2))
    read, begun = batches_queries.draft_values, 0

    def cancelling(rows: list[Draft]) -> list[DraftValue]:
        nonlocal begun
        begun, before = begun + len(rows), begun
        if before < 5 <= begun:  # four were in hand before the first was answered
            jobs_services.cancel(batch.pk)
        return read(rows)

    monkeypatch.setattr(batches_queries, "draft_values", cancelling)
    batches_services.work_on_batch(batch.pk)
    done = Sample.objects.count()
    assert 1 <= done <= 5
    assert statuses(batch) == {Status.DONE: done, Status.QUEUED: 6 - done}
    assert len(calls(batch)) == done, "nothing was asked after it was cancelled"
    assert set(batch.drafts.filter(status=Status.QUEUED).values_list("tries", flat=True)) == {0}
    assert Batch.objects.get().status == Batch.Status.CANCELLED
    assert batches_queries.records_without_draft(source, "mhb", recipe.RECIPE.kinds).count() == 6 - done


def test_the_sweeper_finds_what_nobody_is_on(source: Source, models: str, clock: Clock) -> None:
    idle, busy, stale = (launched(source, endpoint(models), 2) for _ in range(3))
    held(stale)
    clock.advance(minutes=2)
    held(busy)
    assert sweep(BATCHES) == [stale.pk, idle.pk]
    batches_services.work_on_batch(idle.pk)
    assert sweep(BATCHES) == [stale.pk]


def test_a_batch_whose_worker_died_before_it_settled(source: Source, models: str) -> None:
    batch = launched(source, endpoint(models), 2)
    Draft.objects.update(status=Status.FAILED)
    sweep(BATCHES)
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED


# ------------------------------------------------------------------------------------------------- recipes of any shape


def steps(monkeypatch: pytest.MonkeyPatch, *made: Step) -> None:
    monkeypatch.setattr(recipe, "RECIPE", replace(recipe.RECIPE, steps=made))


def marked(draft: DraftValue, name: str) -> DraftValue:
    return replace(draft, data={**draft.data, "steps": [*draft.data.get("steps", []), name]})


async def first(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    return [marked(draft, "first")]


async def drop(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    raise Dropped("Nothing in it invites a trap.")


async def none(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    return []


async def twins(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    return [marked(draft, "left"), marked(draft, "right")]


@pytest.fixture
def bare(models: str) -> Batch:
    """Three drafts with a generator."""
    batch = drafts(3)
    batch.roles.create(role="generator", endpoint=endpoint(models))
    return batch


def test_what_stops_the_lane_again_and_again_is_given_up(
    bare: Batch, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    begun: Counter[str] = Counter()

    async def stumble(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
        begun[draft.record.external_id] += 1
        raise ZeroDivisionError

    steps(monkeypatch, per_draft(stumble))
    for _ in range(MAX_TRIES):
        with pytest.raises(ZeroDivisionError):
            batches_services.work_on_batch(bare.pk)
        clock.advance(minutes=2)
        assert sweep(BATCHES) == [bare.pk]
    batches_services.work_on_batch(bare.pk)
    assert statuses(bare) == {Status.FAILED: 3}
    assert set(bare.drafts.values_list("error", flat=True)) == {"GivenUp"}
    assert max(begun.values()) == MAX_TRIES
    bare.refresh_from_db()
    assert bare.status == Batch.Status.FINISHED
    assert jobs_services.retry_failed(bare.pk) == 3
    assert set(bare.drafts.values_list("tries", flat=True)) == {0}


@pytest.mark.parametrize(("step", "detail"), [(drop, "Nothing in it invites a trap."), (none, "none")])
def test_given_up_is_not_failed(bare: Batch, monkeypatch: pytest.MonkeyPatch, step: Any, detail: str) -> None:
    steps(monkeypatch, per_draft(step), per_draft(recipe.inject))
    batches_services.work_on_batch(bare.pk)
    assert set(bare.drafts.values_list("status", "error", "detail")) == {(Status.DROPPED, "Dropped", detail)}
    assert jobs_services.retry_failed(bare.pk) == 0
    bare.refresh_from_db()
    assert bare.status == Batch.Status.FINISHED
    assert nothing_for_physicians()


def test_a_draft_resumes_at_the_step_it_had_come_to(bare: Batch, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    asked = 0

    async def counted(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
        nonlocal asked
        asked += 1
        return [marked(draft, "counted")]

    async def dies(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
        raise ZeroDivisionError

    steps(monkeypatch, per_draft(counted), per_draft(dies))
    with pytest.raises(ZeroDivisionError):
        batches_services.work_on_batch(bare.pk)
    assert asked == 3
    steps(monkeypatch, per_draft(counted), per_draft(recipe.inject))
    clock.advance(minutes=2)
    assert sweep(BATCHES) == [bare.pk]
    batches_services.work_on_batch(bare.pk)
    assert asked == 3, "the first step is not paid for again"
    assert statuses(bare) == {Status.DONE: 3}
    assert Sample.objects.count() == 3


def test_one_draft_becomes_several(bare: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    steps(monkeypatch, per_draft(first), per_draft(twins), per_draft(recipe.inject))
    batches_services.work_on_batch(bare.pk)
    assert statuses(bare) == {Status.DONE: 9}
    assert bare.drafts.filter(parent=None).count() == 3
    assert Sample.objects.count() == 6
    assert set(Counter(Sample.objects.values_list("record", flat=True)).values()) == {2}


def test_a_lost_lease_makes_no_second_sample(bare: Batch, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """The first lane slept through its lease after the model had answered; another has made the sample meanwhile."""
    keep, slept = batches_services._store_outputs, 0

    def sleepy(row: Draft, batch: Batch, outputs: list[DraftValue]) -> None:
        nonlocal slept
        if not slept:
            slept = row.pk
            Draft.objects.filter(pk=row.pk).update(lease_until=clock.now - timedelta(seconds=1))  # this one alone
            give_back_expired(Draft)
            [again] = take(Draft.objects.filter(pk=row.pk).order_by("pk"), 1)
            keep(again, batch, outputs)
        keep(row, batch, outputs)

    monkeypatch.setattr(batches_services, "_store_outputs", sleepy)
    batches_services.work_on_batch(bare.pk)
    assert statuses(bare) == {Status.DONE: 3}
    assert Sample.objects.count() == Case.objects.count() == SampleVersion.objects.count() == 3
    assert Rubric.objects.values("version", "key").distinct().count() == Rubric.objects.count()


def test_a_batch_without_a_model(bare: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.roles.all().delete()
    steps(monkeypatch, per_draft(first), per_draft(none))
    assert batches_services.work_on_batch(bare.pk) == 6
    assert not Call.objects.exists()
