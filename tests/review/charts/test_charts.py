"""Geometry of the charts: the numbers that the templates draw, and what the templates say of them."""

import re
from itertools import pairwise

import pytest
from django.template.loader import render_to_string

from review.charts import bars, distribution, heat_map, radar, text_measure
from review.charts.bars import Bar
from review.charts.distribution import Amount
from review.charts.radar import Series


def plot(chart):
    """Left edge and width of the scale."""
    return chart.ticks[0].at, chart.ticks[-1].at - chart.ticks[0].at


def test_a_bar_is_as_long_as_its_share():
    chart = bars.bars([Bar("a", 0.25, 0.2, 0.3, 5, 20), Bar("b", 0.5), Bar("c", 0.0, 0.0, 0.1, 0, 9)])
    left, width = plot(chart)
    assert [mark.x for mark in chart.marks] == [left] * 3
    assert [mark.width for mark in chart.marks] == pytest.approx([width * 0.25, width * 0.5, 0], abs=0.01)
    assert chart.marks[0].low_x == pytest.approx(left + width * 0.2, abs=0.01)
    assert chart.marks[0].high_x == pytest.approx(left + width * 0.3, abs=0.01)
    assert chart.marks[0].text == "25.0% (5/20)"
    assert [tick.text for tick in chart.ticks] == ["0%", "25%", "50%", "75%", "100%"]


def test_the_number_stands_behind_the_whisker_and_inside_the_chart():
    chart = bars.bars([Bar("a", 0.96, 0.9, 1.0, 9600, 10000)])
    (mark,) = chart.marks
    assert mark.high_x is not None
    assert mark.text_x > mark.high_x
    assert mark.text_x + text_measure._measure(mark.text) <= chart.width


def test_a_missing_rate_has_no_bar_and_no_whisker():
    (mark,) = bars.bars([Bar("silent", None, 0.0, 1.0, 0, 0)]).marks
    assert (mark.width, mark.low_x, mark.high_x, mark.text) == (0, None, None, "")


def test_a_shorter_scale_stretches_the_bars():
    chart = bars.bars([Bar("a", 0.1)], top=0.2)
    assert chart.marks[0].width == pytest.approx(plot(chart)[1] / 2, abs=0.01)
    with pytest.raises(ValueError, match="outside"):
        bars.bars([Bar("a", 0.3)], top=0.2)


def test_rows_of_one_label_form_a_group_with_a_colour_for_each_series():
    rows = [Bar(label, 0.5, series=series) for label in ("dialogue", "report") for series in ("m1", "m2", "m3")]
    chart = bars.bars(rows)
    assert [mark.label for mark in chart.marks] == ["dialogue", "", "", "report", "", ""]
    assert [mark.index for mark in chart.marks] == [0, 1, 2, 0, 1, 2]
    assert [entry.label for entry in chart.legend] == ["m1", "m2", "m3"]
    edges = [(mark.y, mark.y + mark.height) for mark in chart.marks]
    assert all(below[0] >= above[1] for above, below in pairwise(edges))  # nothing overlaps
    assert chart.marks[3].y - chart.marks[2].y > chart.marks[1].y - chart.marks[0].y  # groups stand apart
    assert chart.height > edges[-1][1]


def test_a_long_label_is_shortened_to_its_room_and_chinese_counts_double():
    chart = bars.bars([Bar("x" * 80, 0.5), Bar("高" * 40, 0.5)])
    latin, chinese = (mark.label for mark in chart.marks)
    assert latin.endswith("…")
    assert chinese.endswith("…")
    assert len(chinese) < len(latin) < 80
    assert text_measure._measure(latin) <= chart.label_x


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


@pytest.mark.parametrize("values", [[0.5], [0.5, 1.2, 0.1]])
def test_a_series_must_fit_its_axes_and_the_scale(values):
    with pytest.raises(ValueError, match="m:"):
        radar.radar(["a", "b", "c"], [Series("m", values)])


def test_samples_and_rubrics_share_one_scale_of_counts():
    chart = distribution.distribution(
        [Amount("A1", 10, 40, group="A"), Amount("A2", 20, 0, group="A"), Amount("D2", 10, 10)]
    )
    first, second, third = chart.marks
    assert first.samples_width == pytest.approx(first.rubrics_width / 4, abs=0.01)
    assert second.samples_width == pytest.approx(first.rubrics_width / 2, abs=0.01)
    assert second.rubrics_width == 0
    assert (first.samples_text, first.rubrics_text) == ("10", "40")
    assert (first.heading, second.heading, third.heading) == ("A", "", "")
    assert first.samples_y < first.rubrics_y < second.samples_y < third.samples_y


def test_an_empty_distribution_has_a_height_and_no_marks():
    chart = distribution.distribution([Amount("A1", 0, 0)])
    assert chart.marks[0].samples_width == 0
    assert chart.marks[0].samples_text == "0"


@pytest.mark.parametrize(("share", "step"), [(0, 0), (0.0999, 0), (0.1, 1), (0.55, 5), (0.999, 9), (1, 9)])
def test_ten_equal_steps_of_heat(share, step):
    assert heat_map.heat_step(share) == step


def test_a_heat_map_keeps_its_gaps_and_its_links():
    chart = heat_map.heat(["m1", "m2"], ["A1", "A2"], [[0.0, None], [1.0, 0.42]], [["/a", "/b"], ["/c", "/d"]])
    cells = [cell for _, row in chart.rows for cell in row]
    assert [cell.step for cell in cells] == [0, None, 9, 4]
    assert [cell.text for cell in cells] == ["0.0%", "", "100.0%", "42.0%"]
    assert [cell.href for cell in cells] == ["/a", "/b", "/c", "/d"]
    with pytest.raises(ValueError, match="outside"):
        heat_map.heat(["m1"], ["A1"], [[1.5]])
    with pytest.raises(ValueError, match="columns"):
        heat_map.heat(["m1"], ["A1", "A2"], [[0.5]], [["/a"]])


CHARTS = {
    "bars": bars.bars([Bar("<b>m</b>", 0.5, 0.4, 0.6, 5, 10, "/go?a=1&b=2"), Bar("none", None, href="/go")]),
    "radar": radar.radar(["a", "b", "<c>"], [Series("m", [0.1, None, 0.3], ["/1", "/2", "/3"])]),
    "distribution": distribution.distribution([Amount("A1", 1, 2, "/go"), Amount("<i>", 3, 4)]),
    "heat": heat_map.heat(["<m>"], ["A1"], [[0.3]], [["/go"]]),
}


@pytest.mark.parametrize("kind", CHARTS)
def test_a_chart_as_markup(kind):
    html = render_to_string(f"review/charts/{kind}.html", {"chart": CHARTS[kind]})
    assert not re.search(r"\sstyle=|<style|<script|\son\w+=", html)  # the CSP would drop it
    assert not re.search(r"<(b|c|i|m)>", html)  # labels are text
    assert "<table" in html
    assert 'href="' in html
    if kind != "heat":
        assert f'aria-labelledby="{kind}-title"' in html
        assert not re.search(r'(x|y|width|height|d)=""', html)  # every length arrived


def test_what_was_not_counted_is_said():
    assert "no data" in render_to_string("review/charts/bars.html", {"chart": CHARTS["bars"]})
