"""The figures of a report as files: all of them, with the numbers of the page, and safe to open."""

import csv
import io
from typing import Any
from xml.etree import ElementTree

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation.models import Run
from evaluation.reports import figure_files, queries
from evaluation.reports.figures import ReportFigures, figures
from evaluation.reports.headlines import run_dates
from evaluation.statistics.intervals import MINIMUM
from generation.models import Endpoint, Facet, ReleasedRubric
from review.charts.standalone import palette, svg
from review.models import User
from tests.engine import bare_release
from tests.evaluation.test_pages import judged_run, text_of
from tests.evaluation.toy import toy
from tests.populations import population

__all__ = ["toy"]

pytestmark = pytest.mark.django_db
SVG = "{http://www.w3.org/2000/svg}"
TRAPS = ("A1", "B2", "C2", "D2", "E1")


@population
def run() -> Run:
    """Two models on enough samples per trap for an interval: rates without one are not drawn."""
    release = bare_release(*[("dialogue", [[trap]]) for trap in TRAPS] * 2 * MINIMUM, ("report", [["A1"], ["B2"]]))
    return judged_run(release, "one", "two")


def figures_of(run: Run) -> ReportFigures:
    return figures(queries.report(run), lambda *_asked: "#")


def names(shown: ReportFigures) -> list[str]:
    radars = [chart.name for section in shown.sections for chart in section.radars]
    heats = [chart.name for section in shown.sections for chart in section.heats]
    return [chart.name for chart in shown.bars] + radars + heats


def download(client: Client, run: Run, name: str, extension: str, **query: str) -> Any:
    return client.get(reverse(f"evaluation:figure-{extension}", args=[run.pk, name]), query)


def test_every_figure_of_the_page_can_be_downloaded(run: Run, admin: Client) -> None:
    page = text_of(admin.get(reverse("evaluation:run", args=[run.pk])))
    figure_names = names(figures_of(run))
    assert {name.partition("-")[0] for name in figure_names} == {"bars", "radar", "heat"}
    for name in figure_names:
        for extension in ("svg", "csv"):
            assert reverse(f"evaluation:figure-{extension}", args=[run.pk, name]) in page
            response = download(admin, run, name, extension)
            assert response.status_code == 200
            assert response["Content-Disposition"].startswith("attachment")
            day = timezone.localdate(run.finished_at or run.created_at).isoformat()
            assert f'"bare-v1-run-{run.pk}-{day}-{name}.{extension}"' in response["Content-Disposition"]
        assert run_dates(run) in download(admin, run, name, "svg").content.decode()
        picture = ElementTree.fromstring(download(admin, run, name, "svg").content)
        assert picture.tag == f"{SVG}svg"
        for element in picture.iter():
            assert element.tag.removeprefix(SVG) in {"svg", "title", "rect", "path", "text"}
            assert not {"style", "class", "href"} & set(element.attrib)
            assert "var(" not in str(element.attrib)


def test_a_figure_by_a_name_with_a_space_can_be_downloaded(admin: Client) -> None:
    release = bare_release(*[("dialogue", [[trap]]) for trap in TRAPS])
    for rubric in ReleasedRubric.objects.filter(sample__release=release):
        Facet.objects.create(rubric=rubric, name="body system", value=f"system {rubric.pk % 2}")
    run = judged_run(release, "one", "two")
    assert "heat-body-system-dialogue" in names(figures_of(run))
    assert download(admin, run, "heat-body-system-dialogue", "svg").status_code == 200


def test_the_files_have_the_numbers_of_the_page(run: Run, admin: Client) -> None:
    report = queries.report(run)
    rows = list(csv.DictReader(io.StringIO(download(admin, run, "bars-combined", "csv").content.decode("utf-8-sig"))))
    for row, expected in zip(rows, [row for row in report.numbers.overall if row.dataset == "combined"], strict=True):
        assert row["label"] == expected.endpoint
        assert expected.measured.value is not None
        assert float(row["value"]) == pytest.approx(expected.measured.value, abs=1e-4)
        assert (int(row["numerator"]), int(row["denominator"])) == (
            expected.measured.numerator,
            expected.measured.denominator,
        )
    rates = {
        (row.label, row.endpoint): row.measured.value
        for row in report.numbers.facets["cluster"]
        if row.dataset == "combined"
    }
    for row in csv.DictReader(
        io.StringIO(download(admin, run, "heat-cluster-combined", "csv").content.decode("utf-8-sig"))
    ):
        label = row["row"].partition(" ")[2]
        value = float(row["value"]) if row["value"] else None
        assert value == pytest.approx(rates[label, row["column"]])
    axes = list(
        csv.DictReader(io.StringIO(download(admin, run, "radar-subtype-combined", "csv").content.decode("utf-8-sig")))
    )
    assert {row["series"] for row in axes} == {"one", "two"}


def test_a_figure_names_its_run_and_says_if_models_are_simulated(run: Run, admin: Client) -> None:
    text = download(admin, run, "bars-combined", "svg").content.decode()
    assert f"Run {run.pk} on bare v1" in text
    assert "Simulated models" not in text
    Endpoint.objects.filter(name="one").update(simulated=True)
    assert "Simulated models: not evidence" in download(admin, run, "bars-combined", "svg").content.decode()
    heat = download(admin, run, "heat-subtype-combined", "svg").content.decode()
    assert "Trap subtype" in heat


def test_colours_are_those_of_the_light_theme() -> None:
    assert palette()["surface"] == "#fffefb"
    assert {f"series-{n}" for n in range(8)} | {f"heat-{n}" for n in range(10)} <= set(palette())


def test_texts_are_escaped(run: Run) -> None:
    figure = figure_files.chart_named(figures_of(run), "bars-combined")
    assert figure is not None
    text = svg(figure.chart, "<script>a & b", ['"</svg>'])
    assert "<script" not in text
    ElementTree.fromstring(text)


@pytest.mark.parametrize("name", ["nothing", "bars", "title", "bars-combined-x"])
def test_an_unknown_figure_is_not_found(run: Run, admin: Client, name: str) -> None:
    assert download(admin, run, name, "svg").status_code == 404
    assert admin.get(reverse("evaluation:figure-svg", args=[999, "bars-combined"])).status_code == 404


def test_figures_show_the_rate_chosen_on_the_page(run: Run, admin: Client) -> None:
    page = text_of(admin.get(reverse("evaluation:run", args=[run.pk]), {"rate": "hallucination"}))
    assert "bars-combined.svg?rate=hallucination" in page
    assert download(admin, run, "bars-combined", "svg", rate="hallucination").status_code == 200
    assert download(admin, run, "bars-combined", "svg", rate="nonsense").status_code == 200


def test_figures_are_for_readers_of_results(run: Run, ana: User, rui: User) -> None:
    address = reverse("evaluation:figure-svg", args=[run.pk, "bars-combined"])
    physician, researcher = Client(), Client()
    physician.force_login(ana)
    researcher.force_login(rui)
    assert Client().get(address).status_code == 302
    assert physician.get(address).status_code == 403
    assert researcher.get(address).status_code == 200
