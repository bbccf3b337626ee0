"""Gains, Fix and Break on a table made by hand."""

import numpy as np
import pytest

from evaluation.metrics import UNJUDGED
from evaluation.protocol import DataSet, Protocol, Rate
from evaluation.reports.numbers.changes import (
    ALL,
    BROKEN,
    FIXED,
    KEPT,
    STAYED,
    Bottleneck,
    bottlenecks,
    changes,
    samples_with_move,
)
from evaluation.reports.numbers.verdict_table import VerdictTable
from evaluation.statistics.comparisons import paired_difference
from review.charts.flow import Stream, flow

RATE = Rate("acc", "Accuracy", "Right ones.", {"right": 1}, {"right": 1, "wrong": 1})
PROTOCOL = Protocol(
    label="By hand",
    datasets=(DataSet("free", "Free", "t"), DataSet("one", "One", "t", "one"), DataSet("two", "Two", "t", "two")),
    ask=lambda sample, seed: (),
    rates=(RATE,),
    facets=(),
    contrasts=(("one", "free", "One replaced"), ("two", "free", "Two replaced")),
    rivals=frozenset({"One replaced", "Two replaced"}),
    wrong=frozenset({"wrong"}),
)

# model -> data set -> the verdicts on samples 0 to 9: r right, w wrong, - not judged.
BY_HAND = {
    "m": {"free": "rrrrwwwwww", "one": "rrwwrrrwww", "two": "rrrrwwwwwr"},
    "n": {"free": "rrrrrrrrww", "one": "rrrrrrrrrr", "two": "rrrrrrrrw-"},
}
VERDICTS = (UNJUDGED, "right", "wrong")


def table(said_by: dict[str, dict[str, str]] | None = None) -> VerdictTable:
    by_hand = said_by or BY_HAND
    names, models = list(by_hand["m"]), list(by_hand)
    n = len(by_hand["m"]["free"])
    rows = [
        (
            models.index(model),
            names.index(name) * n + at,
            VERDICTS.index({"r": "right", "w": "wrong"}.get(said, UNJUDGED)),
        )
        for model, of in by_hand.items()
        for name, text in of.items()
        for at, said in enumerate(text)
    ]
    endpoint, unit, verdict = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    samples = np.tile(np.arange(n, dtype=np.int64), 3)
    return VerdictTable(
        endpoints=tuple(models),
        datasets=tuple(names),
        verdicts=VERDICTS,
        kinds=("judged",),
        endpoint=endpoint,
        unit=unit,
        rubric=np.zeros(len(rows), dtype=np.int64),
        verdict=verdict,
        kind=np.zeros(len(rows), dtype=np.int64),
        unit_sample=samples,
        unit_dataset=np.repeat(np.arange(3, dtype=np.int64), n),
        unit_cluster=samples,
        unit_is_control=np.zeros(3 * n, dtype=np.bool_),
        rubrics=1,
        verdict_counts={},
        response=np.zeros(len(rows), dtype=np.int64),
        rubric_ids=np.ones(1, dtype=np.int64),
        members={},
        responses={},
        failed={},
    )


def test_fix_and_break_on_a_table_made_by_hand() -> None:
    found = {(each.endpoint, each.first): each for each in changes(table(), PROTOCOL, [RATE], minimum=10)}
    one = found["m", "one"]
    assert dict(one.moves) == {KEPT: 2, BROKEN: 2, FIXED: 3, STAYED: 3}
    assert (one.fix_rate, one.break_rate) == (3 / 6, 2 / 4)
    assert (one.rates, one.clusters) == ((0.5, 0.4), 10)
    assert one.gain == pytest.approx(0.1)
    assert one.low is not None
    assert one.high is not None
    assert one.low < 0.1 < one.high
    assert one.p_adjusted is not None
    other = found["n", "one"]
    assert dict(other.moves) == {KEPT: 8, BROKEN: 0, FIXED: 2, STAYED: 0}
    assert (other.fix_rate, other.break_rate) == (1.0, 0.0)
    assert other.gain == pytest.approx(0.2)

    # What has no verdict in one of them is in neither, and leaves the mean without an interval.
    assert dict(found["n", "two"].moves) == {KEPT: 8, BROKEN: 0, FIXED: 0, STAYED: 1}
    whole, part = found[ALL, "one"], found[ALL, "two"]
    assert (whole.fix_rate, whole.break_rate) == (0.75, 0.25)
    assert whole.gain == pytest.approx(0.15)
    assert whole.low is not None
    assert whole.low < 0.15
    assert (part.low, part.p) == (None, None)
    assert part.gain == pytest.approx(0.05)
    assert whole.moves[FIXED] == 5

    [narrow] = bottlenecks(table(), PROTOCOL, [RATE], list(found.values()), minimum=10)
    assert (narrow.dataset, narrow.label, narrow.runner_up) == ("free", "One replaced", "Two replaced")
    assert narrow.gains == pytest.approx({"One replaced": 0.15, "Two replaced": 0.05})
    assert narrow.lead == pytest.approx(0.1)
    assert (narrow.low, narrow.p_adjusted) == (None, None), "one model lacks a sample: the mean has no interval"


def test_the_lead_of_a_bottleneck_is_paired_by_sample() -> None:
    def lead(one: str, two: str) -> Bottleneck:
        said = {"free": "w" * 20, "one": one, "two": two}
        rows = table({"m": said})
        [found] = bottlenecks(rows, PROTOCOL, [RATE], changes(rows, PROTOCOL, [RATE], minimum=10), minimum=10)
        return found

    clear = lead("r" * 18 + "ww", "r" * 4 + "w" * 16)
    hits, counted = np.array([1] * 18 + [0] * 2), np.ones(20)
    own = paired_difference(hits, counted, np.array([1] * 4 + [0] * 16), counted)
    assert (clear.label, clear.clusters) == ("One replaced", 20)
    assert (clear.lead, clear.low, clear.high, clear.p) == (own.difference, own.low, own.high, own.p)
    assert clear.low is not None
    assert clear.low > 0
    close = lead("r" * 11 + "w" * 9, "w" * 9 + "r" * 10 + "w")
    assert close.low is not None
    assert close.low < 0, "one answer more may be chance"
    assert lead("r" * 4 + "w" * 16, "r" * 18 + "ww").label == "Two replaced"


def test_every_mark_leads_to_its_samples() -> None:
    def those(model: str, move: str) -> list[int]:
        return samples_with_move(table(), PROTOCOL, RATE, first="one", second="free", endpoint=model, move=move)

    assert those("m", FIXED) == [4, 5, 6]
    assert those("m", BROKEN) == [2, 3]
    assert those(ALL, FIXED) == [4, 5, 6, 8, 9]
    assert samples_with_move(table(), PROTOCOL, RATE, first="none", second="free", endpoint="m", move=FIXED) == []


def test_a_rate_that_is_better_when_low_counts_its_hits_as_wrong() -> None:
    rate = Rate("err", "Errors", "Wrong ones.", {"wrong": 1}, {"right": 1, "wrong": 1})
    [one, *_] = changes(table(), PROTOCOL, [rate], minimum=10)
    assert one.gain == pytest.approx(-0.1)
    assert one.moves[FIXED] == 3


def test_the_bands_of_a_flow_fill_their_columns() -> None:
    streams = (
        Stream(0, 0, 2, KEPT, "kept"),
        Stream(0, 1, 2, BROKEN, "broken"),
        Stream(1, 0, 3, FIXED, "fixed", "/fixed"),
        Stream(1, 1, 0, STAYED, "stayed"),
    )
    chart = flow(streams, ("Right", "Wrong"), name="f", title="F", heads=("Before", "After"))
    assert chart is not None
    assert [node.count for node in chart.nodes] == [4, 3, 5, 2]
    assert len(chart.bands) == 3, "nothing is drawn of what nobody did"
    left, right = sum(node.height for node in chart.nodes[:2]), sum(node.height for node in chart.nodes[2:])
    assert left == pytest.approx(right, abs=0.05)
    assert flow((), ("Right", "Wrong"), name="f", title="F", heads=("a", "b")) is None
    alone = flow(streams[:1], ("Right", "Wrong"), name="f", title="F", heads=("Before", "After"))
    assert alone is not None
    assert max(node.text_y for node in alone.nodes) < alone.height, "an empty state has its label in the picture"
