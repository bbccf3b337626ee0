"""A comparison where several endpoints play a role: each record has a pair for each of them."""

from dataclasses import replace

import pytest
from django.test import Client
from django.urls import reverse

from generation.batches import launch
from generation.batches.launch import BatchSettings
from generation.merges import services as merges_services
from generation.models import Draft, Sample
from generation.outcomes import comparisons
from review.models import User
from tests.engine import endpoint
from tests.generation.batches.test_barriers import RECIPE, toys, worked
from tests.generation.batches.test_second_shape import admin, source_of, text_of
from tests.toys.brew import recipe as brew

__all__ = ["admin", "toys"]
pytestmark = pytest.mark.django_db


def test_each_endpoint_has_a_pair_and_what_was_merged_counts_as_what_it_was_merged_into(
    models: str, adela: User, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brew, "RECIPE", replace(RECIPE, prompt_sets=("other",)))
    made = launch.launch_comparison(
        BatchSettings(
            benchmark="brew",
            source=source_of("tea"),
            roles={"writer": endpoint(models), "embedder": endpoint(models, "sim-embedder")},
            beside=[endpoint(models, "sim-average")],
            compare="other",
        )
    )
    one, other = (worked(batch) for batch in made.batches.order_by("arm"))
    # In A, both endpoints' words went on as one sample; in B, each as its own.
    merged = Draft.objects.get(batch=other, endpoint__name="sim-average", onward__isnull=False)
    merges_services.undo_merge(merged.pk, actor=adela, reason="Another tea.")
    worked(other)
    assert [Sample.objects.filter(batch=batch).count() for batch in (one, other)] == [1, 2]
    Sample.objects.filter(batch=one).update(status="approved")
    first, second = Sample.objects.filter(batch=other).order_by("pk")
    Sample.objects.filter(pk=first.pk).update(status="approved")
    Sample.objects.filter(pk=second.pk).update(status="discarded")

    found = comparisons.compare_arms(made)
    assert dict(found.table)["approved"] == (1, 1, 0)
    assert (found.only_a, found.only_b) == (1, 0)
    pairs = comparisons.pairs(made, list(comparisons.paired_drafts(made).order_by("pk")))
    assert [(pair.endpoint.name, pair.a.status, pair.b.status) for pair in pairs if pair.endpoint] == [
        ("sim-generator", "approved", "approved"),
        ("sim-average", "approved", "discarded"),
    ]
    assert {pair.a.version for pair in pairs} == {one.samples.get().versions.get()}
    page = text_of(admin.get(reverse("generation:comparison", args=[made.pk])))
    assert "?endpoint=sim-average" in page
    there = reverse("generation:comparison-record", args=[made.pk, pairs[0].record.pk])
    assert second.key in text_of(admin.get(f"{there}?endpoint=sim-average"))
    assert first.key in text_of(admin.get(there))
    assert admin.get(f"{there}?endpoint=nobody").status_code == 404
    api = admin.get(reverse("api:comparison-pairs", args=[made.pk])).json()["results"]
    assert [row["endpoint"] for row in api] == ["sim-generator", "sim-average"]
    assert admin.get(reverse("api:comparison", args=[made.pk])).json()["records_count"] == 1
