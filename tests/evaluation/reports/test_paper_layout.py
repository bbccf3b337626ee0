"""The charts of a paper's figures, beside its tables."""

import pytest

from evaluation import registry
from evaluation.models import Run
from evaluation.published import PaperColumn, PublishedTable, filled
from evaluation.releases.leaderboard import beside_published, leaderboard
from evaluation.reports import paper_layout, queries
from generation.models import Sample
from generation.samples import errata
from review.charts.radar import RadarChart
from tests.engine import bare_release
from tests.evaluation.test_metrics import run_with_verdicts


def test_the_clusters_of_mhb_have_a_radar_for_each_data_set() -> None:
    figure = published_figure("Supplement")
    rates = [0.1, 0.2, 0.3, 0.4, 0.5] * 3
    without_e = [*rates[:4], None, *rates[5:]]
    [view] = paper_layout.views([filled(figure, {"a": without_e, "b": without_e})])
    charts = [chart for chart in view.charts if isinstance(chart, RadarChart)]
    assert [chart.title for chart in charts] == ["Dialogue", "Report", "Combined"]
    assert [[axis.label for axis in chart.axes] for chart in charts] == [[*"ABCD"], [*"ABCDE"], [*"ABCDE"]]
    assert charts[0].rows[3] == ("D", ("0.400", "0.400"))
    assert [entry.label for entry in charts[0].legend] == ["a", "b"]


def test_models_that_cannot_be_told_apart_are_not_drawn() -> None:
    figure = published_figure("Supplement")
    [view] = paper_layout.views([filled(figure, {f"m{n}": [0.5] * 15 for n in range(9)})])
    assert view.charts == ()
    assert len(view.filled.rows) == 9


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("tasks", "values", "beside"),
    [
        (["dialogue"], [0.0, None, None], ["Dialogue"]),
        (["dialogue", "report"], [0.0, 0.0, 0.0], ["Dialogue", "Report", "Combined"]),
    ],
)
def test_one_data_set_of_several_is_never_shown_as_the_papers_whole(
    tasks: list[str], values: list[float | None], beside: list[str]
) -> None:
    samples = [(task, [["A1"]]) for task in tasks] * 12
    run = run_with_verdicts(bare_release(*samples), one=lambda *_: "met")
    assert own_values(run) == values
    [board] = beside_published(leaderboard(run.release), "mhb")
    assert [column.heading for column in board.table.columns] == beside


@pytest.mark.django_db
def test_withdrawn_samples_are_in_no_table_of_samples() -> None:
    """As the report says: they count nowhere."""
    release = bare_release(("dialogue", [["A1"], ["A1"]]))
    assert queries.shares_of_samples(release, "subtype", "") == {"A1": (0, 1)}
    assert queries.samples_by_task(release) == {"dialogue": 1, "": 1}
    Sample.objects.update(status=Sample.Status.APPROVED)
    errata.withdraw(Sample.objects.get().pk, actor=None, reason="Wrong.")
    assert queries.shares_of_samples(release, "subtype", "") == {}
    assert queries.samples_by_task(release) == {"": 0}


@pytest.mark.django_db
def test_tables_of_samples_have_shares_of_all_and_of_a_value() -> None:
    release = bare_release(*[("dialogue", [["A1"]]), ("dialogue", [["C1"]])] * 3, ("report", [["A1"]]), ("report", []))
    columns = (
        PaperColumn("Dialogue", measure="share", value="dialogue"),
        PaperColumn("A1", measure="share", facet="subtype", value="A1"),
        PaperColumn("A1", measure="count", facet="subtype", value="A1"),
        PaperColumn("All", measure="count"),
    )
    table = PublishedTable("T", "", "", columns)
    run = run_with_verdicts(release, one=lambda *_: "met")
    [values] = paper_layout.own_numbers(queries.report(run), table.columns).values()
    assert values == [6 / 8, 4 / 8, 4.0, 8.0]


def published_figure(name: str) -> PublishedTable:
    return next(table for table in registry.published("mhb") if table.name == name)


def own_values(run: Run) -> list[float | None]:
    """What Figure 3 of MHB shows of the only model of a run."""
    tables = paper_layout.paper_tables(queries.report(run))
    figure = next(each for each in tables if each.table.name == "Figure 3")
    [row] = [row for row in figure.rows if not row.published]
    return list(row.values)
