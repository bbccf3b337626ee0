"""The chart of a run by kind of hallucination, and the note that explains it."""

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
    """Create a release of samples in two alternating categories, without models or physicians."""
    version = bare_release(("dialogue", [["A1"]])).samples.get().version
    created = Release.objects.create(
        name="pairs", version=1, benchmark="medhallu", samples_count=COUNT, rubrics_count=COUNT,
        counts={
            "task": {protocol.TASK: {"samples": COUNT, "rubrics": COUNT}},
            "category": {code: {"samples": COUNT // 2, "rubrics": COUNT // 2} for code in ("MQ", "II")},
        },
        generators=[], sources=[], simulated=False, sha256="1" * 64, created_at=timezone.now(),
    )  # fmt: skip
    for position in range(COUNT):
        evaluated = sample(position)
        released = ReleasedSample.objects.create(
            release=created,
            position=position,
            version=version,
            key=evaluated.key,
            task=evaluated.task,
            exported={"content": dict(evaluated.content)},
        )
        rubric = ReleasedRubric.objects.create(sample=released, key="R1", criterion="Says whether it is.", traps=[])
        Facet.objects.create(rubric=rubric, name="category", value=("MQ", "II")[position % 2])
    return created


def run_of_careful_model(url: str) -> Run:
    run = services.launch_run(RunSettings(release=release(), endpoints=[endpoint(url, "sim-careful")], seed=0))
    work.work_on_run(run.pk)
    return RUNS.get(run.pk)


def test_the_chart_by_kind_shows_recall_and_the_report_explains_why(url: str, admin_client: Client) -> None:
    run = run_of_careful_model(url)
    report = reports_queries.report(run)
    chart = figures(report, lambda *_where: "#")
    section = next(section for section in chart.sections if section.name == "category")
    assert (chart.rate.name, section.rate.name) == ("f1", "recall")
    # The answers are all about one record, which is too little for intervals.
    assert not section.lines
    for line, row in zip(section.few_lines, report.numbers.facets["category"], strict=True):
        # Only hallucinated answers that were shown count: true answers have no kind.
        shown = sum(row.verdicts.get(verdict, 0) for verdict in ("tp", "fn"))
        assert line.measured.denominator == shown < sum(row.verdicts.values())
    f1_chart = figures(report, lambda *_where: "#", rate="f1")
    assert [section.rate.name for section in f1_chart.sections] == ["f1"]

    page = admin_client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert "Metric: Recall." in page
    assert "About half of the answers shown are true and have no category" in page
    f1_page = admin_client.get(reverse("evaluation:run", args=[run.pk]), {"rate": "f1"}).content.decode()
    assert "Metric: F1." in f1_page
    assert "Metric: Recall." not in f1_page
    assert "About half of the answers shown are true and have no category" in formats.as_markdown(report)
