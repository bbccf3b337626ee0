"""The pictures of a report as files: every picture, with the numbers of the page, and safe to open."""

import csv
import io
from typing import Any
from xml.etree import ElementTree

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.models import Run
from evaluation.reports import figure_files, queries
from evaluation.reports.figures import Figures, figures
from evaluation.statistics.intervals import MINIMUM
from generation.models import Endpoint
from review.charts.standalone import palette, svg
from review.models import User
from tests.engine import bare_release
from tests.evaluation.test_pages import admin, judged, text_of
from tests.evaluation.toy import toy
from tests.populations import population

__all__ = ["admin", "toy"]
pytestmark = pytest.mark.django_db
SVG = "{http://www.w3.org/2000/svg}"
TRAPS = ("A1", "B2", "C2", "D2", "E1")


@population
def run() -> Run:
    """Enough of every trap for an interval: what has none is not drawn."""
    release = bare_release(*[("dialogue", [[trap]]) for trap in TRAPS] * 2 * MINIMUM, ("report", [["A1"], ["B2"]]))
    return judged(release, "one", "two")


def drawn(run: Run) -> Figures:
    return figures(queries.report(run), lambda *_asked: "#")


def names(found: Figures) -> list[str]:
    radars = [chart.name for section in found.sections for chart in section.radars]
    heats = [chart.name for section in found.sections for chart in section.heats]
    return [chart.name for chart in found.bars] + radars + heats


def file(client: Client, run: Run, name: str, ending: str, **query: str) -> Any:
    return client.get(reverse(f"evaluation:figure-{ending}", args=[run.pk, name]), query)


def test_every_picture_of_the_page_is_a_file(run: Run, admin: Client) -> None:
    page = text_of(admin.get(reverse("evaluation:run", args=[run.pk])))
    found = names(drawn(run))
    assert {name.partition("-")[0] for name in found} == {"bars", "radar", "heat"}
    for name in found:
        for ending in ("svg", "csv"):
            assert reverse(f"evaluation:figure-{ending}", args=[run.pk, name]) in page
            answer = file(admin, run, name, ending)
            assert answer.status_code == 200
            assert answer["Content-Disposition"].startswith("attachment")
            assert f"run-{run.pk}-{name}.{ending}" in answer["Content-Disposition"]
        picture = ElementTree.fromstring(file(admin, run, name, "svg").content)
        assert picture.tag == f"{SVG}svg"
        for element in picture.iter():
            assert element.tag.removeprefix(SVG) in {"svg", "title", "rect", "path", "text"}
            assert not {"style", "class", "href"} & set(element.attrib)
            assert "var(" not in str(element.attrib)


def test_the_numbers_are_those_of_the_page(run: Run, admin: Client) -> None:
    report = queries.report(run)
    rows = list(csv.DictReader(io.StringIO(file(admin, run, "bars-combined", "csv").content.decode())))
    for row, of in zip(rows, [row for row in report.overall if row.dataset == "combined"], strict=True):
        assert row["label"] == of.endpoint
        assert of.measured.value is not None
        assert float(row["value"]) == pytest.approx(of.measured.value, abs=1e-4)
        assert (int(row["numerator"]), int(row["denominator"])) == (of.measured.numerator, of.measured.denominator)
    rates = {
        (row.label, row.endpoint): row.measured.value for row in report.facets["cluster"] if row.dataset == "combined"
    }
    for row in csv.DictReader(io.StringIO(file(admin, run, "heat-cluster-combined", "csv").content.decode())):
        label = row["row"].partition(" ")[2]
        expected = rates[label, row["column"]]
        assert (float(row["value"]) if row["value"] else None) == pytest.approx(expected)
    axes = list(csv.DictReader(io.StringIO(file(admin, run, "radar-subtype-combined", "csv").content.decode())))
    assert {row["series"] for row in axes} == {"one", "two"}


def test_the_picture_says_what_must_be_known(run: Run, admin: Client) -> None:
    text = file(admin, run, "bars-combined", "svg").content.decode()
    assert f"Run {run.pk} on bare v1" in text
    assert "Simulated models" not in text
    Endpoint.objects.filter(name="one").update(simulated=True)
    assert "Simulated models: not evidence" in file(admin, run, "bars-combined", "svg").content.decode()
    heat = file(admin, run, "heat-subtype-combined", "svg").content.decode()
    assert "Trap subtype" in heat


def test_colours_are_resolved_from_the_tokens_of_the_light_theme() -> None:
    assert palette()["surface"] == "#fffefb"
    assert {f"series-{n}" for n in range(8)} | {f"heat-{n}" for n in range(10)} <= set(palette())


def test_texts_are_escaped(run: Run) -> None:
    found = figure_files.chart_named(drawn(run), "bars-combined")
    assert found is not None
    text = svg(found.chart, "<script>a & b", ['"</svg>'])
    assert "<script" not in text
    ElementTree.fromstring(text)


@pytest.mark.parametrize("name", ["nothing", "bars", "title", "bars-combined-x"])
def test_there_is_no_such_picture(run: Run, admin: Client, name: str) -> None:
    assert file(admin, run, name, "svg").status_code == 404
    assert admin.get(reverse("evaluation:figure-svg", args=[999, "bars-combined"])).status_code == 404


def test_the_rate_that_is_shown(run: Run, admin: Client) -> None:
    page = text_of(admin.get(reverse("evaluation:run", args=[run.pk]), {"rate": "hallucination"}))
    assert "bars-combined.svg?rate=hallucination" in page
    assert file(admin, run, "bars-combined", "svg", rate="hallucination").status_code == 200
    assert file(admin, run, "bars-combined", "svg", rate="nonsense").status_code == 200


def test_figures_are_for_readers_of_results(run: Run, ana: User, rui: User) -> None:
    address = reverse("evaluation:figure-svg", args=[run.pk, "bars-combined"])
    physician, researcher = Client(), Client()
    physician.force_login(ana)
    researcher.force_login(rui)
    assert Client().get(address).status_code == 302
    assert physician.get(address).status_code == 403
    assert researcher.get(address).status_code == 200
