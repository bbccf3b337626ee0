"""MedHallu's recipe run by the engine: presets, the ledger, the review share, and the pages that
show the lineage of samples."""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from generation import errors
from generation.batches import launch as batches_launch
from generation.batches import queries
from generation.batches import services as batches_services
from generation.batches.estimate import estimate_batch
from generation.batches.launch import BatchSettings
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Batch, Call, Draft, Sample, SampleVersion, Source, SourceRecord
from generation.outcomes import services as outcomes_services
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from mhb_site.benchmarks.medhallu import recipe, simulate
from review.assignments import claims
from review.assignments import services as assignments_services
from review.models import Case, User
from review.turns.turn import turn_of
from tests.benchmarks.medhallu.helpers import MODEL_OF, pair_draft, qa_draft
from tests.engine import endpoint
from tests.review.approve import approve_everything, rejection_of

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_in_background(make_app([simulate.SCRIPT], seed=3)) as address:
        yield address


def random_words(number: int, count: int) -> str:
    """Return this many random words, so that no two records count as duplicates."""
    dice = Random(number)
    return " ".join(
        f"{dice.choice(('glucose', 'insulin', 'weight', 'pulse'))}{dice.randrange(10**5)}" for _ in range(count)
    )


def source_of(count: int, kind: str = "qa") -> Source:
    content = (qa_draft() if kind == "qa" else pair_draft()).record.content
    source = Source.objects.create(name="own", format="own", label="Own", licence="MIT", created_at=timezone.now())
    SourceRecord.objects.bulk_create(
        SourceRecord(
            source=source,
            external_id=f"r{number}",
            title=f"Question {number}",
            language="en",
            content={
                **content,
                "question": f"Does {random_words(number, 8)} differ?",
                "answer": f"It was found that {random_words(-number, 30)} did differ.",
                **(
                    {"hallucinated": f"It was found that {random_words(7 * number, 30)} did."}
                    if kind == "qa-pair"
                    else {}
                ),
            },
        )
        for number in range(1, count + 1)
    )
    return source


def run_batch(source: Source, url: str, preset: str = "", **roles: str) -> Batch:
    endpoints = {role: endpoint(url, model) for role, model in {**MODEL_OF, **roles}.items()}
    batch = batches_launch.launch_batch(
        BatchSettings(benchmark="medhallu", source=source, roles=endpoints, preset=preset)
    )
    batches_services.work_on_batch(batch.pk)
    outcomes_services.apply_outcomes()
    batch.refresh_from_db()
    return batch


def test_a_batch_makes_samples_reviews_a_share_and_shows_their_lineage(url: str, admin_client: Client) -> None:
    batch = run_batch(source_of(30), url)
    drafts = Draft.objects.filter(batch=batch)
    assert Counter(drafts.values_list("status", flat=True)) == {"done": 30}
    versions = list(SampleVersion.objects.filter(sample__batch=batch))
    assert len(versions) == 30
    assert {version.content["difficulty"] for version in versions} == {"easy", "medium", "hard"}
    reviewed = Counter(version.provenance["review"] for version in versions)
    assert 1 <= reviewed["sampled"] <= 14
    assert Case.objects.filter(state="primary").count() == reviewed["sampled"]
    assert Sample.objects.filter(batch=batch, status="approved").count() == reviewed["not sampled"]

    call_counts = Counter(Call.objects.filter(job=batch, error="").values_list("prompt", flat=True))
    data = list(drafts.values_list("data", flat=True))
    candidates = [
        candidate for draft_data in data for attempt in draft_data["tries"] for candidate in attempt["candidates"]
    ]
    n_retries = sum(bool(vote["unread"]) for candidate in candidates for vote in candidate["votes"])
    assert call_counts["medhallu/vote@1"] == 3 * len(candidates) + n_retries
    assert call_counts["medhallu/entail@2"] == 2 * len(candidates)
    assert call_counts["medhallu/critique@1"] == sum(
        len(attempt["feedback"]) for draft_data in data for attempt in draft_data["tries"]
    )
    assert call_counts["medhallu/rewrite@2"] >= sum(candidate["by"] == "rewrite" for candidate in candidates)

    page = admin_client.get(reverse("generation:batch-analysis", args=[batch.pk])).content.decode()
    assert "Difficulty" in page
    assert "Qualifying try" in page
    draft = drafts.order_by("pk").first()
    assert draft is not None
    draft_page = admin_client.get(reverse("generation:draft", args=[draft.pk])).content.decode()
    assert "Votes" in draft_page
    assert "Entailment" in draft_page
    assert admin_client.get(reverse("generation:batch", args=[batch.pk])).status_code == 200

    release = releases_services.freeze_release(
        "own", benchmark="medhallu", composition=Composition(with_unreviewed=True)
    )
    assert release.provenance["preset"] == {"ours": reviewed["not sampled"]}
    assert release.provenance["entailment"] == {"llm: entailment": reviewed["not sampled"]}
    assert release.grounds == {"unreviewed": reviewed["not sampled"]}
    assert set(release.counts) >= {"difficulty", "category"}


def test_published_pairs_need_no_model(url: str) -> None:
    source = source_of(6, "qa-pair")
    batch = batches_launch.launch_batch(BatchSettings(benchmark="medhallu", source=source, roles={}, preset="paper"))
    batches_services.work_on_batch(batch.pk)
    outcomes_services.apply_outcomes()
    assert Sample.objects.filter(batch=batch, status="approved").count() == 6
    assert not Call.objects.exists()
    assert queries.analysis(batch)


def test_a_batch_uses_the_prompts_of_its_preset_and_cannot_be_compared_with_them(url: str) -> None:
    roles = {role: endpoint(url, model) for role, model in MODEL_OF.items()}
    launch_fields: dict[str, Any] = {"benchmark": "medhallu", "source": source_of(2), "roles": roles, "limit": 1}
    released = {**launch_fields, "preset": "released"}
    for prompts, compare in (("", "released"), ("released", "")):
        self_comparison = BatchSettings(prompts=prompts, compare=compare, **released)
        with pytest.raises(errors.SamePrompts):
            batches_launch.launch_comparison(self_comparison)
        with pytest.raises(errors.SamePrompts):
            estimate_batch(self_comparison)
    assert not Batch.objects.exists()
    assert "medhallu/released/vote@1" in {line.prompt for line in estimate_batch(BatchSettings(**released)).lines}
    comparison = batches_launch.launch_comparison(BatchSettings(prompts="", compare="released", **launch_fields))
    assert list(comparison.batches.order_by("arm").values_list("prompts", flat=True)) == ["", "released"]
    batch = batches_launch.launch_batch(BatchSettings(**released))
    batches_services.work_on_batch(batch.pk)
    assert batch.prompts == "released"
    prompts_used = set(Call.objects.filter(job=batch).values_list("prompt", flat=True))
    assert {"medhallu/released/generate@1", "medhallu/released/vote@1"} <= prompts_used


def test_the_analysis_of_clusters_has_a_chart(url: str, admin_client: Client) -> None:
    batch = run_batch(source_of(2), url, "clusters-12", embedder="sim-embedder")
    version = SampleVersion.objects.filter(sample__batch=batch).first()
    assert version is not None
    assert version.provenance["similarity"] == "embeddings"
    assert version.provenance["preset"] == "clusters-12"
    page = admin_client.get(reverse("generation:batch-analysis", args=[batch.pk])).content.decode()
    assert "ROUGE-L" in page
    assert "<svg" in page
    sample = admin_client.get(reverse("generation:sample", args=[version.sample_id])).content.decode()
    assert "Clusters" in sample


def test_a_rejected_sample_is_regenerated_and_its_approved_version_keeps_the_rubric(url: str, ana: User) -> None:
    batch = run_batch(source_of(14), url)
    assignment = claims.claim_next(ana)
    assert assignment is not None
    assert assignment.token is not None
    assignments_services.submit(
        turn_of(ana, assignment.pk),
        assignment.token,
        rejection_of(assignment.case.frozen.form, "It follows from the true answer."),
    )
    outcomes_services.apply_outcomes()
    sample = Sample.objects.get(versions__case=assignment.case)
    assert sample.status == "regenerating"
    batches_services.work_on_batch(batch.pk)
    first, second = sample.versions.order_by("number")
    assert first.content["hallucinated"] != second.content["hallucinated"]
    assert second.case.frozen.policy.primary
    assert approve_everything([ana]) > 0
    outcomes_services.apply_outcomes()
    sample.refresh_from_db()
    assert sample.status == "approved"
    released = releases_services.freeze_release(
        "own", benchmark="medhallu", composition=Composition(with_unreviewed=True)
    )
    rubric = released.samples.get(version=second).rubrics.get()
    assert (rubric.criterion, rubric.traps) == (recipe.CRITERION, [second.content["category"]])
    assert set(released.grounds) == {"unreviewed", "primary-alone"}
