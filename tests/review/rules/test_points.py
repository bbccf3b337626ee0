"""The scatter block: its geometry, its marks, its table, and that no label becomes markup."""

import math
import re
from dataclasses import replace

import pytest

from review.charts.scales import scale_between
from review.charts.scatter import MAX_POINTS, points_chart
from review.rules.blocks import Point, Points
from review.rules.case_spec import blocks_to_json
from review.templatetags.review_blocks import show_block

pytestmark = pytest.mark.plain


def points(*several: Point) -> Points:
    return Points("Clusters", "distance", "share", several)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_point_has_finite_numbers(value: float) -> None:
    for wrong in ((value, 0.0, 1.0), (0.0, value, 1.0), (0.0, 0.0, value)):
        with pytest.raises(ValueError, match="finite"):
            Point(wrong[0], wrong[1], size=wrong[2])
    with pytest.raises(ValueError, match="below 0"):
        Point(0, 0, size=-1)


@pytest.mark.parametrize(
    "values",
    [[0.0], [5.0], [-3.0], [0.1, 0.9], [-1, 1], [0.981, 0.982], [1e-9, 2e-9], [1e6, 3e6], [-7, -6.5], [0, 0], [1e-300]],
)
def test_a_scale_holds_its_values_in_a_few_round_steps(values: list[float]) -> None:
    scale = scale_between(values)
    assert scale[0] <= min(values) + 1e-9
    assert scale[-1] >= max(values) - 1e-9
    assert 2 <= len(scale) <= 8
    assert scale == sorted(set(scale))


def test_where_points_are_drawn() -> None:
    drawn = points_chart(points(Point(0, 0), Point(10, 1), Point(5, 0.5)))
    (group,) = drawn.groups
    low, high, middle = group.spots
    assert (low.x, low.y) == (drawn.left, drawn.bottom)
    assert (high.x, high.y) == (drawn.right, drawn.top)
    assert (middle.x, middle.y) == (round((low.x + high.x) / 2, 2), round((low.y + high.y) / 2, 2))
    assert {spot.scale for spot in group.spots} == {1.0}, "all of one size"
    assert (drawn.grouped, drawn.labelled, drawn.sized) == (False, False, False)
    shares = points_chart(replace(points(Point(30, 40), Point(50, 60)), percent=True))
    for ticks in (shares.x_ticks, shares.y_ticks):
        assert [tick.text for tick in ticks] == ["0", "25", "50", "75", "100"]


def test_size_is_area_and_larger_ones_lie_behind() -> None:
    drawn = points_chart(points(Point(0, 0, size=25), Point(1, 1, size=100), Point(1, 1, size=0)))
    large, quarter, least = drawn.groups[0].spots
    assert large.scale == 2 * quarter.scale
    assert 0 < least.scale < quarter.scale


def test_sixteen_groups_are_told_apart_without_their_colours() -> None:
    drawn = points_chart(points(*(Point(n, n, group=f"g{n}") for n in range(16))))
    assert len({(group.marker, group.hollow) for group in drawn.groups}) == 16
    assert [group.index for group in drawn.groups] == [*range(8)] * 2


def test_what_is_left_out_is_said() -> None:
    shown = show_block(points(*(Point(n, n) for n in range(MAX_POINTS + 3))), 1)
    assert "3 more points are not shown in the chart or in the table." in shown
    assert shown.count("<path") == MAX_POINTS


def test_every_number_of_the_picture_stands_in_the_table() -> None:
    shown = show_block(points(Point(0.1, 0.25, "first", 2, "easy"), Point(0.7, 0.5, "second", 1, "hard")), 3)
    cell = r"<td[^>]*>(.*?)</td>\s*"
    rows = re.findall(rf"<tr>\s*{cell * 5}</tr>", shown)
    assert rows == [("first", "easy", "0.1", "0.25", "2"), ("second", "hard", "0.7", "0.5", "1")]
    assert "distance" in shown
    assert 'aria-labelledby="points-3"' in shown
    assert 'id="points-3"' in shown
    assert " style=" not in shown


def test_without_points_nothing_is_drawn() -> None:
    shown = show_block(points(), 1)
    assert "<svg" not in shown
    assert "Nothing to plot yet" in shown


def test_labels_are_text() -> None:
    bad = "<img src=x onerror=alert(1)>"
    block = Points(bad, bad, bad, (Point(1, 1, bad, group=bad), Point(2, 2, bad, group="other")))
    assert "<img" not in show_block(block, 1, language="en", beside=bad)


def test_points_as_json() -> None:
    (block,) = blocks_to_json([points(Point(1, 2, "a\0b"))])
    assert block == {
        "title": "Clusters",
        "x_label": "distance",
        "y_label": "share",
        "points": [{"x": 1.0, "y": 2.0, "label": "ab", "size": 1.0, "group": ""}],
        "percent": False,
        "kind": "points",
    }
