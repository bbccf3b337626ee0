"""The loop on real rows: HealthBench as its authors publish it, 20 of 20 from file to report."""

import json
from pathlib import Path

import pytest
from django.apps import apps

from bench import servers
from evaluation.models import Judgment, Response
from evaluation.reports import formats
from evaluation.reports import queries as reports_queries
from generation.batches.kind import BATCHES
from generation.models import Batch, Call, Import, Sample, SourceRecord
from generation.models.work import Work
from generation.releases import export
from generation.releases import queries as releases_queries
from generation.releases import services as releases_services
from generation.samples import services as samples_services
from generation.sources import queries as sources_queries
from review.assignments import claims
from review.models import Case, User
from review.rules.case_spec import UNDETERMINED
from tests.engine import TARGETS, endpoint, evaluated, generated, imported, models, no_long_waits
from tests.review.approve import approve_everything

__all__ = ["models", "no_long_waits"]
pytestmark = [pytest.mark.django_db, pytest.mark.both]
REAL = Path(__file__).parents[3] / "shared/data/healthbench/healthbench.jsonl"
ROWS = 20
UNSURE = 3  # too short to be sure of their language


@pytest.fixture
def healthbench() -> Path:
    """The published file. Absent, the test is skipped by name; on CI that is a failure."""
    if not REAL.exists() and not servers.ci():
        pytest.skip("the HealthBench sample is not in ../shared/data")
    return REAL


def test_twenty_of_twenty(healthbench: Path, models: str, physicians: list[User], adela: User, tmp_path: Path) -> None:
    source = imported(healthbench, "healthbench")
    run = Import.objects.get()
    assert (run.rows, run.added, run.known, run.refused) == (ROWS, ROWS, 0, 0)
    published = [json.loads(line) for line in healthbench.read_text(encoding="utf-8").splitlines()]
    stored = {record.external_id: record for record in sources_queries.records(source)}
    assert [row["prompt_id"] for row in published] == list(stored), "under their own ids, in the file's order"
    for row in published:
        content = stored[row["prompt_id"]].content
        assert content["turns"] == [{"role": turn["role"], "content": turn["content"]} for turn in row["prompt"]]

    batch = generated(source, endpoint(models))
    assert batch.status == Batch.Status.FINISHED
    assert BATCHES.progress(batch).done == ROWS
    assert Sample.objects.filter(status=Sample.Status.IN_REVIEW).count() == ROWS

    unsure = list(Case.objects.filter(language=UNDETERMINED))
    assert len(unsure) == UNSURE
    assert approve_everything(physicians) == 3 * (ROWS - UNSURE)  # primary, secondary blind, secondary confirmed
    for case in unsure:  # until an admin says which language it is
        claims.set_language(case.pk, "en", actor=adela)
    assert approve_everything(physicians) == 3 * UNSURE
    assert samples_services.apply_outcomes() == ROWS
    release = releases_services.freeze_release("real", benchmark="mhb")
    assert release.samples_count == ROWS
    assert release.sources[0]["licence"] == "MIT"

    measured = evaluated(release, models, *TARGETS)
    assert Response.objects.filter(run=measured, status=Work.Status.DONE).count() == ROWS * len(TARGETS)
    judged = Judgment.objects.filter(run=measured)
    assert judged.filter(status=Work.Status.DONE).count() == judged.count() == release.rubrics_count * len(TARGETS)
    report = formats.as_dict(reports_queries.report(measured))
    assert report["finished"]
    assert report["simulated"]
    rates = {row["endpoint"]: row["rate"] for row in report["overall"]}
    assert rates["sim-careful"] < rates["sim-average"] < rates["sim-reckless"]
    assert {row["denominator"] for row in report["overall"]} == {release.rubrics_count}
    assert {row["unjudged"] for row in report["overall"]} == {0}

    _nothing_private([row["canary"] for row in published if row.get("canary")], tmp_path)


def _nothing_private(canaries: list[str], folder: Path) -> None:
    """The canary is with the record, and in no other row, in no request to a model and in no file."""
    assert len(canaries) == SourceRecord.objects.exclude(private={}).count() > 0
    words = set(canaries)
    for model in apps.get_models():
        columns = [field.attname for field in model._meta.concrete_fields if field.attname != "private"]
        for row in model._base_manager.values_list(*columns):
            text = json.dumps(row, default=str, ensure_ascii=False)
            assert not [word for word in words if word in text], model
    assert Call.objects.count() > ROWS
    export.export_release(releases_queries.release("real"), "jsonl", folder / "out")
    for path in (folder / "out").iterdir():
        text = path.read_text(encoding="utf-8")
        assert not [word for word in words if word in text], path
