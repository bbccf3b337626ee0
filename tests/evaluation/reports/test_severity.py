"""Rates by severity: in the order of the harm scale, drawn as a heat map, and counted right."""

import pytest

from evaluation.answers import queries as answers_queries
from evaluation.answers.forms import JudgmentFilters
from evaluation.reports import formats, queries
from evaluation.reports.figures import figures
from generation.models import Facet, Release, ReleasedRubric
from review.rules.permissions import OPERATOR
from tests.engine import bare_release
from tests.evaluation.test_pages import judged_run, with_facets

pytestmark = pytest.mark.django_db
SCALE = ["none", "mild", "moderate", "severe", "death"]
# Severities of the eight rubrics of `release`.
SEVERITIES = ["severe", "mild", "death", "none", "mild", "severe", "moderate", "severe"]


@pytest.fixture
def release(db: None) -> Release:
    """Eight rubrics with the SEVERITIES."""
    return release_with_severities(times=1)


def release_with_severities(times: int) -> Release:
    """A release with `times` pairs of samples, each pair with eight rubrics with the SEVERITIES."""
    samples = (("dialogue", [["A1"], ["A1"], ["D2"], ["C2"]]), ("report", [["A1"], ["B2"], ["E1"], ["A1"]]))
    release = bare_release(*samples * times)
    Facet.objects.bulk_create(
        Facet(rubric=rubric, name="severity", value=severity)
        for rubric, severity in zip(ReleasedRubric.objects.order_by("pk"), SEVERITIES * times, strict=True)
    )
    return release


def test_rates_by_severity_are_in_the_order_of_the_scale(release: Release) -> None:
    run = judged_run(release, "one", "two", verdicts=("met", "not_met"))
    report = queries.report(run)
    rows = [
        row for row in report.numbers.facets["severity"] if row.dataset == queries.COMBINED and row.endpoint == "one"
    ]
    assert [row.value for row in rows] == SCALE, "from the least harm to the most"
    assert [row.measured.denominator for row in rows] == [SEVERITIES.count(value) for value in SCALE]
    for row in rows:
        judgments = queries.judgments(run, endpoint="one", facet="severity", value=row.value, verdict="not_met")
        assert row.measured.numerator == judgments.count()


def test_severity_is_drawn_as_a_heat_map_and_never_as_a_radar(db: None) -> None:
    report = queries.report(judged_run(release_with_severities(times=15), "one", "two", verdicts=("met", "not_met")))
    sections = {section.name: section for section in figures(report, lambda *asked: "#").sections}
    assert sections["severity"].radars == ()
    assert sections["subtype"].radars
    assert next(line.value for line in sections["severity"].lines if line.row.endpoint == "one") == "none"
    text = formats.as_markdown(report)
    assert "## Breakdown: Severity of harm" in text
    assert "| severe |" in text
    assert "severe severe" not in text


def test_judgments_can_be_filtered_by_severity(release: Release) -> None:
    run = with_facets(judged_run(release, "one"))
    form = JudgmentFilters({"value": "death", "facet": "severity"}, run=run)
    offered = dict(form.fields["value"].choices)  # type: ignore[attr-defined]
    assert [value for value, _label in offered["Severity of harm"]] == SCALE
    assert answers_queries.judgments(run, OPERATOR, **form.chosen).count() == 1


def test_a_release_without_severities_has_no_such_rows(db: None) -> None:
    report = queries.report(judged_run(bare_release(("dialogue", [["A1"]])), "one"))
    assert report.numbers.facets["severity"] == ()
    assert [section.name for section in figures(report, lambda *asked: "#").sections] == ["cluster", "subtype"]
    assert "Severity" not in formats.as_markdown(report)
