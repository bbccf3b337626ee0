"""The charts of a paper's figures, beside its tables."""

import pytest

from evaluation import registry
from evaluation.published import filled
from evaluation.reports import paper_layout
from review.charts.radar import RadarChart

pytestmark = pytest.mark.plain


def test_figure_4_of_mhb_has_a_radar_of_the_clusters_for_each_data_set() -> None:
    figure = next(table for table in registry.published("mhb") if table.name == "Figure 4d")
    rates = [0.1, 0.2, 0.3, 0.4, 0.5] * 3
    without_e = [*rates[:4], None, *rates[5:]]
    [view] = paper_layout.views([filled(figure, {"a": without_e, "b": without_e})])
    charts = [chart for chart in view.charts if isinstance(chart, RadarChart)]
    assert [chart.title for chart in charts] == ["Dialogue", "Report", "Combined"]
    assert [[axis.label for axis in chart.axes] for chart in charts] == [[*"ABCD"], [*"ABCDE"], [*"ABCDE"]]
    assert charts[0].rows[3] == ("D", ("0.400", "0.400"))
    assert [entry.label for entry in charts[0].legend] == ["a", "b"]


def test_models_that_cannot_be_told_apart_are_not_drawn() -> None:
    figure = next(table for table in registry.published("mhb") if table.name == "Figure 4d")
    [view] = paper_layout.views([filled(figure, {f"m{n}": [0.5] * 15 for n in range(9)})])
    assert view.charts == ()
    assert len(view.filled.rows) == 9
