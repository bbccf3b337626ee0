"""Steps that are run again, a role that several endpoints play, and barriers at which the drafts of a batch meet."""

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
from generation.samples import services as samples_services
from review.models import User
from tests.engine import endpoint
from tests.generation.batches.test_second_shape import source_of
from tests.review.approve import rejection
from tests.review.factories import say
from tests.toys.brew import recipe as brew

pytestmark = pytest.mark.django_db
Status = Work.Status


async def talk(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    """One turn a run: as many as the note has words."""
    turns = draft.data.get("turns", [])
    said = await models.ask("writer", Request((Message("user", f"Turn {len(turns)}"),), prompt="brew/talk@1"))
    return [replace(draft, data={"turns": [*turns, said.text], "by": models.model("writer")})]


def words(draft: DraftValue) -> list[str]:
    return str(draft.record.content["text"]).split()


async def split(draft: DraftValue, models: Models) -> Sequence[DraftValue]:
    return [replace(draft, data={**draft.data, "word": word}) for word in words(draft)]


async def meet(arrivals: Arrivals, models: Models, settings: Mapping[str, Any]) -> Sequence[DraftGroup]:
    """Equal words go on as one; 'no' is left out."""
    await models.embed("embedder", ["all together"])
    found: dict[str, list[int]] = {}
    async for number, draft in arrivals:
        found.setdefault(draft.data["word"], []).append(number)
    found.pop("no", None)
    return [DraftGroup(lead, tuple(MergedDraft(n, 0.0, "same word") for n in more)) for lead, *more in found.values()]


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
    roles=(ModelRole("writer", "Writer", several=True), ModelRole("embedder", "Embedder")),
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
def brewing() -> Iterator[None]:
    """The same as `toys` for what is made before a test begins."""
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


def launched(source: Source, models: str, *, several: Sequence[str] = ()) -> Batch:
    roles = {"writer": endpoint(models), "embedder": endpoint(models, "sim-embedder")}
    beside = [endpoint(models, name) for name in several]
    return launch.launch_batch(BatchSettings(benchmark="brew", source=source, roles=roles, beside=beside))


def worked(batch: Batch) -> Batch:
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    return batch


def onward(batch: Batch) -> dict[str, int]:
    """Word -> how many drafts go on as one."""
    drafts = Draft.objects.filter(batch=batch, arrivals__isnull=False).distinct()
    return {data["word"]: data["count"] for data in drafts.values_list("data", flat=True)}


def test_a_step_is_stored_after_each_of_its_runs_and_every_word_meets_its_like(models: str) -> None:
    batch = worked(launched(source_of("tea and milk", "milk no"), models))
    assert batch.status == Batch.Status.FINISHED, Draft.objects.values("status", "error", "detail")
    assert Call.objects.filter(job=batch, prompt="brew/talk@1").count() == 5, "one call a turn"
    assert onward(batch) == {"tea": 1, "and": 1, "milk": 2}
    assert {version.content["written"] for version in SampleVersion.objects.all()} == {1}
    assert SampleVersion.objects.count() == 3
    [event] = MergeEvent.objects.all()
    assert (event.kind, event.reason, event.actor) == ("merged", "same word", None)
    assert Draft.objects.get(data__word="no").status == Status.DROPPED
    [met] = BarrierRound.objects.all()
    assert (met.status, met.number) == (Status.DONE, 1)
    assert Call.objects.get(subject=f"barrierround:{met.pk}").prompt


def test_each_endpoint_of_a_role_has_a_draft_for_each_record(models: str) -> None:
    batch = launched(source_of("tea", "milk"), models, several=["sim-average", "sim-average"])
    assert Draft.objects.filter(batch=batch).count() == 4
    worked(batch)
    assert onward(batch) == {"tea": 2, "milk": 2}
    first = Draft.objects.filter(batch=batch, parent=None)
    assert {(row.endpoint.name, row.data["by"]) for row in first.select_related("endpoint") if row.endpoint} == {
        (name, name) for name in ("sim-generator", "sim-average")
    }
    assert all(version.draft.endpoint_id for version in SampleVersion.objects.select_related("draft"))


def test_endpoints_beside_a_role_that_one_plays_are_refused(models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brew, "RECIPE", replace(RECIPE, roles=(ModelRole("writer", "Writer"), RECIPE.roles[1])))
    with pytest.raises(errors.UnknownRole):
        launched(source_of("tea"), models, several=["sim-average"])


def test_the_barrier_waits_as_long_as_a_draft_can_arrive(models: str) -> None:
    batch = launched(source_of("tea", "tea milk"), models)
    slow = Draft.objects.filter(batch=batch).latest("pk")
    [held] = take(Draft.objects.filter(pk=slow.pk), 1, Claim())  # another lane has it
    worked(batch)
    assert not BarrierRound.objects.exists()
    assert Draft.objects.get(batch=batch, at_barrier=True).data["word"] == "tea"
    assert not BATCHES.due(), "nothing is there to take: no worker is woken for it"
    Draft.objects.filter(pk=held.pk).update(status=Status.QUEUED, token=None, lease_until=None)
    assert BATCHES.due() == [batch.pk] * len(BATCHES.due()) != []
    worked(batch)
    assert onward(batch) == {"tea": 2, "milk": 1}


def test_a_late_draft_starts_a_round_of_its_own(models: str) -> None:
    batch = launched(source_of("tea", "tea"), models)
    late = Draft.objects.filter(batch=batch).latest("pk")
    Draft.objects.filter(pk=late.pk).update(status=Status.FAILED, error="BadRequest")
    assert worked(batch).status == Batch.Status.FINISHED
    assert jobs_services.retry_failed(batch.pk) == 1
    worked(batch)
    assert [row.number for row in BarrierRound.objects.order_by("pk")] == [1, 2]
    assert Draft.objects.filter(batch=batch, arrivals__isnull=False).count() == 2, "it met nobody"


def test_a_round_that_fails_fails_its_drafts_and_they_can_be_tried_again(
    models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(arrivals: Arrivals, models: Models, settings: Mapping[str, Any]) -> Sequence[DraftGroup]:
        raise BadRequest("no embeddings here")

    steps = (*RECIPE.steps[:2], Barrier("meet", refuse, describe, join), RECIPE.steps[3])
    monkeypatch.setattr(brew, "RECIPE", replace(RECIPE, steps=steps))
    batch = worked(launched(source_of("tea", "tea"), models))
    failed = Draft.objects.filter(batch=batch, status=Status.FAILED)
    assert [(row.error, row.detail) for row in failed] == [("BadRequest", str(BadRequest("no embeddings here")))] * 2
    monkeypatch.setattr(brew, "RECIPE", RECIPE)
    assert jobs_services.retry_failed(batch.pk) == 2
    worked(batch)
    assert onward(batch) == {"tea": 2}


def test_what_a_lost_worker_held_of_a_round_is_done_once_by_another(models: str) -> None:
    batch = launched(source_of("tea", "tea"), models)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "open_round", lambda _pk: None)
        worked(batch)
    opened = rounds.open_round(batch.pk)
    assert opened is not None
    assert rounds.open_round(batch.pk) is None
    [lost] = take(BarrierRound.objects.filter(pk=opened.pk), 1, Claim())
    rounds._send_on(replace_token(lost), batch, [])
    assert not Draft.objects.filter(batch=batch, onward__isnull=False).exists(), "its lease was lost"
    BarrierRound.objects.filter(pk=lost.pk).update(status=Status.QUEUED, token=None, lease_until=None)
    worked(batch)
    assert onward(batch) == {"tea": 2}
    assert MergeEvent.objects.count() == 1


def replace_token(row: BarrierRound) -> BarrierRound:
    row.token = None
    return row


def test_what_arrives_is_streamed_some_at_a_time(models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "STREAMED", 2)
    batch = worked(launched(source_of("a b c d e", "a b c d e"), models))
    assert onward(batch) == dict.fromkeys("abcde", 2)


def test_a_rejected_sample_begins_again_at_the_step_that_the_recipe_names(models: str, ana: User, bo: User) -> None:
    worked(launched(source_of("tea"), models))
    sample = Sample.objects.get()
    say(ana, lambda form: rejection(form, "Nobody says so."))
    say(bo, lambda form: rejection(form, "No."), lambda form: rejection(form, "No."))
    samples_services.apply_outcomes()
    again = Draft.objects.get(sample=sample)
    assert (again.step, again.version, again.at_barrier) == (3, 2, False)
    assert again.data["word"] == "tea"
    assert "written" not in again.data
    worked(Batch.objects.get())
    assert SampleVersion.objects.get(sample=sample, number=2).content["written"] == 1
