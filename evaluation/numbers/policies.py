"""What fixed texts score that a judge judged as if models had given them, beside the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evaluation.metrics import MeasuredRate
from evaluation.numbers.comparing import ModelComparison, compare_pair
from evaluation.numbers.counting import rate_rows
from evaluation.numbers.frame import Frame, Tables, build_frame
from evaluation.numbers.late import pl
from evaluation.numbers.plans import ERROR, Plan
from evaluation.numbers.rates import Rate
from evaluation.numbers.rules import ANSWERED, COMBINED
from evaluation.numbers.totals import UnitGroup, unit_totals
from evaluation.protocol import DataSet, Protocol
from evaluation.statistics.multiplicity import holm


@dataclass(frozen=True, slots=True)
class PolicyScore:
    """What a fixed text scores on one data set, or on all pooled.

    `beats`: the models that score worse on the same samples, p adjusted by Holm over all pairs;
    empty where they were not compared.
    """

    policy: str
    dataset: str
    measured: MeasuredRate
    beats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyScores:
    """All scores of fixed texts. `closest`: the comparison in which one is furthest ahead.

    Its difference is that of the fixed text minus the model. None without an interval.
    """

    scores: tuple[PolicyScore, ...]
    closest: ModelComparison | None

    @property
    def winners(self) -> tuple[str, ...]:
        """The fixed texts that score better than a model."""
        return tuple(dict.fromkeys([score.policy for score in self.scores if score.beats]))

    @property
    def beaten(self) -> frozenset[str]:
        """The models that some fixed text beats."""
        beaten: set[str] = set()
        for score in self.scores:
            beaten.update(score.beats)
        return frozenset(beaten)


def policy_frame(
    policies: Sequence[str],
    datasets: Sequence[DataSet],
    rules: Mapping[str, str],
    tables: Tables,
    verdicts: pl.DataFrame,
) -> Frame:
    """The frame of fixed texts, on the samples that they were judged on.

    Args:
        tables: of the run; its samples, rubrics and members are used.
        verdicts: policy, sample, variant, key (of the rubric), said, error; one row a criterion.
    """
    answer = ["policy", "sample", "variant"]
    answers = verdicts.select(answer).unique(maintain_order=True).with_row_index("response")
    responses = answers.select(
        pl.col("response").cast(pl.Int64),
        pl.col("policy").alias("model"),
        "variant",
        pl.lit(0, dtype=pl.Int64).alias("repeat"),
        "sample",
        pl.lit(False).alias("failed"),
        pl.lit(ANSWERED).alias("outcome"),
    )
    of_rubric = verdicts.join(answers, on=answer).join(tables.rubrics, on=["sample", "key"])
    judgments = of_rubric.select(
        pl.col("response").cast(pl.Int64),
        "rubric",
        "said",
        pl.when(pl.col("said") == "").then(pl.lit("failed")).otherwise(pl.lit("done")).alias("status"),
        "error",
    )
    asked = tables.samples.join(answers.select("sample").unique(), on="sample", how="semi")
    own = replace(
        tables, samples=asked, responses=responses, judgments=judgments, voids=tables.voids.clear(), repeats=1
    )
    return build_frame(policies, datasets, rules, own)


def policy_scores(frame: Frame, fixed: Frame, protocol: Protocol, plan: Plan, rate: Rate) -> PolicyScores:
    """What fixed texts score by a rate, and the models that they beat on the same samples.

    Compared are they on the plan's data set, or on all pooled, or on each where neither is.
    `frame`: of the models; `fixed`: of the fixed texts, of the same data sets.
    """
    of_models, of_fixed = unit_totals(frame, [rate])[rate.name], unit_totals(fixed, [rate])[rate.name]
    lower = protocol.is_lower_better(rate)
    compared: list[ModelComparison] = []
    for group in _compared_groups(of_fixed.groups(), plan):
        keys, clusters = of_fixed.keys[group.units], of_fixed.units["cluster"][group.units]
        for policy in of_fixed.models:
            own = of_fixed.of(policy, group.units)
            for model in of_models.models:
                names = {"dataset": group.name, "first": policy, "second": model}
                compared.append(compare_pair(rate, own, of_models.placed(keys, model), clusters, names, plan.minimum))
    measured = [each for each in compared if each.p is not None and each.difference is not None]
    adjusted = holm([each.p for each in measured if each.p is not None])
    beats: dict[tuple[str, str], list[str]] = {}
    for each, p in zip(measured, adjusted, strict=True):
        if p < plan.thresholds[ERROR] and _lead(each, lower=lower) > 0:
            beats.setdefault((each.first, each.dataset), []).append(each.second)
    scores = []
    for row in rate_rows({rate.name: of_fixed}, {}, protocol, plan.minimum):
        won = tuple(beats.get((row.endpoint, row.dataset), ()))
        scores.append(PolicyScore(row.endpoint, row.dataset, row.rates[rate.name], won))
    closest = max(measured, key=lambda each: _lead(each, lower=lower), default=None)
    return PolicyScores(tuple(scores), closest)


def _compared_groups(groups: Sequence[UnitGroup], plan: Plan) -> Sequence[UnitGroup]:
    by_name = {group.name: group for group in groups}
    for name in (plan.dataset, COMBINED):
        if name in by_name:
            return [by_name[name]]
    return groups


def _lead(comparison: ModelComparison, *, lower: bool) -> float:
    """How far the fixed text is ahead of the model."""
    difference = comparison.difference or 0.0
    if lower:
        return -difference
    return difference
