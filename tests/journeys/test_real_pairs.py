"""The whole workflow on PubMedQA and MedHallu as published, from files to reports without a
judge."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation.models import Judgment, Response, Run
from evaluation.reports import formats, queries
from evaluation.runs import services as runs_services
from evaluation.runs import work
from evaluation.runs.settings import RunSettings
from generation.batches import launch
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Call, Import, Release, Sample, SampleVersion
from generation.models.work import Work
from generation.outcomes import services as outcomes_services
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from mhb_site.benchmarks.medhallu import simulate
from review.models import Case, User
from tests.benchmarks.medhallu.helpers import MODEL_OF
from tests.engine import SEED, TARGETS, endpoint, import_file, no_long_waits
from tests.profile import by_profile, public
from tests.review.approve import approve_everything

__all__ = ["no_long_waits"]
pytestmark = pytest.mark.django_db
VARIANTS = 4
MEASURED = by_profile(("sim-careful", "sim-reckless"), TARGETS)


@pytest.fixture
def published() -> tuple[Path, Path]:
    """Both files."""
    return public("pubmedqa/ori_pqal.json"), public("medhallu/pqa_labeled.jsonl")


@pytest.fixture
def url() -> Iterator[str]:
    with run_in_background(make_app([simulate.SCRIPT], seed=SEED)) as address:
        yield address


def _run_and_check(release: Release, url: str, *targets: str) -> Run:
    run = runs_services.launch_run(
        RunSettings(release=release, endpoints=[endpoint(url, target) for target in targets])
    )
    work.work_on_run(run.pk)
    run.refresh_from_db()
    answers = release.samples_count * VARIANTS * len(targets)
    assert Response.objects.filter(run=run, status=Work.Status.DONE).count() == answers
    assert Judgment.objects.filter(run=run, status=Work.Status.DONE).count() == answers
    report = formats.as_dict(queries.report(run))
    assert report["finished"]
    for row in report["overall"]:
        assert sum(row["verdicts"].values()) == release.samples_count, "every answer has exactly one verdict"
    return run


def test_two_hundred_published_pairs_become_a_measured_release(published: tuple[Path, Path], url: str) -> None:
    questions, pairs = published
    with pairs.open(encoding="utf-8") as lines:  # not `splitlines`: a text may contain other line separators
        rows = [json.loads(line) for line in lines]
    articles = {row["QUESTION"]: pmid for pmid, row in json.loads(questions.read_text(encoding="utf-8")).items()}
    source = import_file(pairs, "pairs", "medhallu")
    import_file(questions, "questions", "pubmedqa")
    assert list(Import.objects.values_list("added", "refused")) == [(200, 0), (200, 0)]

    batch = launch.launch_batch(BatchSettings(benchmark="medhallu", source=source, roles={}, preset="paper"))
    batches_services.work_on_batch(batch.pk)
    outcomes_services.apply_outcomes()
    assert not Call.objects.exists(), "published pairs need no model"
    versions = list(SampleVersion.objects.filter(sample__batch=batch, sample__status=Sample.Status.APPROVED))
    assert Counter(version.content["difficulty"] for version in versions) == Counter(
        row["Difficulty Level"] for row in rows
    )
    assert {version.content["question"]: version.content["pmid"] for version in versions} == {
        row["Question"]: articles[row["Question"]] for row in rows
    }
    release = releases_services.freeze_release(
        "published", benchmark="medhallu", composition=Composition(with_unreviewed=True)
    )
    assert release.samples_count == 200
    assert release.grounds == {"unreviewed": 200}
    _run_and_check(release, url, "sim-careful")


@pytest.mark.both
def test_fifty_questions_become_a_measured_release(
    published: tuple[Path, Path], url: str, physicians: list[User]
) -> None:
    source = import_file(published[0], "questions", "pubmedqa")
    roles = {role: endpoint(url, model) for role, model in MODEL_OF.items()}
    batch = launch.launch_batch(BatchSettings(benchmark="medhallu", source=source, roles=roles, limit=50))
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert batch.status == batch.Status.FINISHED
    versions = SampleVersion.objects.filter(sample__batch=batch)
    sampled = [version for version in versions if version.provenance["review"] == "sampled"]
    assert versions.count() == 50
    assert 0 < len(sampled) < 25
    assert Case.objects.filter(state="primary").count() == len(sampled)

    assert approve_everything(physicians) == len(sampled), "one physician per sample"
    outcomes_services.apply_outcomes()
    release = releases_services.freeze_release(
        "own", benchmark="medhallu", composition=Composition(with_unreviewed=True)
    )
    assert release.samples_count == 50
    assert release.grounds == {"primary-alone": len(sampled), "unreviewed": 50 - len(sampled)}
    run = _run_and_check(release, url, *MEASURED)
    rates = {(row["endpoint"], row["dataset"]): row["rate"] for row in formats.as_dict(queries.report(run))["overall"]}
    assert rates["sim-careful", "knowledge"] > rates["sim-reckless", "knowledge"]
