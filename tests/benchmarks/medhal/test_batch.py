"""MedHal's recipe run by the engine: pairs, the review draw, releases of whole pairs, published
statements."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from django.db.models import Count, Q, Value
from django.db.models.functions import Concat
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from generation import errors
from generation.batches import bulk_samples, review_results
from generation.batches import launch as batches_launch
from generation.batches import services as batches_services
from generation.batches.estimate import estimate_batch
from generation.batches.kind import BATCHES
from generation.batches.launch import BatchSettings
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Batch, Call, Draft, Import, Sample, SampleVersion, Source, SourceRecord
from generation.outcomes import services as outcomes_services
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition, versions_with_reason
from mhb_site.benchmarks.medhal import recipe, simulate
from review.assignments import claims, first_look
from review.assignments import services as assignments_services
from review.models import Case, Event, Review, User
from review.rules.blocks import Table
from review.rules.questions import Answer
from review.turns.turn import ReviewTurn, turn_of
from tests.benchmarks.medhal.helpers import ARTICLE, MCQ, STATEMENT
from tests.engine import endpoint
from tests.review.approve import approval_of, approve_everything, rejection_of

pytestmark = pytest.mark.django_db
ROLES = {"generator": "sim-generator", "filter": "sim-critic"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_in_background(make_app([simulate.SCRIPT], seed=3)) as address:
        yield address


def source_of(content: Mapping[str, Any], count: int, name: str = "own", **changes: Any) -> Source:
    source = Source.objects.create(name=name, format="own", label="Own", licence="MIT", created_at=timezone.now())
    key = "question" if content["kind"] == "mcq" else "statement"
    SourceRecord.objects.bulk_create(
        SourceRecord(
            source=source,
            external_id=f"r{number}",
            title=f"Record {number}",
            language="en",
            content={**content, key: f"{content.get(key, '')} Number {number}: what is it?", **changes},
        )
        for number in range(1, count + 1)
    )
    return source


def settings(source: Source, url: str = "", **options: Any) -> BatchSettings:
    roles = {role: endpoint(url, model) for role, model in ROLES.items()} if url else {}
    return BatchSettings(benchmark="medhal", source=source, roles=roles, **options)


def run_batch(batch_settings: BatchSettings) -> Batch:
    batch = batches_launch.launch_batch(batch_settings)
    batches_services.work_on_batch(batch.pk)
    outcomes_services.apply_outcomes()
    batch.refresh_from_db()
    return batch


def counts_by_label_and_review(batch: Batch) -> Counter[tuple[str, str]]:
    versions = SampleVersion.objects.filter(sample__batch=batch)
    return Counter((version.content["label"], version.provenance["review"]) for version in versions)


@pytest.mark.both
def test_a_batch_makes_pairs_and_sends_as_many_of_each_label_to_two_physicians(
    url: str, admin_client: Client, physicians: list[User]
) -> None:
    batch_settings = settings(source_of(MCQ, 24), url, changes={"review_per_label": 3})
    planned = sum(line.requests for line in estimate_batch(batch_settings).lines)
    batch = run_batch(batch_settings)
    drafts = Draft.objects.filter(batch=batch)
    n_pairs = drafts.filter(is_statement()).count() // 2
    assert batch.status == Batch.Status.FINISHED, batch.paused_detail
    assert n_pairs + drafts.filter(status="dropped").count() == 24
    assert Call.objects.filter(job=batch, error="", hit_of=None).count() == planned == 4 * 24
    pairs: dict[tuple[int, str], set[str]] = {}
    for version in SampleVersion.objects.filter(sample__batch=batch).select_related("sample"):
        pairs.setdefault((version.sample.record_id, version.sample.bound), set()).add(version.content["label"])
    assert len(pairs) == n_pairs
    assert all(labels == {"factual", "non-factual"} for labels in pairs.values())
    assert counts_by_label_and_review(batch) == {
        **{(label, "sampled"): 3 for label in ("factual", "non-factual")},
        **{(label, "not sampled"): n_pairs - 3 for label in ("factual", "non-factual")},
    }
    assert Case.objects.filter(state="primary").count() == 6
    page = admin_client.get(reverse("generation:batch-analysis", args=[batch.pk])).content.decode()
    assert "Kept by the filter" in page
    assert "MedMCQA" in page

    approve_everything(physicians)
    by_case = Review.objects.values_list("case").annotate(n=Count("physician", distinct=True))
    assert {n for _case, n in by_case} == {2}
    outcomes_services.apply_outcomes()
    page = admin_client.get(reverse("generation:batch-analysis", args=[batch.pk])).content.decode()
    assert "1.00 (0.61–1.00)" in page
    full = releases_services.freeze_release("all", benchmark="medhal", composition=Composition(with_unreviewed=True))
    assert full.samples_count == 2 * n_pairs
    reviewed_only = releases_services.freeze_release("reviewed", benchmark="medhal", composition=Composition())
    assert reviewed_only.samples_count == 6  # both statements of each drawn pair


def test_batches_of_several_sources_share_a_draw_and_each_question_has_its_share(
    url: str, physicians: list[User]
) -> None:
    changes = {"review_per_label": 4, "review_batches": 2, "filter": False, "reviewers": "one"}
    first = run_batch(settings(source_of(MCQ, 8), url, changes=changes))
    assert not SampleVersion.objects.exists(), "the other source's statements are not there yet"
    assert BATCHES.is_open(first.pk)
    other = source_of(MCQ, 8, "other")
    SourceRecord.objects.filter(source=other).update(external_id=Concat(Value("o"), "external_id"))
    second = run_batch(settings(other, url, changes=changes))
    BATCHES.clean_up()
    assert not BATCHES.is_open(first.pk)
    together = counts_by_label_and_review(first) + counts_by_label_and_review(second)
    assert together["factual", "sampled"] == together["non-factual", "sampled"] == 4
    assert together["factual", "not sampled"] == 12
    third = run_batch(settings(source_of(MCQ, 2, "third"), url, changes=changes))
    assert review_results.drawn_together(third) == [third.pk], "a pair of batches is complete"

    wrong_label, unclear = Case.objects.filter(state="primary").order_by("pk")[:2]
    faults = {wrong_label.pk: "label", unclear.pk: "statement"}
    while held := [row for row in map(claims.claim_next, physicians) if row is not None]:
        for assignment in held:
            assert assignment.physician is not None
            assert assignment.token is not None
            form = assignment.case.frozen.form
            answers = approval_of(form)
            if key := faults.get(assignment.case_id):
                answers = rejection_of(form, "It is not as it should be.")
                answers = replace(answers, questions={**answers.questions, key: Answer("no", note="It is not.")})
            if not ReviewTurn(assignment.physician, assignment).is_revealed:
                first_look.reveal(turn_of(assignment.physician, assignment.pk), assignment.token, answers)
            assignments_services.submit(turn_of(assignment.physician, assignment.pk), assignment.token, answers)
    outcomes_services.apply_outcomes()
    [table] = review_results.blocks(second)
    assert isinstance(table, Table)
    assert table.title == f"Sampled for review from batches {first.pk}, {second.pk}"
    label, statement = table.columns[-2:]
    assert (label, statement) == ("Is the label right? (95% CI)", "Is it a statement that can be judged? (95% CI)")
    total = next(row for row in table.rows if row[1] == "all")
    assert total[2:5] == ("8", "8", "6")
    assert [cell.partition(" ")[0] for cell in total[5:]] == ["0.88", "0.88"]


def is_statement() -> Q:
    return Q(data__has_key="label", status="done")


@pytest.mark.both
def test_a_pair_is_released_whole_or_not_at_all(url: str) -> None:
    batch = run_batch(settings(source_of(MCQ, 6), url, changes={"review_per_label": 1, "filter": False}))
    composition = Composition(with_unreviewed=True)

    def reasons() -> Counter[str]:
        return Counter(vars(row)["reason"] for row in versions_with_reason("medhal", composition))

    # Both statements of one pair were drawn and are in review.
    assert reasons() == {"in-review": 2, "": 10}
    [withdrawn, discarded, *_rest] = first_of_each_pair(batch)
    SampleVersion.objects.filter(sample=withdrawn).update(status="withdrawn")
    SampleVersion.objects.filter(sample=discarded).update(status="rejected")
    assert reasons() == {"in-review": 2, "withdrawn": 1, "partner": 2, "": 6}
    release = releases_services.freeze_release("own", benchmark="medhal", composition=composition)
    assert release.samples_count == 6
    assert release.excluded["partner"] == 2


def first_of_each_pair(batch: Batch) -> list[int]:
    approved = Sample.objects.filter(batch=batch, status="approved").order_by("pk")
    return list({record: pk for pk, record in approved.values_list("pk", "record")}.values())


def test_the_same_seed_draws_the_same_statements_when_the_draw_is_repeated(url: str, monkeypatch: Any) -> None:
    source = source_of(STATEMENT, 40)
    monkeypatch.setattr(bulk_samples, "CHUNK", 7)
    changes = {"review_per_label": 5}
    first = run_batch(settings(source, changes=changes))
    drawn_records = set(
        SampleVersion.objects.filter(provenance__review="sampled").values_list("sample__record", flat=True)
    )
    assert len(drawn_records) == 5
    drafts = Draft.objects.filter(batch=first).order_by("pk")
    assert bulk_samples._draw_for_review(first, drafts, "record__content") == frozenset()  # earlier draws count
    SampleVersion.objects.filter(provenance__review="sampled").update(provenance={})  # as if there were none
    first_draw, second_draw = (
        bulk_samples._draw_for_review(first, rows, "record__content") for rows in (drafts, drafts.reverse())
    )
    assert first_draw == second_draw
    assert set(drafts.filter(pk__in=first_draw or ()).values_list("record", flat=True)) == drawn_records
    first.settings["review_seed"] = 1
    assert bulk_samples._draw_for_review(first, drafts, "record__content") != first_draw


def test_published_statements_become_the_same_samples_in_bulk_as_by_steps(url: str, monkeypatch: Any) -> None:
    source = source_of(STATEMENT, 12)
    bulk_batch = run_batch(settings(source, limit=6, changes={"review_per_label": 2}))
    monkeypatch.setattr(bulk_samples, "make_finished_samples", lambda _batch: 0)
    batch_by_steps = run_batch(settings(source, changes={"review_per_label": 2}))

    def summary(batch: Batch) -> Any:
        versions = SampleVersion.objects.filter(sample__batch=batch).select_related("sample", "case").order_by("pk")
        return [
            (
                version.number,
                version.status,
                version.sample.status,
                version.case.state,
                version.case.ground,
                version.case.spec["policy"],
                sorted(version.content),
                sorted(version.provenance),
                version.draft.status,
                [rubric.key for rubric in version.rubrics.all()],
                list(Event.objects.filter(case=version.case).order_by("pk").values_list("kind", "number")),
            )
            for version in versions
        ]

    assert not Call.objects.exists()
    assert sorted(map(repr, summary(bulk_batch))) == sorted(map(repr, summary(batch_by_steps)))
    assert len(summary(bulk_batch)) == 6
    assert bulk_batch.status == batch_by_steps.status == Batch.Status.FINISHED


def test_records_outside_the_training_split_are_refused_unless_a_setting_allows_them(url: str) -> None:
    source = source_of(MCQ, 2, split="test")
    with pytest.raises(errors.WrongDraw, match=r"train only.*test \(2\)"):
        batches_launch.launch_batch(settings(source, url))
    with pytest.raises(errors.WrongDraw, match="train only"):
        estimate_batch(settings(source, url, where={"split": ["test"]}))
    assert not Batch.objects.exists()
    assert batches_launch.launch_batch(settings(source, url, changes={"training_only": False})).pk
    for_training = source_of_two_splits()
    launched = batches_launch.launch_batch(settings(for_training, url, where={"split": ["train"]}))
    assert Draft.objects.filter(batch=launched).count() == 3


def source_of_two_splits() -> Source:
    Source.objects.filter(name="own").update(name="other")
    source = source_of(MCQ, 3)
    extra = SourceRecord(source=source, external_id="t", title="t", content={**MCQ, "split": "dev"})
    SourceRecord.objects.bulk_create([extra])
    Import.objects.create(source=source, file_name="f", facets={"split": {"train": 3}}, created_at=timezone.now())
    return source


def test_the_next_sweep_makes_the_samples_that_a_dead_worker_left(url: str, monkeypatch: Any) -> None:
    make_waiting_samples = bulk_samples.make_waiting_samples
    monkeypatch.setattr(bulk_samples, "make_waiting_samples", lambda _batch: 0)
    batch = run_batch(settings(source_of(ARTICLE, 2, shorter_abstract=""), url, changes={"filter": False}))
    assert not SampleVersion.objects.exists()
    assert batch.status == Batch.Status.RUNNING
    assert BATCHES.is_open(batch.pk)
    monkeypatch.setattr(bulk_samples, "make_waiting_samples", make_waiting_samples)
    BATCHES.clean_up()
    assert SampleVersion.objects.count() == 4
    assert not BATCHES.is_open(batch.pk)
    assert make_waiting_samples(batch) == 0
    assert {version.generator for version in SampleVersion.objects.all()} == {"sim-generator"}
    assert recipe.RECIPE.max_versions == 1
