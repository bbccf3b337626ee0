"""Gains, fix rates and break rates on a hand-made table."""

import numpy as np
import pytest

from evaluation.numbers.changes import (
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
from evaluation.numbers.totals import UnitTotals, unit_totals
from evaluation.protocol import DataSet, Protocol, Rate
from evaluation.statistics.comparisons import paired_difference
from review.charts.flow import Stream, flow
from tests.evaluation.frames import frame_of

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

# Model -> data set -> verdicts on samples 0 to 9: r is right, w is wrong, - is not judged.
BY_HAND = {
    "m": {"free": "rrrrwwwwww", "one": "rrwwrrrwww", "two": "rrrrwwwwwr"},
    "n": {"free": "rrrrrrrrww", "one": "rrrrrrrrrr", "two": "rrrrrrrrw-"},
}
LETTERS = {"r": "right", "w": "wrong", "-": ""}
DATASETS = PROTOCOL.datasets


def totals(verdicts: dict[str, dict[str, str]] | None = None, rate: Rate = RATE) -> dict[str, UnitTotals]:
    by_hand = verdicts or BY_HAND
    rows = []
    for model, datasets in by_hand.items():
        for name, letters in datasets.items():
            variant = "" if name == "free" else name
            rows += [
                {"model": model, "variant": variant, "sample": at, "rubric": at, "said": LETTERS[letter]}
                for at, letter in enumerate(letters)
            ]
    return unit_totals(frame_of(list(by_hand), DATASETS, {}, rows), [rate])


def test_fix_and_break_rates_are_as_computed_by_hand() -> None:
    by_model = {(change.endpoint, change.first): change for change in changes(totals(), PROTOCOL, minimum=10)}
    one = by_model["m", "one"]
    assert dict(one.moves) == {KEPT: 2, BROKEN: 2, FIXED: 3, STAYED: 3}
    assert (one.fix_rate, one.break_rate) == (3 / 6, 2 / 4)
    assert (one.rates, one.clusters) == ((0.5, 0.4), 10)
    assert one.gain == pytest.approx(0.1)
    assert one.low is not None
    assert one.high is not None
    assert one.low < 0.1 < one.high
    assert one.p_adjusted is not None
    second_model = by_model["n", "one"]
    assert dict(second_model.moves) == {KEPT: 8, BROKEN: 0, FIXED: 2, STAYED: 0}
    assert (second_model.fix_rate, second_model.break_rate) == (1.0, 0.0)
    assert second_model.gain == pytest.approx(0.2)

    # A sample that lacks a verdict in one data set counts in neither, and the mean has no interval.
    assert dict(by_model["n", "two"].moves) == {KEPT: 8, BROKEN: 0, FIXED: 0, STAYED: 1}
    mean, mean_without_interval = by_model[ALL, "one"], by_model[ALL, "two"]
    assert (mean.fix_rate, mean.break_rate) == (0.75, 0.25)
    assert mean.gain == pytest.approx(0.15)
    assert mean.low is not None
    assert mean.low < 0.15
    assert (mean_without_interval.low, mean_without_interval.p) == (None, None)
    assert mean_without_interval.gain == pytest.approx(0.05)
    assert mean.moves[FIXED] == 5

    [bottleneck] = bottlenecks(totals(), PROTOCOL, list(by_model.values()), minimum=10)
    assert (bottleneck.dataset, bottleneck.label, bottleneck.runner_up) == ("free", "One replaced", "Two replaced")
    assert bottleneck.gains == pytest.approx({"One replaced": 0.15, "Two replaced": 0.05})
    assert bottleneck.lead == pytest.approx(0.1)
    assert (bottleneck.low, bottleneck.p_adjusted) == (None, None), "the mean has no interval: one model lacks a sample"


def test_the_lead_of_a_bottleneck_is_paired_by_sample() -> None:
    def lead(one: str, two: str) -> Bottleneck:
        rows = totals({"m": {"free": "w" * 20, "one": one, "two": two}})
        [bottleneck] = bottlenecks(rows, PROTOCOL, changes(rows, PROTOCOL, minimum=10), minimum=10)
        return bottleneck

    clear = lead("r" * 18 + "ww", "r" * 4 + "w" * 16)
    hits, counted = np.array([1] * 18 + [0] * 2), np.ones(20)
    expected = paired_difference(hits, counted, np.array([1] * 4 + [0] * 16), counted)
    assert (clear.label, clear.clusters) == ("One replaced", 20)
    assert (clear.lead, clear.low, clear.high, clear.p) == (
        expected.difference,
        expected.low,
        expected.high,
        expected.p,
    )
    assert clear.low is not None
    assert clear.low > 0
    close = lead("r" * 11 + "w" * 9, "w" * 9 + "r" * 10 + "w")
    assert close.low is not None
    assert close.low < 0, "a lead of one answer may be chance"
    assert lead("r" * 4 + "w" * 16, "r" * 18 + "ww").label == "Two replaced"


def test_samples_with_a_move_can_be_listed() -> None:
    def samples(model: str, move: str) -> list[int]:
        return samples_with_move(totals()[RATE.name], PROTOCOL, first="one", second="free", endpoint=model, move=move)

    assert samples("m", FIXED) == [4, 5, 6]
    assert samples("m", BROKEN) == [2, 3]
    assert samples(ALL, FIXED) == [4, 5, 6, 8, 9]
    assert samples_with_move(totals()[RATE.name], PROTOCOL, first="none", second="free", endpoint="m", move=FIXED) == []


def test_a_rate_that_is_better_when_low_counts_its_hits_as_wrong() -> None:
    rate = Rate("err", "Errors", "Wrong ones.", {"wrong": 1}, {"right": 1, "wrong": 1})
    [one, *_] = changes(totals(rate=rate), PROTOCOL, minimum=10)
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
    assert len(chart.bands) == 3, "an empty stream has no band"
    left, right = sum(node.height for node in chart.nodes[:2]), sum(node.height for node in chart.nodes[2:])
    assert left == pytest.approx(right, abs=0.05)
    assert flow((), ("Right", "Wrong"), name="f", title="F", heads=("a", "b")) is None
    single_stream = flow(streams[:1], ("Right", "Wrong"), name="f", title="F", heads=("Before", "After"))
    assert single_stream is not None
    assert max(node.text_y for node in single_stream.nodes) < single_stream.height, (
        "the label of an empty node is inside the picture"
    )
