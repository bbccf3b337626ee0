"""Near matches: a draft that missed the round is shown with the earlier draft that it resembles.

An admin can merge the two across rounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.jobs import services as jobs_services
from generation.models import BarrierRound, Batch, Draft, NearMatch, Sample
from generation.models.work import Work
from generation.recipes.recipe import Arrivals, Barrier, Models, NearDraft
from tests.engine import Manage
from tests.generation.batches.test_barriers import RECIPE, continued_drafts, launch_brew, toys, work_until_idle
from tests.generation.batches.test_second_shape import source_of, text_of
from tests.toys.brew import recipe as brew

__all__ = ["toys"]

pytestmark = pytest.mark.django_db


async def find_near_matches(
    late: Arrivals, earlier: Arrivals, models: Models, settings: Mapping[str, Any]
) -> Sequence[NearDraft]:
    """Match drafts with equal words; their distance grows with the word's length."""
    known = {draft.data["word"]: number async for number, draft in earlier}
    return [
        NearDraft(number, known[word], len(word) / 100, "same word")
        async for number, draft in late
        if (word := draft.data["word"]) in known
    ]


@pytest.fixture
def late_match(models: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Batch, Draft, Draft]:
    """A batch whose second record missed the first round; its earlier and its late draft 'milk'."""
    barrier = RECIPE.steps[2]
    assert isinstance(barrier, Barrier)
    steps = (*RECIPE.steps[:2], replace(barrier, similar=find_near_matches), RECIPE.steps[3])
    monkeypatch.setattr(brew, "RECIPE", replace(RECIPE, steps=steps))
    batch = launch_brew(source_of("tea milk", "milk cocoa"), models)
    second = Draft.objects.filter(batch=batch).latest("pk")
    Draft.objects.filter(pk=second.pk).update(status=Work.Status.FAILED, error="BadRequest")
    work_until_idle(batch)
    assert not NearMatch.objects.exists(), "the first round has nothing before it"
    jobs_services.retry_failed(batch.pk)
    work_until_idle(batch)
    earlier, late_draft = Draft.objects.filter(data__word="milk", onward__isnull=False).order_by("pk")
    return batch, earlier, late_draft


def test_a_late_draft_continues_by_itself_and_is_shown_as_a_near_match(
    late_match: tuple[Batch, Draft, Draft], admin: Client, manage: Manage
) -> None:
    batch, earlier, late = late_match
    assert BarrierRound.objects.filter(status="done").count() == 2
    assert continued_drafts(batch) == {"tea": 1, "milk": 1, "cocoa": 1}
    [match] = NearMatch.objects.all()
    assert (match.draft, match.earlier, match.distance) == (late, earlier, 0.04)

    page = text_of(admin.get(reverse("generation:merges", args=[batch.pk])))
    assert "Similar to earlier drafts" in page
    assert f"draft {late.pk}, similar to draft {earlier.pk}" in page
    [row] = manage.json("merges", batch.pk)["near"]
    assert (row["draft"], row["earlier"], row["distance"]) == (late.pk, earlier.pk, 0.04)
    with pytest.raises(Exception, match="append-only"):
        NearMatch.objects.update(distance=1)


def test_an_admin_can_merge_drafts_across_rounds(
    late_match: tuple[Batch, Draft, Draft], admin: Client, manage: Manage
) -> None:
    batch, earlier, late = late_match
    url = reverse("generation:merges", args=[batch.pk])
    assert admin.post(url, {"draft_id": earlier.pk, "other_id": late.pk, "reason": "Milk."}).status_code == 302
    assert continued_drafts(batch)["milk"] == 2
    assert Sample.objects.filter(status="withdrawn").count() == 1
    assert manage.json("merges", batch.pk)["near"] == []
    page = text_of(admin.get(url))
    assert "Similar to earlier drafts" not in page
    manage.json("merges", batch.pk, "--undo", late.pk, "--reason", "No.")
    assert len(manage.json("merges", batch.pk)["near"]) == 1
    manage.json("merges", batch.pk, "--merge", earlier.pk, late.pk, "--reason", "Yes.")
    assert manage.json("merges", batch.pk)["near"] == []


def test_a_draft_of_another_batch_is_shown_and_not_merged(
    late_match: tuple[Batch, Draft, Draft], models: str, admin: Client, manage: Manage
) -> None:
    first, _earlier, _late = late_match
    other = work_until_idle(launch_brew(source_of("milk", name="more"), models))
    [draft] = Draft.objects.filter(batch=other, onward__isnull=False)
    rows = manage.json("merges", other.pk)["near"]
    assert [(row["draft"], row["earlier_batch"]) for row in rows] == [(draft.pk, first.pk)]
    page = admin.get(reverse("generation:merges", args=[other.pk])).content.decode()
    assert f"batch {first.pk}" in page
    assert f"Merge into draft {rows[0]['earlier']}" not in page
    assert continued_drafts(other) == {"milk": 1}
