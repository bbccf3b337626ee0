"""A comparison where several endpoints play a role: each record has a pair for each endpoint."""

from dataclasses import replace

import pytest
from django.test import Client
from django.urls import reverse

from generation.batches import launch
from generation.batches.launch import BatchSettings
from generation.comparisons import queries as comparisons
from generation.merges import services as merges_services
from generation.models import Draft, Sample
from review.models import User
from tests.engine import endpoint
from tests.generation.batches.test_barriers import RECIPE, toys, work_until_idle
from tests.generation.batches.test_second_shape import source_of, text_of
from tests.toys.brew import recipe as brew

__all__ = ["toys"]

pytestmark = pytest.mark.django_db


def test_each_endpoint_has_a_pair_and_a_merged_draft_counts_as_the_draft_it_is_in(
    models: str, adela: User, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brew, "RECIPE", replace(RECIPE, prompt_sets=("other",)))
    comparison = launch.launch_comparison(
        BatchSettings(
            benchmark="brew",
            source=source_of("tea"),
            roles={"writer": endpoint(models), "embedder": endpoint(models, "sim-embedder")},
            further_endpoints=[endpoint(models, "sim-average")],
            compare="other",
        )
    )
    arm_a, arm_b = (work_until_idle(batch) for batch in comparison.batches.order_by("arm"))
    # In arm A, the drafts of both endpoints stay merged into one sample; in B, each gets its own.
    merged = Draft.objects.get(batch=arm_b, endpoint__name="sim-average", onward__isnull=False)
    merges_services.undo_merge(merged.pk, actor=adela, reason="Another tea.")
    work_until_idle(arm_b)
    assert [Sample.objects.filter(batch=batch).count() for batch in (arm_a, arm_b)] == [1, 2]
    Sample.objects.filter(batch=arm_a).update(status="approved")
    first, second = Sample.objects.filter(batch=arm_b).order_by("pk")
    Sample.objects.filter(pk=first.pk).update(status="approved")
    Sample.objects.filter(pk=second.pk).update(status="discarded")

    result = comparisons.compare_arms(comparison)
    assert dict(result.table)["approved"] == (1, 1, 0)
    assert (result.only_a, result.only_b) == (1, 0)
    pairs = comparisons.pairs(comparison, list(comparisons.paired_drafts(comparison).order_by("pk")))
    assert [(pair.endpoint.name, pair.a.status, pair.b.status) for pair in pairs if pair.endpoint] == [
        ("sim-generator", "approved", "approved"),
        ("sim-average", "approved", "discarded"),
    ]
    assert {pair.a.version for pair in pairs} == {arm_a.samples.get().versions.get()}
    page = text_of(admin.get(reverse("generation:comparison", args=[comparison.pk])))
    assert "?endpoint=sim-average" in page
    url = reverse("generation:comparison-record", args=[comparison.pk, pairs[0].record.pk])
    assert second.key in text_of(admin.get(f"{url}?endpoint=sim-average"))
    assert first.key in text_of(admin.get(url))
    assert admin.get(f"{url}?endpoint=nobody").status_code == 404
    rows = admin.get(reverse("api:comparison-pairs", args=[comparison.pk])).json()["results"]
    assert [row["endpoint"] for row in rows] == ["sim-generator", "sim-average"]
    assert admin.get(reverse("api:comparison", args=[comparison.pk])).json()["records_count"] == 1
