"""What the report of a run draws by kind of hallucination and says of it."""

from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation.models import Run
from evaluation.reports import formats
from evaluation.reports import queries as reports_queries
from evaluation.reports.figures import figures
from evaluation.runs import services, work
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RunSettings
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Facet, Release, ReleasedRubric, ReleasedSample
from mhb_site.benchmarks.medhallu import protocol, simulate
from tests.benchmarks.medhallu.pairs import sample
from tests.engine import bare_release, endpoint

pytestmark = pytest.mark.django_db
COUNT = 24


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_in_background(make_app([simulate.SCRIPT], seed=3)) as address:
        yield address


def release() -> Release:
    """So many samples, by turns of two categories; made without any model or physician."""
    version = bare_release(("dialogue", [["A1"]])).samples.get().version
    made = Release.objects.create(
        name="pairs", version=1, benchmark="medhallu", samples_count=COUNT, rubrics_count=COUNT,
        counts={
            "task": {protocol.TASK: {"samples": COUNT, "rubrics": COUNT}},
            "category": {code: {"samples": COUNT // 2, "rubrics": COUNT // 2} for code in ("MQ", "II")},
        },
        generators=[], sources=[], simulated=False, sha256="1" * 64, created_at=timezone.now(),
    )  # fmt: skip
    for at in range(COUNT):
        one = sample(at)
        released = ReleasedSample.objects.create(
            release=made,
            position=at,
            version=version,
            key=one.key,
            task=one.task,
            exported={"content": dict(one.content)},
        )
        rubric = ReleasedRubric.objects.create(sample=released, key="R1", criterion="Says whether it is.", traps=[])
        Facet.objects.create(rubric=rubric, name="category", value=("MQ", "II")[at % 2])
    return made


def worked(url: str) -> Run:
    run = services.launch_run(RunSettings(release(), [endpoint(url, "sim-careful")], seed=0))
    work.work_on_run(run.pk)
    return RUNS.get(run.pk)


def test_by_kind_recall_is_drawn_and_the_report_says_why(url: str, admin_client: Client) -> None:
    run = worked(url)
    report = reports_queries.report(run)
    drawn = figures(report, lambda *_where: "#")
    section = next(section for section in drawn.sections if section.name == "category")
    assert (drawn.rate.name, section.rate) == ("f1", "Recall")
    for line, row in zip(section.lines, report.facets["category"], strict=True):
        # Answers of the kind that were shown: true ones are of none.
        shown = sum(row.verdicts.get(verdict, 0) for verdict in ("tp", "fn"))
        assert line.denominator == shown < sum(row.verdicts.values())
    chosen = figures(report, lambda *_where: "#", rate="f1")
    assert [section.rate for section in chosen.sections] == ["F1"]

    page = admin_client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert "Metric: Recall." in page
    assert "About half of the answers shown are true and have no category" in page
    asked = admin_client.get(reverse("evaluation:run", args=[run.pk]), {"rate": "f1"}).content.decode()
    assert "Metric: F1." in asked
    assert "Metric: Recall." not in asked
    assert "About half of the answers shown are true and have no category" in formats.as_markdown(report)
