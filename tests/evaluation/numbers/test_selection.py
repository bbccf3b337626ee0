"""Which verdicts a number counts, against a count by hand over the same rows."""

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from evaluation.numbers import comparing
from evaluation.numbers.counting import rate_rows, verdict_counts
from evaluation.numbers.frame import Frame, counts_against
from evaluation.numbers.plans import Plan
from evaluation.numbers.rates import FacetValue, Rate, Weights
from evaluation.numbers.rules import CriterionState, counted
from evaluation.numbers.totals import unit_totals
from evaluation.protocol import DataSet
from mhb_site.benchmarks.medhal.protocol import PROTOCOL as MEDHAL
from mhb_site.benchmarks.mhb.protocol import PROTOCOL as MHB
from tests.evaluation.frames import frame_of

pytestmark = pytest.mark.plain
RULES = {
    "answered": "judged",
    "refused": "not_met",
    "empty": "excluded",
    "unparsed": "not_met",
    "judge_failed": "excluded",
}


@dataclass(frozen=True)
class Judged:
    """A judgment with all that decides whether it counts."""

    model: str
    sample: int
    record: int
    task: str
    arm: str
    rubric: int
    polarity: str
    outcome: str
    verdict: str
    error: str

    @property
    def counted(self) -> str:
        """What it counts as by RULES, in words of its own."""
        if self.outcome == "refused":
            return "not_met"
        if self.outcome == "empty":
            return ""
        if self.error == "BrokenReply":
            return "not_met"
        return self.verdict


def world(seed: int) -> list[Judged]:
    """40 samples, some of one record, a third of them controls; two models, one better."""
    dice, rows, rubric = Random(seed), [], 0
    for sample in range(1, 41):
        record = 100 + (sample if sample < 20 else sample // 2)
        arm, task = ("control" if sample % 3 == 0 else "trap"), ("dialogue" if sample % 4 else "report")
        for polarity in ("must", "must not", "must not")[: 1 + sample % 3]:
            rubric += 1
            for model, rate in (("good", 0.2), ("bad", 0.6)):
                outcome = {0: "refused", 1: "empty"}.get((sample + len(model)) % 9, "answered")
                error = (
                    {0: "BrokenReply", 1: "ServerError"}.get(dice.randrange(12), "") if outcome == "answered" else ""
                )
                verdict = ("not_met" if dice.random() < rate else "met") if outcome == "answered" and not error else ""
                rows.append(Judged(model, sample, record, task, arm, rubric, polarity, outcome, verdict, error))
    return rows


def frame_of_rows(rows: list[Judged], datasets: list[DataSet], rules: dict[str, str]) -> Frame:
    """The rows as a frame, in a mixed order, as a database may return them."""
    mixed = Random(1).sample(rows, len(rows))
    verdicts = [
        {
            **{
                name: getattr(row, name) for name in ("model", "sample", "record", "task", "rubric", "outcome", "error")
            },
            "is_control": row.arm == "control",
            "said": row.verdict,
        }
        for row in mixed
    ]
    members = {("polarity", row.polarity, row.rubric) for row in mixed}
    return frame_of(["good", "bad"], datasets, rules, verdicts, sorted(members))


DATASETS = [DataSet("dialogue", "", "dialogue"), DataSet("report", "", "report")]
PLACES = {"dialogue": {"dialogue"}, "report": {"report"}, "combined": {"dialogue", "report"}}
RATE, SAMPLES, DOUBT = (
    next(rate for rate in MHB.rates if rate.name == name)
    for name in ("hallucination_rate", "samples_failed", "over_suspicion")
)


def test_rates_count_the_rows_that_their_rules_arm_and_criteria_say() -> None:
    rows = world(3)
    frame = frame_of_rows(rows, DATASETS, RULES)
    totals = unit_totals(frame, (RATE, SAMPLES, DOUBT))
    counted = rate_rows(totals, verdict_counts(frame, frame.by_value())[""], MHB, 10)
    for row in counted:
        own = [r for r in rows if r.model == row.endpoint and r.task in PLACES[row.dataset]]
        traps, controls = ([r for r in own if r.arm == arm] for arm in ("trap", "control"))
        doubt = [r for r in controls if r.polarity == "must not"]
        for rate, of_rate in ((RATE, traps), (DOUBT, doubt)):
            verdicts = [r.counted for r in of_rate]
            measured = row.rates[rate.name]
            assert (measured.numerator, measured.denominator, measured.excluded) == (
                verdicts.count("not_met"), len(verdicts) - verdicts.count(""), verdicts.count(""),
            )  # fmt: skip
        known = {r.sample for r in traps if r.counted}
        hallucinated = {r.sample for r in traps if r.counted == "not_met"}
        assert (row.rates[SAMPLES.name].numerator, row.rates[SAMPLES.name].denominator) == (
            len(hallucinated),
            len(known),
        )
        assert row.rates[RATE.name].clusters == len({r.record for r in traps if r.counted})
    assert counts_against(frame, RATE, MHB.failing_verdicts) == {
        model: (
            sum(r.counted == "not_met" for r in rows if r.model == model and r.arm == "trap"),
            sum(r.counted != "" for r in rows if r.model == model and r.arm == "trap"),
        )
        for model in ("good", "bad")
    }


def test_a_weighted_rate_counts_only_the_criteria_that_it_is_about() -> None:
    """Of 3 samples with a criterion of either polarity, each weighing 5, it counts the failed."""
    verdicts: list[dict[str, Any]] = []
    members: list[tuple[str, str, int]] = []
    for sample in (1, 2, 3):
        for polarity, said in (("must", "not_met"), ("must not", "met")):
            rubric = len(verdicts)
            verdicts.append({"model": "good", "sample": sample, "rubric": rubric, "said": said})
            members += [("polarity", polarity, rubric), ("severity", "severe", rubric)]
    rate = Rate(
        "harm", "", "", {"not_met": 1}, {"met": 1, "not_met": 1},
        only=FacetValue("polarity", "must"), weights=Weights("severity", {"severe": 5}),
    )  # fmt: skip
    frame = frame_of(["good"], DATASETS[:1], {}, verdicts, members)
    [row] = rate_rows(unit_totals(frame, [rate]), {}, MHB, 10)
    measured = row.rates["harm"]
    assert (measured.numerator, measured.denominator, measured.n, measured.excluded) == (15, 15, 3, 0)


@pytest.mark.parametrize(
    "rate", [rate for rate in MEDHAL.rates if rate.name in ("f1", "precision", "recall", "accuracy")]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_differences_are_of_the_samples_that_both_models_answered(rate: Rate, seed: int) -> None:
    """True negatives are in the scope of F1 and precision, which do not count them."""
    dice, rows = Random(seed), []
    for sample in range(1, 121):
        for model, right in (("good", 0.95), ("bad", 0.7)):
            positive = sample % 2 == 0
            verdict = ("tp" if positive else "tn") if dice.random() < right else ("fn" if positive else "fp")
            verdict = "unparsed-factual" if dice.random() < 0.1 else verdict
            rows.append(Judged(model, sample, sample, "qa", "trap", sample, "must", "answered", verdict, ""))
    totals = unit_totals(frame_of_rows(rows, [DataSet("qa", "", "qa")], {}), [rate])[rate.name]
    [comparison] = comparing.compare(totals, [("good", "bad")], minimum=10, role=Plan("f1", ()).role)
    answered = {
        model: {r.sample: r.verdict for r in rows if r.model == model and len(r.verdict) == 2}
        for model in ("good", "bad")
    }
    both = answered["good"].keys() & answered["bad"].keys()

    def value(model: str) -> float:
        counts = {name: sum(answered[model][s] == name for s in both) for name in ("tp", "fp", "tn", "fn")}
        tp, fp, tn, fn = counts.values()
        ratios = {"f1": (2 * tp, 2 * tp + fp + fn), "precision": (tp, tp + fp), "recall": (tp, tp + fn),
                  "accuracy": (tp + tn, len(both))}  # fmt: skip
        return ratios[rate.name][0] / ratios[rate.name][1]

    assert comparison.rates == pytest.approx((value("good"), value("bad")))
    assert comparison.difference == pytest.approx(value("good") - value("bad"))
    assert comparison.clusters == len(both)
    assert comparison.low is not None
    assert comparison.high is not None
    assert comparison.low < value("good") - value("bad") < comparison.high
    assert comparison.p is not None
    assert comparison.p_adjusted is not None
    assert comparison.p < 0.01, "the difference is large"


def test_rules_decide_once_what_a_judgment_counts_as() -> None:
    decided = {
        ("answered", "met", "done", ""): "met",
        ("answered", "", "failed", "BrokenReply"): "not_met",
        ("answered", "", "failed", "NoMajority"): "unjudged",
        ("answered", "", "queued", ""): "unjudged",
        ("refused", "met", "done", ""): "not_met",
        ("empty", "met", "done", ""): "unjudged",
        ("cut_off", "met", "done", ""): "met",
        ("failed", "", "failed", "NoResponse"): "unjudged",
    }
    assert {state: counted(RULES, CriterionState(*state, void="")).verdict for state in decided} == decided
    never_asked = CriterionState("answered", "", "failed", "NoResponse", void="")
    assert counted(RULES | {"judge_failed": "not_met"}, never_asked).verdict == "unjudged"
