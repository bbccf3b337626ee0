"""The whole workflow on HealthBench as published: all 20 rows from file to report."""

import json
from pathlib import Path

import pytest
from django.apps import apps

from evaluation.models import Judgment, Response
from evaluation.reports import formats
from evaluation.reports import queries as reports_queries
from generation.batches.kind import BATCHES
from generation.models import Batch, Call, Import, Sample, SourceRecord
from generation.models.work import Work
from generation.outcomes import services as outcomes_services
from generation.releases import export
from generation.releases import queries as releases_queries
from generation.releases import services as releases_services
from generation.sources import queries as sources_queries
from review.cases import services as cases_services
from review.models import Case, User
from review.rules.case_spec import UNDETERMINED
from tests.engine import TARGETS, endpoint, evaluate_release, import_file, models, no_long_waits, run_batch
from tests.profile import public
from tests.review.approve import approve_everything

__all__ = ["models", "no_long_waits"]
pytestmark = [pytest.mark.django_db, pytest.mark.both]
ROWS = 20
UNSURE = 3  # rows too short for a certain language


@pytest.fixture
def healthbench() -> Path:
    """The published file."""
    return public("healthbench/healthbench.jsonl")


def test_all_twenty_rows_from_file_to_report(
    healthbench: Path, models: str, physicians: list[User], adela: User, tmp_path: Path
) -> None:
    source = import_file(healthbench, "healthbench")
    import_run = Import.objects.get()
    assert (import_run.rows, import_run.added, import_run.same, import_run.refused) == (ROWS, ROWS, 0, 0)
    published = [json.loads(line) for line in healthbench.read_text(encoding="utf-8").splitlines()]
    stored = {record.external_id: record for record in sources_queries.records(source)}
    assert [row["prompt_id"] for row in published] == list(stored), "with their own ids, in the order of the file"
    for row in published:
        content = stored[row["prompt_id"]].content
        assert content["turns"] == [{"role": turn["role"], "content": turn["content"]} for turn in row["prompt"]]

    batch = run_batch(source, endpoint(models))
    assert batch.status == Batch.Status.FINISHED
    assert BATCHES.progress(batch).done == ROWS
    assert Sample.objects.filter(status=Sample.Status.IN_REVIEW).count() == ROWS

    unsure = list(Case.objects.filter(language=UNDETERMINED))
    assert len(unsure) == UNSURE
    assert approve_everything(physicians) == 3 * (ROWS - UNSURE)  # primary, blind secondary, confirmation
    for case in unsure:  # only after an admin has set the language
        cases_services.set_language(case.pk, "en", actor=adela)
    assert approve_everything(physicians) == 3 * UNSURE
    assert outcomes_services.apply_outcomes() == ROWS
    release = releases_services.freeze_release("real", benchmark="mhb")
    assert release.samples_count == ROWS
    assert release.sources[0]["licence"] == "MIT"

    evaluation_run = evaluate_release(release, models, *TARGETS)
    assert Response.objects.filter(run=evaluation_run, status=Work.Status.DONE).count() == ROWS * len(TARGETS)
    judgments = Judgment.objects.filter(run=evaluation_run)
    assert (
        judgments.filter(status=Work.Status.DONE).count() == judgments.count() == release.rubrics_count * len(TARGETS)
    )
    report = formats.as_dict(reports_queries.report(evaluation_run))
    assert report["finished"]
    assert report["simulated"]
    rates = {row["endpoint"]: row["rate"] for row in report["overall"]}
    assert rates["sim-careful"] < rates["sim-average"] < rates["sim-reckless"]
    assert {row["denominator"] for row in report["overall"]} == {release.rubrics_count}
    assert {row["unjudged"] for row in report["overall"]} == {0}

    _check_canaries_stay_private([row["canary"] for row in published if row.get("canary")], tmp_path)


def _check_canaries_stay_private(canaries: list[str], folder: Path) -> None:
    """Check that canaries are stored only with their records: in no other row, model request or
    exported file."""
    assert len(canaries) == SourceRecord.objects.exclude(private={}).count() > 0
    canary_set = set(canaries)
    for model in apps.get_models():
        columns = [field.attname for field in model._meta.concrete_fields if field.attname != "private"]
        for row in model._base_manager.values_list(*columns):
            text = json.dumps(row, default=str, ensure_ascii=False)
            assert not [canary for canary in canary_set if canary in text], model
    assert Call.objects.count() > ROWS
    export.Export(releases_queries.release("real"), "jsonl").write(folder / "out")
    for path in filter(Path.is_file, (folder / "out").rglob("*")):
        text = path.read_text(encoding="utf-8")
        assert not [canary for canary in canary_set if canary in text], path
