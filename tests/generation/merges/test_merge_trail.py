"""Merge decisions are in the chain of events, on the audit page, and in the trail of a release."""

import json
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from generation.merges import queries, services
from generation.models import Batch, MergeEvent, Sample
from generation.outcomes import services as outcomes_services
from generation.releases import audit_bundle
from generation.releases import services as releases_services
from generation.releases.programs import verify_trail
from review.audit import verification
from review.models import Audit, Event, User
from tests.generation.batches.test_barriers import launch_brew, toys, work_until_idle
from tests.generation.batches.test_second_shape import source_of, text_of
from tests.generation.merges.test_merges import arrivals_of, merged_batch, work_up_to_the_barrier
from tests.review.approve import approve_everything
from tests.review.audit.tampering import unprotected

__all__ = ["merged_batch", "toys"]

pytestmark = pytest.mark.django_db


def recorded_decisions(sample: Sample) -> list[tuple[str, int, int]]:
    """The merge decisions in a sample's trail, as (kind, draft, draft that it is now part of)."""
    events = Event.objects.filter(case__lineage=sample.key, kind__in=["merged", "unmerged"]).order_by("sequence")
    return [(event.kind, event.data["draft"], event.data["into"]) for event in events]


def assert_trail_intact() -> None:
    assert list(verification.check(Audit())) == []


def test_a_decision_is_in_the_trail_of_every_sample_it_concerns(
    merged_batch: Batch, adela: User, ana: User, bo: User, admin: Client, tmp_path: Path
) -> None:
    lead, other = arrivals_of("milk")
    [tea] = arrivals_of("tea")
    milk = Sample.objects.get(versions__draft=lead.onward_id)
    undone = services.undo_merge(other.pk, actor=adela, reason="Not the same.")
    work_until_idle(merged_batch)
    separate = Sample.objects.get(versions__draft=undone.into_id)
    assert recorded_decisions(milk) == recorded_decisions(separate) == [("unmerged", other.pk, undone.into_id)]
    opened, unmerged = Event.objects.filter(case__lineage=separate.key).order_by("sequence")[:2]
    assert opened.kind == "opened"
    assert (unmerged.actor, unmerged.at, unmerged.data["reason"]) == (adela, undone.at, "Not the same.")
    assert unmerged.at < opened.at, "the event has the time of the decision, not of its recording"

    services.merge_drafts(tea.pk, other.pk, actor=None, reason="All drinks.")  # by the operator
    lead_sample = Sample.objects.get(versions__draft=tea.onward_id)
    merged = ("merged", other.pk, tea.onward_id)
    assert (recorded_decisions(lead_sample), recorded_decisions(separate)[1:]) == ([merged], [merged])
    assert [event.actor for event in queries.decisions(merged_batch)] == [None, adela]
    assert_trail_intact()

    page = text_of(admin.get(reverse("review:audit"), {"kind": "merged"}))
    assert f"draft {other.pk}, now in draft {tea.onward_id}" in page
    history = text_of(admin.get(reverse("review:history", args=[lead_sample.versions.get().case_id])))
    assert "Merged with a duplicate" in history
    assert "All drinks." in history
    listed = admin.get(reverse("api:audit-events"), {"kind": "unmerged"}).json()["results"]
    assert [row["actor"] for row in listed] == ["adela", "adela"]

    approve_everything([ana, bo])
    outcomes_services.apply_outcomes()
    release = releases_services.freeze_release("drinks", benchmark="brew")
    audit_bundle.write(release, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    published = [line for line in lines if line.get("kind") == "merged"]
    assert [(line["sample"], line["data"]["draft"]) for line in published] == [(lead_sample.key, other.pk)]
    assert set(published[0]["data"]["reason"]) == {"sha256"}, "free text is published as a hash only"
    checker = verify_trail.Checker(tmp_path)
    checker.trail()
    assert checker.faults == []


def test_a_decision_made_before_the_sample_exists_is_recorded_once_with_it(models: str, adela: User) -> None:
    batch = launch_brew(source_of("milk tea cocoa"), models)
    work_up_to_the_barrier(batch)
    [milk], [tea], [cocoa] = arrivals_of("milk"), arrivals_of("tea"), arrivals_of("cocoa")
    services.merge_drafts(milk.pk, tea.pk, actor=adela, reason="Both drinks.")
    services.merge_drafts(milk.pk, cocoa.pk, actor=adela, reason="Both drinks.")
    undone = services.undo_merge(cocoa.pk, actor=adela, reason="No.")
    assert not Event.objects.exists()
    work_until_idle(batch)
    first, second = Sample.objects.order_by("pk")
    expected = [
        ("merged", tea.pk, milk.onward_id),
        ("merged", cocoa.pk, milk.onward_id),
        ("unmerged", cocoa.pk, undone.into_id),
    ]
    assert (recorded_decisions(first), recorded_decisions(second)) == (expected, expected[2:])
    assert_trail_intact()


def test_an_altered_decision_is_detected(merged_batch: Batch, adela: User) -> None:
    [tea], [lead, _other] = arrivals_of("tea"), arrivals_of("milk")
    services.merge_drafts(tea.pk, lead.pk, actor=adela, reason="All drinks.")
    event = Event.objects.filter(kind="merged").earliest("sequence")
    with unprotected("review_event"):
        Event.objects.filter(pk=event.pk).update(data={**event.data, "into": 1})
    [fault] = verification.check(Audit())
    assert (fault.what, fault.sequence) == ("altered", event.sequence)
    assert MergeEvent.objects.filter(draft=event.data["draft"], into=event.data["into"]).exists()
