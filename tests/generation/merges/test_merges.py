"""Merges of a batch: shown with distance and reason, undone and made by an admin, before and after drafts went on."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation import errors
from generation.batches import services as batches_services
from generation.engine import task_queue
from generation.merges import queries, services
from generation.models import Batch, Draft, MergeEvent, Sample
from generation.models.work import Work
from review.models import Case, User
from tests.engine import Manage
from tests.generation.batches.test_barriers import brewing, launched, onward, toys, worked
from tests.generation.batches.test_second_shape import admin, source_of, text_of
from tests.populations import population

__all__ = ["admin", "toys"]
pytestmark = pytest.mark.django_db
Page = Any


@population
@brewing()
def met(models: str) -> Batch:
    """'milk' twice, 'tea' once."""
    return worked(launched(source_of("milk tea", "milk"), models))


def arrived(word: str) -> list[Draft]:
    return list(Draft.objects.filter(data__word=word, onward__isnull=False).order_by("pk"))


def test_undoing_a_merge_lets_a_draft_go_on_and_leaves_what_was_made(met: Batch, adela: User) -> None:
    lead, other = arrived("milk")
    before = set(Sample.objects.values_list("pk", "status"))
    with pytest.raises(errors.LeadOfGroup):
        services.undo_merge(lead.pk, actor=adela, reason="Not the same.")
    with pytest.raises(errors.ReasonMissing):
        services.undo_merge(other.pk, actor=adela, reason=" ")
    event = services.undo_merge(other.pk, actor=adela, reason="Not the same.")
    assert (event.kind, event.actor, event.draft) == ("undone", adela, other)
    met.refresh_from_db()
    assert met.status == Batch.Status.RUNNING
    assert sorted(onward(met)) == ["milk", "tea"]
    assert {row.data["count"] for row in Draft.objects.filter(arrivals__in=[lead, other])} == {1}
    worked(met)
    assert before < set(Sample.objects.values_list("pk", "status"))
    assert Sample.objects.count() == 3
    with pytest.raises(errors.NotMerged):
        services.undo_merge(other.pk, actor=adela, reason="Again.")


def test_merging_two_that_went_on_withdraws_what_was_made_of_the_second(met: Batch, adela: User) -> None:
    [tea], [lead, _other] = arrived("tea"), arrived("milk")
    assert tea.onward
    assert lead.onward
    ends = Sample.objects.get(versions__draft=lead.onward)
    events = services.merge_drafts(tea.pk, lead.onward.pk, actor=adela, reason="All drinks.")
    assert [(event.kind, event.withdrawn) for event in events] == [("merged", ends.key)] * 2
    ends.refresh_from_db()
    assert ends.status == Sample.Status.WITHDRAWN
    assert Case.objects.get(pk=ends.versions.get().case_id).state == Case.State.WITHDRAWN
    assert onward(met) == {"tea": 3}
    with pytest.raises(errors.SameGroup):
        services.merge_drafts(tea.pk, lead.pk, actor=adela, reason="Again.")
    services.undo_merge(lead.pk, actor=adela, reason="No.")
    worked(met)
    assert onward(met)["tea"] == 2
    assert Sample.objects.filter(status=Sample.Status.IN_REVIEW).count() == 2, "one of its own, made anew"


def test_merging_before_they_go_on_ends_the_second_draft(models: str, adela: User, monkeypatch: Any) -> None:
    batch = launched(source_of("milk tea"), models)
    original = task_queue.take

    def take_none_past(rows: Any, *args: Any) -> Any:
        return original(rows.exclude(arrivals__isnull=False) if rows.model is Draft else rows, *args)

    with monkeypatch.context() as patch:
        patch.setattr(batches_services, "take", take_none_past)
        worked(batch)
    assert not Sample.objects.exists()
    [milk], [tea] = arrived("milk"), arrived("tea")
    [event] = services.merge_drafts(milk.pk, tea.pk, actor=None, reason="Both drinks.")
    assert (event.withdrawn, event.actor) == ("", None)
    worked(batch)
    assert Sample.objects.count() == 1
    assert Draft.objects.get(merge_events=None, parent=tea).status == Work.Status.DROPPED


def test_drafts_of_two_batches_are_not_merged(met: Batch, models: str, adela: User) -> None:
    other = worked(launched(source_of("milk", name="more"), models))
    one = arrived("tea")[0]
    stranger = Draft.objects.filter(batch=other, onward__isnull=False).get()
    with pytest.raises(errors.OtherBarrier):
        services.merge_drafts(one.pk, stranger.pk, actor=adela, reason="Try.")
    with pytest.raises(errors.UnknownDraft):
        services.merge_drafts(one.pk, 10**9, actor=adela, reason="Try.")


def test_events_of_merges_are_written_once(met: Batch) -> None:
    with pytest.raises(Exception, match="append-only"):
        MergeEvent.objects.update(reason="Something else.")


def test_the_page_shows_each_merge_and_undoes_it(met: Batch, admin: Client, django_assert_max_num_queries: Any) -> None:
    there = reverse("generation:merges", args=[met.pk])
    with django_assert_max_num_queries(30):
        page = admin.get(there)
    text = text_of(page)
    assert "distance 0.000" in text
    assert "same word" in text
    assert "The word" in text
    assert "The word tea" not in text
    assert "The word tea" in text_of(admin.get(f"{there}?show=all"))
    [_lead, other] = arrived("milk")
    undo = reverse("generation:merge-undo", args=[other.pk])
    for told in ("now continues by itself", "This draft is not merged with any other."):  # by a second click
        back = text_of(admin.post(undo, {"reason": "Not the same."}, follow=True))
        assert told in back
        assert "Not the same." in back
    refused = admin.post(there, {"draft_id": other.pk, "other_id": other.pk, "reason": "x"})
    assert refused.status_code == 422
    [tea] = arrived("tea")
    done = admin.post(there, {"draft_id": tea.pk, "other_id": other.pk, "reason": "Drinks."})
    assert done.status_code == 302
    assert queries.merges(met).count() == 1
    assert reverse("generation:merges", args=[met.pk]) in text_of(admin.get(reverse("generation:batch", args=[met.pk])))


def test_the_cost_is_told_by_stage(met: Batch, admin: Client) -> None:
    text = text_of(admin.get(reverse("generation:batch-costs", args=[met.pk])))
    assert "brew/talk@1" in text
    assert "embeddings" in text
    rows = admin.get(reverse("api:batch-costs", args=[met.pk])).json()
    assert [(row["prompt"], row["calls"] + row["hits"]) for row in rows] == [("brew/talk@1", 3), ("embeddings", 1)]


def test_the_api_and_the_command_list_undo_and_make_merges(met: Batch, admin: Client, manage: Manage) -> None:
    there = reverse("api:batch-merges", args=[met.pk])
    [row] = admin.get(there).json()["results"]
    lead, other = arrived("milk")
    assert (row["draft"], row["lead"], row["distance"], row["by"]) == (other.pk, lead.pk, 0.0, None)
    undone = admin.post(
        reverse("api:draft-undo-merge", args=[other.pk]), {"reason": "No."}, content_type="application/json"
    )
    assert undone.json()["kind"] == "undone"
    again = admin.post(there, {"draft": lead.pk, "other": other.pk, "reason": "Yes."}, content_type="application/json")
    assert again.status_code == 201, again.content
    listed = manage.json("merges", str(met.pk))
    assert [row["by"] for row in listed["merges"]] == ["adela"]
    assert manage.json("merges", str(met.pk), "--undo", str(other.pk), "--reason", "No.")["kind"] == "undone"
    made = manage.json("merges", str(met.pk), "--merge", str(lead.pk), str(other.pk), "--reason", "Yes.")
    assert made["merged"] == [other.pk]
