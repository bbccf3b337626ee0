"""Merges of a batch: shown with distance and reason, and undone or made by an admin.

Both are possible before and after the merged drafts have continued.
"""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation import errors
from generation.batches import services as batches_services
from generation.engine import task_queue
from generation.merges import queries, services
from generation.models import Batch, Draft, MergeEvent, Sample, SampleVersion
from generation.models.work import Work
from review.errors import TooLong
from review.models import Case, User
from review.rules import limits
from tests.engine import Manage
from tests.generation.batches.test_barriers import brew_benchmark, continued_drafts, launch_brew, toys, work_until_idle
from tests.generation.batches.test_second_shape import source_of, text_of
from tests.populations import population

__all__ = ["toys"]

pytestmark = pytest.mark.django_db
Page = Any


@population
@brew_benchmark()
def merged_batch(models: str) -> Batch:
    """A batch in which two drafts 'milk' were merged; 'tea' occurs once."""
    return work_until_idle(launch_brew(source_of("milk tea", "milk"), models))


def arrivals_of(word: str) -> list[Draft]:
    """The drafts of a word that arrived at the barrier and have been continued."""
    return list(Draft.objects.filter(data__word=word, onward__isnull=False).order_by("pk"))


def work_up_to_the_barrier(batch: Batch) -> None:
    original = task_queue.take

    def take_before_the_barrier(rows: Any, *args: Any) -> Any:
        return original(rows.exclude(arrivals__isnull=False) if rows.model is Draft else rows, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches_services, "take", take_before_the_barrier)
        work_until_idle(batch)


def test_undoing_a_merge_continues_the_draft_and_keeps_existing_samples(merged_batch: Batch, adela: User) -> None:
    lead, other = arrivals_of("milk")
    before = set(Sample.objects.values_list("pk", "status"))
    with pytest.raises(errors.LeadOfGroup):
        services.undo_merge(lead.pk, actor=adela, reason="Not the same.")
    with pytest.raises(errors.ReasonMissing):
        services.undo_merge(other.pk, actor=adela, reason=" ")
    event = services.undo_merge(other.pk, actor=adela, reason="Not the same.")
    assert (event.kind, event.actor, event.draft) == ("undone", adela, other)
    merged_batch.refresh_from_db()
    assert merged_batch.status == Batch.Status.RUNNING
    assert sorted(continued_drafts(merged_batch)) == ["milk", "tea"]
    assert {row.data["count"] for row in Draft.objects.filter(arrivals__in=[lead, other])} == {1}
    version = SampleVersion.objects.get(draft=lead.onward)
    assert version.provenance["merges"] == "changed by a person"
    assert version.content.get("count", 1) == 1
    work_until_idle(merged_batch)
    assert before < set(Sample.objects.values_list("pk", "status"))
    assert Sample.objects.count() == 3
    with pytest.raises(errors.NotMerged):
        services.undo_merge(other.pk, actor=adela, reason="Again.")
    with pytest.raises(TooLong):
        services.undo_merge(other.pk, actor=adela, reason="x" * (limits.REMARK + 1))


def test_merging_two_continued_drafts_withdraws_the_sample_of_the_second(merged_batch: Batch, adela: User) -> None:
    [tea], [lead, _other] = arrivals_of("tea"), arrivals_of("milk")
    assert tea.onward
    assert lead.onward
    withdrawn = Sample.objects.get(versions__draft=lead.onward)
    events = services.merge_drafts(tea.pk, lead.onward.pk, actor=adela, reason="All drinks.")
    assert [(event.kind, event.withdrawn) for event in events] == [("merged", withdrawn.key)] * 2
    withdrawn.refresh_from_db()
    assert withdrawn.status == Sample.Status.WITHDRAWN
    assert Case.objects.get(pk=withdrawn.versions.get().case_id).state == Case.State.WITHDRAWN
    assert continued_drafts(merged_batch) == {"tea": 3}
    with pytest.raises(errors.SameGroup):
        services.merge_drafts(tea.pk, lead.pk, actor=adela, reason="Again.")
    services.undo_merge(lead.pk, actor=adela, reason="No.")
    work_until_idle(merged_batch)
    assert continued_drafts(merged_batch)["tea"] == 2
    assert Sample.objects.filter(status=Sample.Status.IN_REVIEW).count() == 2, (
        "the separated draft has a new sample of its own"
    )


def test_a_merge_names_each_sample_that_it_withdraws(
    merged_batch: Batch, adela: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    [tea], [lead, _other] = arrivals_of("tea"), arrivals_of("milk")
    assert tea.onward
    assert lead.onward
    [sample] = Sample.objects.filter(versions__draft=lead.onward)
    monkeypatch.setattr(services, "_withdraw_sample", lambda *_about: True)
    monkeypatch.setattr(services, "_lock_descendants", lambda onward: ({onward.pk}, 40 * [sample]))
    event, *_others = services.merge_drafts(tea.pk, lead.onward.pk, actor=adela, reason="All drinks.")
    event.refresh_from_db()
    assert event.withdrawn == ", ".join(40 * [sample.key])


def test_merging_drafts_before_they_continue_drops_the_second(models: str, adela: User) -> None:
    batch = launch_brew(source_of("milk tea"), models)
    work_up_to_the_barrier(batch)
    assert not Sample.objects.exists()
    [milk], [tea] = arrivals_of("milk"), arrivals_of("tea")
    [event] = services.merge_drafts(milk.pk, tea.pk, actor=None, reason="Both drinks.")
    assert (event.withdrawn, event.actor) == ("", None)
    work_until_idle(batch)
    assert Sample.objects.count() == 1
    assert Draft.objects.get(merge_events=None, parent=tea).status == Work.Status.DROPPED


def test_drafts_of_two_batches_are_not_merged(merged_batch: Batch, models: str, adela: User) -> None:
    other = work_until_idle(launch_brew(source_of("milk", name="more"), models))
    one = arrivals_of("tea")[0]
    stranger = Draft.objects.filter(batch=other, onward__isnull=False).get()
    with pytest.raises(errors.OtherBarrier):
        services.merge_drafts(one.pk, stranger.pk, actor=adela, reason="Try.")
    with pytest.raises(errors.UnknownDraft):
        services.merge_drafts(one.pk, 10**9, actor=adela, reason="Try.")


def test_merge_events_cannot_be_changed(merged_batch: Batch) -> None:
    with pytest.raises(Exception, match="append-only"):
        MergeEvent.objects.update(reason="Something else.")


def test_the_page_shows_each_merge_and_undoes_it(
    merged_batch: Batch, admin: Client, django_assert_max_num_queries: Any
) -> None:
    url = reverse("generation:merges", args=[merged_batch.pk])
    with django_assert_max_num_queries(30):
        page = admin.get(url)
    text = text_of(page)
    assert "distance 0.000" in text
    assert "same word" in text
    assert "The word" in text
    assert "The word tea" not in text
    assert "The word tea" in text_of(admin.get(f"{url}?show=all"))
    [_lead, other] = arrivals_of("milk")
    undo = reverse("generation:merge-undo", args=[other.pk])
    # The second message answers a second click.
    for message in ("now continues by itself", "This draft is not merged with any other."):
        result = text_of(admin.post(undo, {"reason": "Not the same."}, follow=True))
        assert message in result
        assert "Not the same." in result
    refused = admin.post(url, {"draft_id": other.pk, "other_id": other.pk, "reason": "x"})
    assert refused.status_code == 422
    [tea] = arrivals_of("tea")
    merged = admin.post(url, {"draft_id": tea.pk, "other_id": other.pk, "reason": "Drinks."})
    assert merged.status_code == 302
    assert queries.merges(merged_batch).count() == 1
    assert reverse("generation:merges", args=[merged_batch.pk]) in text_of(
        admin.get(reverse("generation:batch", args=[merged_batch.pk]))
    )


def test_costs_are_shown_by_prompt(merged_batch: Batch, admin: Client) -> None:
    text = text_of(admin.get(reverse("generation:batch-costs", args=[merged_batch.pk])))
    assert "brew/talk@1" in text
    assert "embeddings" in text
    rows = admin.get(reverse("api:batch-costs", args=[merged_batch.pk])).json()
    assert [(row["prompt"], row["calls"] + row["hits"]) for row in rows] == [("brew/talk@1", 3), ("embeddings", 1)]


def test_the_command_lists_makes_and_undoes_merges(merged_batch: Batch, manage: Manage) -> None:
    [row] = manage.json("merges", str(merged_batch.pk))["merges"]
    lead, other = arrivals_of("milk")
    assert (row["draft"], row["lead"], row["distance"], row["by"]) == (other.pk, lead.pk, 0.0, None)
    assert manage.json("merges", str(merged_batch.pk), "--undo", str(other.pk), "--reason", "No.")["kind"] == "undone"
    merged = manage.json("merges", str(merged_batch.pk), "--merge", str(lead.pk), str(other.pk), "--reason", "Yes.")
    assert merged["merged"] == [other.pk]
