"""Repeated steps, roles that several endpoints play, and barriers where a batch's drafts meet."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from django.test import override_settings

from generation import errors
from generation.batches import launch, rounds
from generation.batches import services as batches_services
from generation.batches.kind import BATCHES
from generation.batches.launch import BatchSettings
from generation.engine.task_queue import Claim, take
from generation.jobs import services as jobs_services
from generation.llm.errors import BadRequest
from generation.llm.types import Message, Request
from generation.models import BarrierRound, Batch, Call, Draft, MergeEvent, Sample, SampleVersion, Source
from generation.models.work import Work
from generation.outcomes import services as outcomes_services
from generation.recipes import registry
from generation.recipes.recipe import (
    Arrivals,
    Barrier,
    DraftGroup,
    MergedDraft,
    ModelRole,
    Models,
    NewSample,
    Recipe,
    Step,
)
from generation.recipes.recipe import Draft as DraftValue
from generation.samples import funnel
from review.models import User
from tests.engine import endpoint
from tests.generation.batches.test_second_shape import source_of
from tests.review.approve import rejection_of
from tests.review.factories import claim_and_submit
from tests.toys.brew import recipe as brew

pytestmark = pytest.mark.django_db
Status = Work.Status


async def talk(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    """Add one turn; the step is repeated until there is a turn for each word of the note."""
    turns = draft.data.get("turns", [])
    reply = await models.ask("writer", Request((Message("user", f"Turn {len(turns)}"),), prompt="brew/talk@1"))
    return [replace(draft, data={"turns": [*turns, reply.text], "by": models.model("writer")})]


def words(draft: DraftValue) -> list[str]:
    return str(draft.record.content["text"]).split()


async def split(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    return [replace(draft, data={**draft.data, "word": word}) for word in words(draft)]


async def meet(arrivals: Arrivals, models: Models, settings: Mapping[str, Any]) -> Sequence[DraftGroup]:
    """Merge drafts with equal words, and leave out 'no'."""
    await models.embed("embedder", ["all together"])
    numbers_by_word: dict[str, list[int]] = {}
    async for number, draft in arrivals:
        numbers_by_word.setdefault(draft.data["word"], []).append(number)
    numbers_by_word.pop("no", None)
    return [
        DraftGroup(lead, tuple(MergedDraft(n, 0.0, "same word") for n in merged))
        for lead, *merged in numbers_by_word.values()
    ]


def join(lead: DraftValue, others: Sequence[DraftValue]) -> Mapping[str, Any]:
    return {**lead.data, "count": 1 + len(others)}


def describe(data: Mapping[str, Any]) -> tuple[str, str]:
    return str(data["word"]), f"The word {data['word']}, of {data['by']}."


async def write(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    return [replace(draft, data={**draft.data, "written": draft.data.get("written", 0) + 1})]


def sample(draft: DraftValue) -> NewSample:
    return replace(
        brew.sample(draft), content={**draft.data, "text": draft.data["word"], "remarks": [], "settings": {}}
    )


RECIPE = Recipe(
    label="Brew",
    kinds=frozenset({"note"}),
    roles=(ModelRole("writer", "Writer", multiple=True), ModelRole("embedder", "Embedder")),
    steps=(
        Step("talk", talk, again=lambda draft: len(draft.data["turns"]) < len(words(draft))),
        Step("split", split),
        Barrier("meet", meet, describe, join),
        Step("write", write),
    ),
    sample=sample,
    restart="write",
    kept=lambda data: {name: value for name, value in data.items() if name != "written"},
)


@contextmanager
def brew_benchmark() -> Iterator[None]:
    """Use the toy benchmark as `toys` does, in populations, which are built before a test."""
    with override_settings(MHB_BENCHMARKS="tests.toys"), mock.patch.object(brew, "RECIPE", RECIPE):
        registry.module.cache_clear()
        yield
    registry.module.cache_clear()


@pytest.fixture(autouse=True)
def toys(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.MHB_BENCHMARKS = "tests.toys"
    registry.module.cache_clear()
    monkeypatch.setattr(brew, "RECIPE", RECIPE)
    yield
    registry.module.cache_clear()


def launch_brew(source: Source, models: str, *, several: Sequence[str] = ()) -> Batch:
    roles = {"writer": endpoint(models), "embedder": endpoint(models, "sim-embedder")}
    more_writers = [endpoint(models, name) for name in several]
    return launch.launch_batch(
        BatchSettings(benchmark="brew", source=source, roles=roles, further_endpoints=more_writers)
    )


def work_until_idle(batch: Batch) -> Batch:
    """Work on a batch until nothing is left to do, and return it reloaded."""
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    return batch


def continued_drafts(batch: Batch) -> dict[str, int]:
    """Return word -> number of drafts that were merged into one."""
    drafts = Draft.objects.filter(batch=batch, arrivals__isnull=False).distinct()
    return {data["word"]: data["count"] for data in drafts.values_list("data", flat=True)}


def test_a_repeated_step_is_stored_after_each_run_and_equal_words_are_merged(models: str) -> None:
    batch = work_until_idle(launch_brew(source_of("tea and milk", "milk no"), models))
    assert batch.status == Batch.Status.FINISHED, Draft.objects.values("status", "error", "detail")
    assert Call.objects.filter(job=batch, prompt="brew/talk@1").count() == 5, "one call for each turn"
    assert continued_drafts(batch) == {"tea": 1, "and": 1, "milk": 2}
    assert {version.content["written"] for version in SampleVersion.objects.all()} == {1}
    assert SampleVersion.objects.count() == 3
    [event] = MergeEvent.objects.all()
    assert (event.kind, event.reason, event.actor) == ("merged", "same word", None)
    assert Draft.objects.get(data__word="no").status == Status.DROPPED
    [round_] = BarrierRound.objects.all()
    assert (round_.status, round_.number) == (Status.DONE, 1)
    assert Call.objects.get(subject=f"barrierround:{round_.pk}").prompt
    whole = funnel.funnel("brew", [batch.pk]).whole
    assert whole.adds_up
    assert [(stage.name, stage.count) for stage in whole.stages[:4]] == [
        ("drawn", 2), ("drafted", 5), ("generated", 3), ("samples", 3),
    ]  # fmt: skip
    assert whole.stages[1].gained == {"split": 3}
    assert [(loss.kind, loss.count) for loss in whole.stages[1].lost] == [("dropped", 1), ("merged", 1)]


def test_each_endpoint_of_a_role_gets_a_draft_of_each_record(models: str) -> None:
    batch = launch_brew(source_of("tea", "milk"), models, several=["sim-average", "sim-average"])
    assert Draft.objects.filter(batch=batch).count() == 4
    work_until_idle(batch)
    assert continued_drafts(batch) == {"tea": 2, "milk": 2}
    first = Draft.objects.filter(batch=batch, parent=None)
    assert {(row.endpoint.name, row.data["by"]) for row in first.select_related("endpoint") if row.endpoint} == {
        (name, name) for name in ("sim-generator", "sim-average")
    }
    assert all(version.draft.endpoint_id for version in SampleVersion.objects.select_related("draft"))
    whole = funnel.funnel("brew", [batch.pk]).whole
    assert whole.adds_up
    assert (whole.stages[0].count, whole.stages[1].gained) == (2, {"generators": 2})


def test_a_role_for_one_endpoint_refuses_more_endpoints(models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brew, "RECIPE", replace(RECIPE, roles=(ModelRole("writer", "Writer"), RECIPE.roles[1])))
    with pytest.raises(errors.UnknownRole):
        launch_brew(source_of("tea"), models, several=["sim-average"])


def test_the_barrier_waits_until_no_draft_can_arrive(models: str) -> None:
    batch = launch_brew(source_of("tea", "tea milk"), models)
    slow = Draft.objects.filter(batch=batch).latest("pk")
    [held] = take(Draft.objects.filter(pk=slow.pk), 1, Claim())  # by another lane
    work_until_idle(batch)
    assert not BarrierRound.objects.exists()
    assert Draft.objects.get(batch=batch, at_barrier=True).data["word"] == "tea"
    assert not BATCHES.due(), "no draft can be claimed, so no worker is woken"
    Draft.objects.filter(pk=held.pk).update(status=Status.QUEUED, token=None, lease_until=None)
    assert BATCHES.due() == [batch.pk] * len(BATCHES.due()) != []
    work_until_idle(batch)
    assert continued_drafts(batch) == {"tea": 2, "milk": 1}


def test_a_late_draft_gets_a_round_of_its_own(models: str) -> None:
    batch = launch_brew(source_of("tea", "tea"), models)
    late = Draft.objects.filter(batch=batch).latest("pk")
    Draft.objects.filter(pk=late.pk).update(status=Status.FAILED, error="BadRequest")
    assert work_until_idle(batch).status == Batch.Status.FINISHED
    assert jobs_services.retry_failed(batch.pk) == 1
    work_until_idle(batch)
    assert [row.number for row in BarrierRound.objects.order_by("pk")] == [1, 2]
    assert Draft.objects.filter(batch=batch, arrivals__isnull=False).count() == 2, "the late draft was not merged"


def test_a_failed_round_fails_its_drafts_which_can_be_retried(models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(arrivals: Arrivals, models: Models, settings: Mapping[str, Any]) -> Sequence[DraftGroup]:
        raise BadRequest("no embeddings here")

    steps = (*RECIPE.steps[:2], Barrier("meet", refuse, describe, join), RECIPE.steps[3])
    monkeypatch.setattr(brew, "RECIPE", replace(RECIPE, steps=steps))
    batch = work_until_idle(launch_brew(source_of("tea", "tea"), models))
    failed = Draft.objects.filter(batch=batch, status=Status.FAILED)
    assert [(row.error, row.detail) for row in failed] == [("BadRequest", str(BadRequest("no embeddings here")))] * 2
    monkeypatch.setattr(brew, "RECIPE", RECIPE)
    assert jobs_services.retry_failed(batch.pk) == 2
    work_until_idle(batch)
    assert continued_drafts(batch) == {"tea": 2}


def test_a_round_whose_worker_lost_its_lease_is_done_once_by_another(models: str) -> None:
    batch = launch_brew(source_of("tea", "tea"), models)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "open_round", lambda _pk: None)
        work_until_idle(batch)
    opened = rounds.open_round(batch.pk)
    assert opened is not None
    assert rounds.open_round(batch.pk) is None
    [lost] = take(BarrierRound.objects.filter(pk=opened.pk), 1, Claim())
    rounds._send_on(drop_token(lost), batch, [])
    assert not Draft.objects.filter(batch=batch, onward__isnull=False).exists(), "the worker has lost its lease"
    BarrierRound.objects.filter(pk=lost.pk).update(status=Status.QUEUED, token=None, lease_until=None)
    work_until_idle(batch)
    assert continued_drafts(batch) == {"tea": 2}
    assert MergeEvent.objects.count() == 1


def drop_token(round_: BarrierRound) -> BarrierRound:
    round_.token = None
    return round_


def test_arriving_drafts_are_streamed_in_portions(models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "STREAMED", 2)
    batch = work_until_idle(launch_brew(source_of("a b c d e", "a b c d e"), models))
    assert continued_drafts(batch) == dict.fromkeys("abcde", 2)


def test_a_rejected_sample_restarts_at_the_step_that_the_recipe_names(models: str, ana: User, bo: User) -> None:
    work_until_idle(launch_brew(source_of("tea"), models))
    sample = Sample.objects.get()
    claim_and_submit(ana, lambda form: rejection_of(form, "Nobody says so."))
    claim_and_submit(bo, lambda form: rejection_of(form, "No."), lambda form: rejection_of(form, "No."))
    outcomes_services.apply_outcomes()
    draft = Draft.objects.get(sample=sample)
    assert (draft.step, draft.version, draft.at_barrier) == (3, 2, False)
    assert draft.data["word"] == "tea"
    assert "written" not in draft.data
    work_until_idle(Batch.objects.get())
    assert SampleVersion.objects.get(sample=sample, number=2).content["written"] == 1
