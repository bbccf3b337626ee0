"""Decisions about merges are in the chain of events, on the audit page, and in the trail of a release."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.batches import services as batches_services
from generation.engine import task_queue
from generation.merges import queries, services
from generation.models import Batch, Draft, MergeEvent, Sample
from generation.releases import audit_bundle, verify_trail
from generation.releases import services as releases_services
from generation.samples import services as samples_services
from review.audit import verification
from review.models import Event, User
from tests.generation.batches.test_barriers import launched, toys, worked
from tests.generation.batches.test_second_shape import admin, source_of, text_of
from tests.generation.merges.test_merges import arrived, met
from tests.review.approve import approve_everything
from tests.review.audit.tampering import unprotected

__all__ = ["admin", "met", "toys"]
pytestmark = pytest.mark.django_db


def decided(sample: Sample) -> list[tuple[str, int, int]]:
    """The decisions in a sample's trail: kind, draft, the one that it is in from then on."""
    events = Event.objects.filter(case__lineage=sample.key, kind__in=["merged", "unmerged"]).order_by("sequence")
    return [(event.kind, event.data["draft"], event.data["into"]) for event in events]


def no_faults() -> None:
    assert list(verification.check(verification.CheckProgress())) == []


def test_decisions_are_in_the_trail_of_every_sample_that_they_concern(
    met: Batch, adela: User, ana: User, bo: User, admin: Client, tmp_path: Path
) -> None:
    lead, other = arrived("milk")
    [tea] = arrived("tea")
    milk = Sample.objects.get(versions__draft=lead.onward_id)
    undone = services.undo_merge(other.pk, actor=adela, reason="Not the same.")
    worked(met)
    alone = Sample.objects.get(versions__draft=undone.into_id)
    assert decided(milk) == decided(alone) == [("unmerged", other.pk, undone.into_id)]
    opened, told = Event.objects.filter(case__lineage=alone.key).order_by("sequence")[:2]
    assert (opened.kind, told.actor, told.at, told.data["reason"]) == ("opened", adela, undone.at, "Not the same.")
    assert told.at < opened.at, "it says when it was decided, not when it was written"

    services.merge_drafts(tea.pk, other.pk, actor=None, reason="All drinks.")  # by the operator
    kept = Sample.objects.get(versions__draft=tea.onward_id)
    merged = ("merged", other.pk, tea.onward_id)
    assert (decided(kept), decided(alone)[1:]) == ([merged], [merged])
    assert [event.actor for event in queries.decisions(met)] == [None, adela]
    no_faults()

    page = text_of(admin.get(reverse("review:audit"), {"kind": "merged"}))
    assert f"draft {other.pk}, now in draft {tea.onward_id}" in page
    history = text_of(admin.get(reverse("review:history", args=[kept.versions.get().case_id])))
    assert "Merged with a duplicate" in history
    assert "All drinks." in history
    listed = admin.get(reverse("api:audit-events"), {"kind": "unmerged"}).json()["results"]
    assert [row["actor"] for row in listed] == ["adela", "adela"]

    approve_everything([ana, bo])
    samples_services.apply_outcomes()
    release = releases_services.freeze_release("drinks", benchmark="brew")
    audit_bundle.write(release, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    published = [line for line in lines if line.get("kind") == "merged"]
    assert [(line["sample"], line["data"]["draft"]) for line in published] == [(kept.key, other.pk)]
    assert set(published[0]["data"]["reason"]) == {"sha256"}, "what somebody typed stays here"
    checker = verify_trail.Checker(tmp_path)
    checker.trail()
    assert checker.faults == []


def test_a_decision_before_there_is_a_sample_is_told_once_when_there_is(
    models: str, adela: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = launched(source_of("milk tea cocoa"), models)
    original = task_queue.take

    def take_none_past(rows: Any, *args: Any) -> Any:
        return original(rows.exclude(arrivals__isnull=False) if rows.model is Draft else rows, *args)

    with monkeypatch.context() as patch:
        patch.setattr(batches_services, "take", take_none_past)
        worked(batch)
    [milk], [tea], [cocoa] = arrived("milk"), arrived("tea"), arrived("cocoa")
    services.merge_drafts(milk.pk, tea.pk, actor=adela, reason="Both drinks.")
    services.merge_drafts(milk.pk, cocoa.pk, actor=adela, reason="Both drinks.")
    again = services.undo_merge(cocoa.pk, actor=adela, reason="No.")
    assert not Event.objects.exists()
    worked(batch)
    first, second = Sample.objects.order_by("pk")
    told = [
        ("merged", tea.pk, milk.onward_id),
        ("merged", cocoa.pk, milk.onward_id),
        ("unmerged", cocoa.pk, again.into_id),
    ]
    assert (decided(first), decided(second)) == (told, told[2:])
    no_faults()


def test_an_altered_decision_is_found(met: Batch, adela: User) -> None:
    [tea], [lead, _other] = arrived("tea"), arrived("milk")
    services.merge_drafts(tea.pk, lead.pk, actor=adela, reason="All drinks.")
    event = Event.objects.filter(kind="merged").earliest("sequence")
    with unprotected("review_event"):
        Event.objects.filter(pk=event.pk).update(data={**event.data, "into": 1})
    [fault] = verification.check(verification.CheckProgress())
    assert (fault.what, fault.sequence) == ("altered", event.sequence)
    assert MergeEvent.objects.filter(draft=event.data["draft"], into=event.data["into"]).exists()
