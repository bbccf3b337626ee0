"""The scatter block: geometry, marks and table; no label becomes markup."""

import math
import re
from dataclasses import replace

import pytest
from django.template import Context

from review.charts.scales import scale_between
from review.charts.scatter import MAX_POINTS, points_chart
from review.rules.blocks import Point, Points
from review.rules.case_spec import blocks_to_json
from review.templatetags.review_blocks import show_block

pytestmark = pytest.mark.plain


def block_of(*points: Point) -> Points:
    return Points("Clusters", "distance", "share", points)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_point_needs_finite_numbers(value: float) -> None:
    for x, y, size in ((value, 0.0, 1.0), (0.0, value, 1.0), (0.0, 0.0, value)):
        with pytest.raises(ValueError, match="finite"):
            Point(x, y, size=size)
    with pytest.raises(ValueError, match="below 0"):
        Point(0, 0, size=-1)


@pytest.mark.parametrize(
    "values",
    [[0.0], [5.0], [-3.0], [0.1, 0.9], [-1, 1], [0.981, 0.982], [1e-9, 2e-9], [1e6, 3e6], [-7, -6.5], [0, 0], [1e-300]],
)
def test_a_scale_covers_its_values_in_a_few_round_steps(values: list[float]) -> None:
    scale = scale_between(values)
    assert scale[0] <= min(values) + 1e-9
    assert scale[-1] >= max(values) - 1e-9
    assert 2 <= len(scale) <= 8
    assert scale == sorted(set(scale))


def test_points_are_drawn_at_their_coordinates() -> None:
    chart = points_chart(block_of(Point(0, 0), Point(10, 1), Point(5, 0.5)))
    (group,) = chart.groups
    low, high, middle = group.spots
    assert (low.x, low.y) == (chart.left, chart.bottom)
    assert (high.x, high.y) == (chart.right, chart.top)
    assert (middle.x, middle.y) == (round((low.x + high.x) / 2, 2), round((low.y + high.y) / 2, 2))
    assert {spot.scale for spot in group.spots} == {1.0}, "all points have the same size"
    assert (chart.grouped, chart.labelled, chart.sized) == (False, False, False)
    shares = points_chart(replace(block_of(Point(30, 40), Point(50, 60)), percent=True))
    for ticks in (shares.x_ticks, shares.y_ticks):
        assert [tick.text for tick in ticks] == ["0", "25", "50", "75", "100"]


def test_size_is_area_and_larger_points_are_drawn_first() -> None:
    chart = points_chart(block_of(Point(0, 0, size=25), Point(1, 1, size=100), Point(1, 1, size=0)))
    large, quarter, least = chart.groups[0].spots
    assert large.scale == 2 * quarter.scale
    assert 0 < least.scale < quarter.scale


def test_sixteen_groups_differ_without_colour() -> None:
    chart = points_chart(block_of(*(Point(n, n, group=f"g{n}") for n in range(16))))
    assert len({(group.sign.marker, group.sign.hollow) for group in chart.groups}) == 16
    assert [group.sign.index for group in chart.groups] == [*range(8)] * 2


def test_the_number_of_omitted_points_is_stated() -> None:
    html = show_block(Context(), block_of(*(Point(n, n) for n in range(MAX_POINTS + 3))), 1)
    assert "3 more points are not shown in the chart or in the table." in html
    assert html.count("<path") == MAX_POINTS


def test_the_table_contains_every_number_of_the_chart() -> None:
    html = show_block(
        Context(), block_of(Point(0.1, 0.25, "first", 2, "easy"), Point(0.7, 0.5, "second", 1, "hard")), 3
    )
    cell = r"<td[^>]*>(.*?)</td>\s*"
    rows = re.findall(rf"<tr>\s*{cell * 5}</tr>", html)
    assert rows == [("first", "easy", "0.1", "0.25", "2"), ("second", "hard", "0.7", "0.5", "1")]
    assert "distance" in html
    assert 'aria-labelledby="points-3"' in html
    assert 'id="points-3"' in html
    assert " style=" not in html


def test_without_points_nothing_is_drawn() -> None:
    html = show_block(Context(), block_of(), 1)
    assert "<svg" not in html
    assert "Nothing to plot yet" in html


def test_labels_are_escaped() -> None:
    bad = "<img src=x onerror=alert(1)>"
    block = Points(bad, bad, bad, (Point(1, 1, bad, group=bad), Point(2, 2, bad, group="other")))
    assert "<img" not in show_block(Context(), block, 1, language="en", beside=bad)


def test_points_are_stored_as_json() -> None:
    (block,) = blocks_to_json([block_of(Point(1, 2, "a\0b"))])
    assert block == {
        "title": "Clusters",
        "x_label": "distance",
        "y_label": "share",
        "points": [{"x": 1.0, "y": 2.0, "label": "ab", "size": 1.0, "group": ""}],
        "percent": False,
        "kind": "points",
    }


def test_points_are_named_while_there_is_room_and_the_names_differ() -> None:
    def names(*labels: str) -> list[str]:
        points = (Point(n, n, label) for n, label in enumerate(labels))
        return [spot.name for group in points_chart(block_of(*points)).groups for spot in group.spots]

    assert names("A1 No such entity", "B2 Wrong dose") == ["A1", "B2"]
    assert names("Wrong dose", "Wrong drug") == ["", ""]
    assert not any(names(*(f"P{n} point" for n in range(41))))
