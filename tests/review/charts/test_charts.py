"""Charts: the geometry that the templates draw, and the markup that they produce."""

import re
from datetime import date

import pytest
from django.template.loader import render_to_string

from review.charts import bars, daily_bars, heat_map, radar, text_measure
from review.charts.bars import Bar, BarAmount
from review.charts.radar import Series


def test_a_bar_is_as_long_as_its_share():
    chart = bars.bars([Bar("a", 0.25, 0.2, 0.3, 5, 20), Bar("b", 0.5), Bar("c", 0.0, 0.0, 0.1, 0, 9)])
    assert [mark.width for mark in chart.marks] == [25, 50, 0]
    first = chart.marks[0]
    assert (first.low, first.high) == (20, 30)
    assert (first.text, first.interval, first.count) == ("25.0%", "20.0%–30.0%", "5/20")


def test_all_scales_of_shares_are_the_same():
    for chart in (bars.bars([Bar("a", 0.01)]), bars.bars([Bar("a", 0.96, 0.9, 1.0)])):
        assert chart.ticks == ("0%", "25%", "50%", "75%", "100%")
    assert bars.bars([Bar("a", 0.4, percent=False)]).ticks == ("0.00", "0.25", "0.50", "0.75", "1.00")
    with pytest.raises(ValueError, match="outside"):
        bars.bars([Bar("a", 1.3)])


def test_a_missing_rate_has_no_bar_and_no_whisker():
    (mark,) = bars.bars([Bar("silent", None, 0.0, 1.0, 0, 0)]).marks
    assert (mark.width, mark.low, mark.high, mark.text, mark.interval) == (0, None, None, "", "")


def test_rows_with_the_same_label_form_a_group_with_a_colour_per_series():
    rows = [Bar(label, 0.5, series=series) for label in ("dialogue", "report") for series in ("m1", "m2", "m3")]
    chart = bars.bars(rows)
    assert [mark.leads for mark in chart.marks] == [True, False, False] * 2
    assert [mark.sign.index for mark in chart.marks] == [0, 1, 2, 0, 1, 2]
    assert [entry.label for entry in chart.legend] == ["m1", "m2", "m3"]


@pytest.mark.parametrize(
    "text", ["Multimodal integration failure of a long name", "多模态信息整合失败与诊断推理错误", "x" * 60]
)
def test_a_long_label_is_wrapped_without_losing_text(text):
    lines = text_measure.wrap(text, 110)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert "" not in lines
    assert all(text_measure.text_width(line) <= 110 or " " not in line for line in lines)
    assert len(lines) > 1 or text[0] == "x"


def test_the_first_axis_points_up_and_the_others_follow_clockwise():
    chart = radar.radar(["n", "e", "s", "w"], [Series("m", [1.0, 0.5, 0.25, 0.0])])
    (shape,) = chart.shapes
    radius = chart.rings[-1].radius
    assert [(round(p.x - chart.cx, 2), round(p.y - chart.cy, 2)) for p in shape.points] == [
        (0, -radius),
        (radius / 2, 0),
        (0, radius / 4),
        (0, 0),
    ]
    assert [axis.anchor for axis in chart.axes] == ["middle", "start", "middle", "end"]
    assert [ring.radius for ring in chart.rings] == pytest.approx([radius * r for r in (0.25, 0.5, 0.75, 1)], abs=0.01)
    assert shape.closed
    assert shape.paths[0].endswith("Z")


@pytest.mark.parametrize(
    ("values", "runs"),
    [
        ([0.5, None, 0.5, 0.5, 0.5], [4]),  # one gap: one run, across the top
        ([None, 0.5, 0.5, None, 0.5], [2]),  # the lone value has a marker and no line
        ([0.5, None, 0.5, None, 0.5], [2]),
        ([None] * 5, []),
    ],
)
def test_a_missing_value_is_a_gap_and_never_the_centre(values, runs):
    chart = radar.radar(list("abcde"), [Series("m", values)])
    (shape,) = chart.shapes
    assert not shape.closed
    assert [path.count("L") + 1 for path in shape.paths] == runs
    assert not any(path.endswith("Z") for path in shape.paths)
    assert len(shape.points) == sum(v is not None for v in values)
    assert all((p.x, p.y) != (chart.cx, chart.cy) for p in shape.points)
    assert [texts for _, texts in chart.rows] == [("50.0%",) if v is not None else ("",) for v in values]


def test_eight_series_differ_without_colour_and_a_ninth_is_refused():
    series = [Series(f"m{i}", [0.1, 0.2, 0.3]) for i in range(8)]
    chart = radar.radar(["a", "b", "c"], series)
    assert len({entry.marker for entry in chart.legend}) == 8
    assert len({(entry.dash, entry.marker) for entry in chart.legend}) == 8
    with pytest.raises(ValueError, match="8 can"):
        radar.radar(["a", "b", "c"], [*series, Series("m9", [0, 0, 0])])


UNITS = ("samples", "rubrics")


def test_both_counts_share_one_scale_and_charts_can_share_it_too():
    rows = [BarAmount("A1", 10, 40, group="A"), BarAmount("A2", 20, 0, group="A"), BarAmount("D2", 10, 10)]
    chart = bars.amounts(rows, UNITS)
    assert [mark.width for mark in chart.marks] == [25, 100, 50, 0, 25, 25]
    assert [mark.text for mark in chart.marks] == ["10", "40", "20", "0", "10", "10"]
    assert [mark.heading for mark in chart.marks] == ["A", "", "", "", "", ""]
    assert [mark.sign.hollow for mark in chart.marks] == [False, True] * 3
    assert [mark.width for mark in bars.amounts(rows, UNITS, top=80).marks][:2] == [12.5, 50]
    assert [mark.width for mark in bars.amounts([BarAmount("A1", 0, 0)], UNITS).marks] == [0, 0]


SIGNS = [text_measure.LegendEntry("answered", 0), text_measure.LegendEntry("failed", 1)]
TWO_DAYS = [(date(2026, 5, 1), (5, 3)), (date(2026, 5, 2), (0, 10))]


def test_the_counts_of_a_day_are_stacked_or_side_by_side():
    stacked = daily_bars.days(TWO_DAYS, SIGNS, stacked=True)
    below, above = stacked.bars[0].parts
    assert below.y + below.height == pytest.approx(stacked.bottom)
    assert above.y + above.height == pytest.approx(below.y)
    assert below.height / above.height == pytest.approx(5 / 3, abs=0.01)
    assert below.x == above.x
    beside = daily_bars.days(TWO_DAYS, SIGNS)
    first, second = beside.bars[0].parts
    assert second.x == pytest.approx(first.x + first.width, abs=0.01)
    assert first.y + first.height == second.y + second.height == pytest.approx(beside.bottom)
    (tallest,) = beside.bars[1].parts  # a count of 0 is not drawn
    assert tallest.x + tallest.width <= 100
    assert [bar.label for bar in beside.bars] == [None, date(2026, 5, 2)]


@pytest.mark.parametrize(("share", "step"), [(0, 0), (0.0999, 0), (0.1, 1), (0.55, 5), (0.999, 9), (1, 9)])
def test_heat_has_ten_equal_steps(share, step):
    assert heat_map.heat_step(share) == step


def test_a_heat_map_keeps_its_gaps_and_its_links():
    chart = heat_map.heat(["m1", "m2"], ["A1", "A2"], [[0.0, None], [1.0, 0.42]], [["/a", "/b"], ["/c", "/d"]])
    cells = [cell for _, row in chart.rows for cell in row]
    assert [cell.step for cell in cells] == [0, None, 9, 4]
    assert [cell.text for cell in cells] == ["0.0%", "", "100.0%", "42.0%"]
    assert [cell.href for cell in cells] == ["/a", "/b", "/c", "/d"]


CHARTS = {
    "bars": bars.bars([Bar("<b>m</b>", 0.5, 0.4, 0.6, 5, 10, "/go?a=1&b=2"), Bar("none", None, href="/go")]),
    "radar": radar.radar(["a", "b", "<c>"], [Series("m", [0.1, None, 0.3], ["/1", "/2", "/3"])]),
    "amounts": bars.amounts([BarAmount("A1", 1, 2, "/go"), BarAmount("<i>", 3, 4)], UNITS, title="<b>"),
    "days": daily_bars.days(TWO_DAYS, SIGNS, title="<b>"),
    "heat": heat_map.heat(["<m>"], ["A1"], [[0.3]], [["/go"]]),
}


@pytest.mark.parametrize("kind", CHARTS)
def test_a_chart_renders_without_inline_styles_scripts_or_markup_from_labels(kind):
    template = {"amounts": "bars"}.get(kind, kind)
    html = render_to_string(f"review/charts/{template}.html", {"chart": CHARTS[kind], "table": True})
    assert not re.search(r"\sstyle=|<style|<script|\son\w+=", html)  # the CSP would block it
    assert not re.search(r"<(b|c|i|m)>", html)  # labels are escaped
    assert "<table" in html
    assert kind == "days" or 'href="' in html
    assert not re.search(r'(x|y|width|height|d)="%?"', html)  # no length is empty


def test_a_bar_without_a_value_says_that_there_are_no_data():
    assert "no data" in render_to_string("review/charts/bars.html", {"chart": CHARTS["bars"]})
