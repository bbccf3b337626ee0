"""Counts verdicts: every rate of every model on every data set, overall and by breakdown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from evaluation.metrics import MeasuredRate, measure
from evaluation.numbers.frame import Frame
from evaluation.numbers.late import pl
from evaluation.numbers.rules import ANSWERED, COMBINED, JUDGE_FAILURES, JUDGED, KINDS, failure_rule
from evaluation.numbers.totals import UnitTotals
from evaluation.protocol import Protocol

VerdictCounts = Mapping[tuple[str, str], Counter[str]]  # model, data set -> verdict -> count


@dataclass(frozen=True)  # no slots: they pickle slowly
class RateRow:
    """The result of one endpoint on one data set, overall or for one value of a facet.

    Data set 'combined' pools all data sets. `verdicts`: verdict -> count, including 'unjudged',
    without control samples. `rates`: by name.
    """

    endpoint: str
    dataset: str
    value: str  # of the facet; empty overall
    label: str
    verdicts: Mapping[str, int]
    rates: Mapping[str, MeasuredRate]

    @property
    def measured(self) -> MeasuredRate:
        """The first of the rates."""
        return next(iter(self.rates.values()))


def rate_rows(
    totals: Mapping[str, UnitTotals],
    verdicts: VerdictCounts,
    protocol: Protocol,
    minimum: int,
    value: str = "",
    label: str = "",
) -> list[RateRow]:
    """A row for each model and data set, from the totals of each rate.

    `minimum`: clusters below which no interval is given. `value`: of a breakdown.
    """
    rates: dict[tuple[str, str], dict[str, MeasuredRate]] = {}  # of each model and data set
    for of_rate in totals.values():
        rate, better = of_rate.rate, "high"
        if protocol.is_lower_better(rate):
            better = "low"
        groups, columns = of_rate.groups(), list[list[MeasuredRate]]()
        for group in groups:
            sums = of_rate.by_cluster(group)
            columns.append(measure(rate, sums, minimum=minimum, better=better, with_bounds=not value))
        for place, model in enumerate(of_rate.models):
            parts = [column[place] for column in columns]
            for group, measured in zip(groups, parts, strict=True):
                if group.name == COMBINED:
                    measured = measured.pooling(parts[:-1])
                rates.setdefault((model, group.name), {})[rate.name] = measured
    rows = []
    for (model, name), by_rate in rates.items():
        rows.append(RateRow(model, name, value, label, verdicts.get((model, name), Counter()), by_rate))
    return rows


def verdict_counts(frame: Frame, rows: pl.DataFrame) -> dict[str, VerdictCounts]:
    """Value of a facet -> the counts of verdicts. `rows`: from `Frame.by_value`."""
    counts: dict[str, dict[tuple[str, str], Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    by_verdict = rows.group_by("value", "model", "dataset", "verdict").agg(pl.len())
    for value, model, dataset, verdict, n in by_verdict.iter_rows():
        counts[value][model, dataset][verdict] += n
        if frame.pooled:
            counts[value][model, COMBINED][verdict] += n
    return dict(counts.items())


@dataclass(frozen=True)  # no slots: they pickle slowly
class OutcomeCount:
    """How responses of one model on one data set ended, and how this outcome is counted.

    `kind`: judged, an outcome without an answer, or the reason why an answer has no verdict.
    `responses`: how many, None for kinds of judgments. `criteria`: how many, `counted`: those with
    a verdict. `rule`: how the outcome is counted.
    """

    endpoint: str
    dataset: str
    kind: str
    responses: int | None
    criteria: int
    counted: int
    rule: str


def endings(frame: Frame, rules: Mapping[str, str]) -> list[OutcomeCount]:
    """The endings that occurred, by model, data set and kind."""
    by_outcome = frame.responses.group_by("model", "dataset", "outcome").agg(pl.col("n").sum())
    responses, criteria = {}, {}
    for model, dataset, outcome, n in by_outcome.iter_rows():
        responses[model, dataset, outcome] = n
    by_kind = frame.rows.group_by("model", "dataset", "why").agg(pl.len(), pl.col("counts").sum())
    for model, dataset, kind, n, counted in by_kind.iter_rows():
        criteria[model, dataset, kind] = (n, counted)
    rows = []
    for model in frame.models:
        for dataset in frame.datasets:
            for kind in KINDS:
                outcome = kind
                if kind == JUDGED:
                    outcome = ANSWERED
                n, counted = criteria.get((model, dataset, kind), (0, 0))
                is_outcome = outcome == ANSWERED or (outcome in rules and outcome not in JUDGE_FAILURES)
                ended = None
                if is_outcome:
                    ended = responses.get((model, dataset, outcome), 0)
                if ended or n:
                    rule = failure_rule(rules, outcome)
                    rows.append(OutcomeCount(model, dataset, kind, ended, n, counted, rule))
    return rows
