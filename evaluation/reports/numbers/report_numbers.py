"""All numbers of a run's report, from its verdicts: plain Python and numpy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from evaluation.protocol import FacetView, Protocol, Rate
from evaluation.reports.numbers import changes, comparing, counting, scoring
from evaluation.reports.numbers.changes import Bottleneck, Change
from evaluation.reports.numbers.comparing import ModelComparison, Ranking
from evaluation.reports.numbers.counting import Counting, OutcomeCount, RateRow
from evaluation.reports.numbers.held_out import HeldOutGap, held_out_gaps
from evaluation.reports.numbers.scoring import ScoreRow
from evaluation.verdicts.plans import Plan
from evaluation.verdicts.rates import gettext_noop as _
from evaluation.verdicts.selection import POLARITY, RUBRIC, Ints, counts_against
from evaluation.verdicts.table import VerdictTable

POLARITIES = FacetView(
    POLARITY,
    _("Polarity"),
    "heat",
    (("must", _("must")), ("must not", _("must not"))),
)


@dataclass(frozen=True, slots=True)
class Options:
    """A reader's options for a report, beyond the plan of the run.

    `common`: only samples for which every model has a verdict. `weights`: value -> weight, for
    weighted rates. `all_ranked`: also rank models whose failures selected the samples.
    """

    common: bool = False
    weights: Mapping[str, int] = field(default_factory=dict)
    all_ranked: bool = False


@dataclass(frozen=True, slots=True)
class ReportNumbers:
    """The numbers of a run's report.

    Attributes:
        overall, facets: rows over all criteria, and by breakdown.
        without: breakdown -> judgments whose rubric has no value of it.
        comparisons, cells: comparisons over all criteria, and by breakdown.
        failed: model -> failed responses.
        samples: counted units, and all units asked.
        judged: model -> (verdicts against it, verdicts), of those in scope of the protocol's first
            rate.
        shared_records: whether several samples come from one source record, so that records are the
            clusters of intervals and comparisons.
        held_out: rates on public samples beside those on held-out ones.
        scores, score_facets: means of scores that code gave responses, overall and by breakdown.
    """

    rates: tuple[Rate, ...]
    views: tuple[FacetView, ...]
    overall: tuple[RateRow, ...]
    facets: Mapping[str, tuple[RateRow, ...]]
    without: Mapping[str, int]
    endings: tuple[OutcomeCount, ...]
    comparisons: tuple[ModelComparison, ...]
    cells: Mapping[str, tuple[ModelComparison, ...]]
    rankings: tuple[Ranking, ...]
    failed: Mapping[str, int]
    samples: tuple[int, int]
    judged: Mapping[str, tuple[int, int]]
    shared_records: bool
    changes: tuple[Change, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()
    held_out: tuple[HeldOutGap, ...] = ()
    scores: tuple[ScoreRow, ...] = ()
    score_facets: Mapping[str, tuple[ScoreRow, ...]] = field(default_factory=dict)


def count(
    whole: VerdictTable,
    protocol: Protocol,
    plan: Plan,
    labels: Mapping[str, str],
    options: Options = Options(),
    unranked: Sequence[str] = (),
) -> ReportNumbers:
    """Every number of a report, from the verdicts of a run.

    `labels`: of the values of breakdowns. `unranked`: models that are not ranked.
    """
    pooled = protocol.pooled and len(whole.datasets) > 1
    table = whole.only(counting.answered_by_all(whole)) if options.common else whole
    rates = tuple(_with_weights(rate, options) for rate in protocol.rates if counting.is_present(whole, rate))
    counter = Counting(protocol, rates, pooled, plan.minimum)
    views = _views(protocol, whole)
    values = {view.name: _values(table, view, labels) for view in views}
    overall = tuple(counter.rows(table))
    primary = next((rate for rate in rates if rate.name == plan.metric), rates[0])
    planned = [pair for pair in plan.comparisons if set(pair) <= set(table.endpoints)]
    compared = [
        comparison
        for rate in rates
        for comparison in comparing.compare(
            table, rate, planned, pooled=pooled, minimum=plan.minimum,
            role=replace(plan, frozen=plan.frozen and not options.common).role,
        )
    ]  # fmt: skip
    facets, cells = {}, {}
    for view in views:
        by_value = values[view.name]
        of_view = next((rate for rate in rates if rate.name == view.rate), primary)
        of_view = of_view if of_view.arm == "trap" else rates[0]
        facets[view.name] = tuple(
            row for value, (label, rows) in by_value.items() for row in counter.rows(table, value, rows, label=label)
        )
        cells[view.name] = tuple(
            comparing.compare_cells(
                table, of_view, planned, {value: rows for value, (_, rows) in by_value.items()},
                pooled=pooled, minimum=plan.minimum,
            )
        )  # fmt: skip
    on_trap = ~table.unit_is_control[table.unit]
    all_changes = changes.changes(table, protocol, rates, minimum=plan.minimum)
    score_rows = partial(scoring.score_rows, table, protocol.scores, pooled=pooled, minimum=plan.minimum)
    return ReportNumbers(
        rates=rates,
        views=views,
        overall=overall,
        facets=facets,
        without={view.name: int((on_trap & ~_has_value(table, view.name)).sum()) for view in views},
        endings=tuple(counting.endings(table, plan.outcomes)),
        comparisons=tuple(compared),
        cells=cells,
        rankings=tuple(
            ranking
            for rate in rates
            for ranking in comparing.rankings(
                rate,
                [row for row in overall if row.endpoint not in unranked],
                compared,
                lower_is_better=protocol.is_lower_better(rate),
            )
        ),
        failed={table.endpoints[position]: n for position, n in sorted(whole.failed.items())},
        samples=(int((np.bincount(table.unit, minlength=1) > 0).sum()), whole.units),
        judged=counts_against(whole, protocol.rates[0], protocol.failing_verdicts),
        shared_records=bool((whole.unit_cluster < 0).any()),
        changes=tuple(all_changes),
        bottlenecks=tuple(changes.bottlenecks(table, protocol, rates, all_changes, minimum=plan.minimum)),
        held_out=tuple(held_out_gaps(table, rates, pooled=pooled, minimum=plan.minimum)),
        scores=score_rows(),
        score_facets={
            name: tuple(
                row for value, (label, rows) in by_value.items() for row in score_rows(value=value, rows=rows, label=label)
            )
            for name, by_value in values.items()
        } if protocol.scores else {},
    )  # fmt: skip


def _with_weights(rate: Rate, options: Options) -> Rate:
    """The rate with the weights that the reader chose, if it is weighted."""
    if rate.weights is None:
        return rate
    chosen = {value: options.weights.get(value, weight) for value, weight in rate.weights.of.items()}
    return replace(rate, weights=rate.weights._replace(of=chosen))


def _views(protocol: Protocol, table: VerdictTable) -> tuple[FacetView, ...]:
    """The protocol's breakdowns, then polarity and the other facets of the release."""
    protocol_views = {view.name for view in protocol.facets}
    polarity_view = [POLARITIES] if POLARITY in table.members and POLARITY not in protocol_views else []
    scored = {facet for rate in protocol.rates if rate.score for facet in rate.score.facets}
    others = sorted(set(table.members) - protocol_views - {POLARITY, RUBRIC} - scored)
    return (*protocol.facets, *polarity_view, *(FacetView(name, name, "heat") for name in others))


def _has_value(table: VerdictTable, name: str) -> NDArray[np.bool_]:
    """Whether the rubric of each judgment has a value of this breakdown."""
    has_value = np.zeros(table.rubrics, dtype=np.bool_)
    for members in table.members.get(name, {}).values():
        has_value |= members
    result: NDArray[np.bool_] = has_value[table.rubric]
    return result


def _values(table: VerdictTable, view: FacetView, labels: Mapping[str, str]) -> dict[str, tuple[str, Ints]]:
    """Value -> label and judgments, in the order of the report, without control samples."""
    on_trap = ~table.unit_is_control[table.unit]
    rows_by_value = {
        value: np.flatnonzero(members[table.rubric] & on_trap)
        for value, members in table.members.get(view.name, {}).items()
    }
    names = dict(view.values) if view.values else labels
    order = sorted(rows_by_value)
    if view.values:
        order.sort(key=lambda value: list(names).index(value) if value in names else len(names))
    return {value: (names.get(value, value), rows_by_value[value]) for value in order if len(rows_by_value[value])}
