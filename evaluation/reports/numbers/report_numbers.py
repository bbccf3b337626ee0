"""All numbers of a run, counted once: those of a finished run are kept until something changes that they rest on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from django.utils.translation import gettext_noop as _
from numpy.typing import NDArray

from evaluation.models import Run
from evaluation.protocol import DataSet, FacetView, Protocol, Rate
from evaluation.reports.numbers import changes, comparing, counting, scoring
from evaluation.reports.numbers.changes import Bottleneck, Change
from evaluation.reports.numbers.comparing import Comparison, Ranking
from evaluation.reports.numbers.counting import Counting, Ending, Row
from evaluation.reports.numbers.points import POINTS, points_rate
from evaluation.reports.numbers.scoring import ScoreRow
from evaluation.reports.numbers.verdict_table import POLARITY, RUBRIC, Ints, VerdictTable, requested_table
from evaluation.runs.plan import Plan
from evaluation.runs.rows import result_cache
from evaluation.runs.selection import selecting_models
from review.common.sql import pipelined

POLARITIES = FacetView(
    POLARITY,
    _("Polarity"),
    "heat",
    (("must", _("must")), ("must not", _("must not"))),
)


@dataclass(frozen=True, slots=True)
class Options:
    """What a reader asks for beyond the plan.

    `common`: only samples for which every model has a verdict. `weights`: of the values by which a weighted rate weighs.
    `all_ranked`: models by whose failures samples were chosen are ranked with the others.
    """

    common: bool = False
    weights: Mapping[str, int] = field(default_factory=dict)
    all_ranked: bool = False


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the report of a run is made of. `cells`: comparisons in each breakdown. `samples`: counted, of those asked.

    `key`: what it is kept under, '' where it is not. `judged`: model -> (verdicts against it, verdicts), whatever the rules for
    outcomes make of them, of those that the protocol's first rate counts.
    `scores`: means of what code gave responses beside their verdicts, overall; `score_facets`: in each breakdown.
    """

    rates: tuple[Rate, ...]
    views: tuple[FacetView, ...]
    overall: tuple[Row, ...]
    facets: Mapping[str, tuple[Row, ...]]
    without: Mapping[str, int]
    endings: tuple[Ending, ...]
    comparisons: tuple[Comparison, ...]
    cells: Mapping[str, tuple[Comparison, ...]]
    rankings: tuple[Ranking, ...]
    failed: Mapping[str, int]
    samples: tuple[int, int]
    key: str
    judged: Mapping[str, tuple[int, int]]
    changes: tuple[Change, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()
    scores: tuple[ScoreRow, ...] = ()
    score_facets: Mapping[str, tuple[ScoreRow, ...]] = field(default_factory=dict)


def numbers(
    run: Run,
    protocol: Protocol,
    plan: Plan,
    datasets: Sequence[DataSet],
    endpoints: Sequence[str],
    labels: Mapping[str, str],
    options: Options,
) -> Numbers:
    """The numbers of a run: kept ones where it is over and nothing has changed since, else counted now."""
    unranked = () if options.all_ranked else selecting_models(run)
    rests: list[Any] = [plan, datasets, endpoints, sorted(labels.items()), protocol.rates, protocol.scores]
    rests += [protocol.facets, unranked]
    key = result_cache.key_of(run, "report", *rests, options.common, sorted(options.weights.items()))
    return result_cache.keep(key, lambda: _count(run, protocol, plan, datasets, labels, options, unranked, key))


def _count(
    run: Run,
    protocol: Protocol,
    plan: Plan,
    datasets: Sequence[DataSet],
    labels: Mapping[str, str],
    options: Options,
    unranked: Sequence[str],
    key: str,
) -> Numbers:
    whole = _read(run, protocol, datasets, plan.outcomes)
    table = whole.only(counting.answered_by_all(whole)) if options.common else whole
    of_points = points_rate(protocol)
    known = (*protocol.rates, *([of_points] if of_points else []))
    rates = tuple(_weighing(rate, options) for rate in known if counting.is_present(whole, rate))
    pooled = protocol.pooled and len(datasets) > 1
    count = Counting(protocol, rates, pooled, plan.minimum)
    views = _views(protocol, whole)
    values = {view.name: _values(table, view, labels) for view in views}
    overall = tuple(count.rows(table))
    primary = next((rate for rate in rates if rate.name == plan.metric), rates[0])
    planned = [pair for pair in plan.comparisons if set(pair) <= set(table.endpoints)]
    compared = [
        each
        for rate in rates
        for each in comparing.compare(
            table, rate, planned, pooled=pooled, minimum=plan.minimum,
            planned=plan.frozen and rate is primary and not options.common,
        )
    ]  # fmt: skip
    facets, cells = {}, {}
    for view in views:
        of = values[view.name]
        facets[view.name] = tuple(
            row for value, (label, rows) in of.items() for row in count.rows(table, value, rows, label=label)
        )
        cells[view.name] = tuple(
            comparing.compare_cells(
                table, _drawn(rates, view, primary), planned, {value: rows for value, (_, rows) in of.items()},
                pooled=pooled, minimum=plan.minimum,
            )
        )  # fmt: skip
        counting.forget_parts(table)
    trap = ~table.unit_is_control[table.unit]
    changed = changes.changes(table, protocol, rates, minimum=plan.minimum)
    score_rows = partial(scoring.score_rows, table, protocol.scores, pooled=pooled, minimum=plan.minimum)
    return Numbers(
        rates=rates,
        views=views,
        overall=overall,
        facets=facets,
        without={view.name: int((trap & ~_has(table, view.name)).sum()) for view in views},
        endings=tuple(counting.endings(table, plan.outcomes)),
        comparisons=tuple(compared),
        cells=cells,
        rankings=tuple(
            each
            for rate in rates
            for each in comparing.rankings(
                rate,
                [row for row in overall if row.endpoint not in unranked],
                compared,
                lower_is_better=protocol.is_lower_better(rate),
            )
        ),
        failed={table.endpoints[who]: n for who, n in sorted(whole.failed.items())},
        samples=(int((np.bincount(table.unit, minlength=1) > 0).sum()), whole.units),
        key=key,
        judged={name: _judged(whole, at, protocol) for at, name in enumerate(whole.endpoints)},
        changes=tuple(changed),
        bottlenecks=tuple(changes.bottlenecks(table, protocol, rates, changed, minimum=plan.minimum)),
        scores=score_rows(),
        score_facets={
            name: tuple(
                row for value, (label, rows) in of.items() for row in score_rows(value=value, rows=rows, label=label)
            )
            for name, of in values.items()
        } if protocol.scores else {},
    )  # fmt: skip


def _read(run: Run, protocol: Protocol, datasets: Sequence[DataSet], rules: Mapping[str, str]) -> VerdictTable:
    """The verdicts, with the scores beside them where the protocol has some."""
    with pipelined():
        stored = scoring.requested_scores(run) if protocol.scores else None
        table = requested_table(run, datasets, rules)
        scores = stored() if stored else []  # their texts are read while the database lists the verdicts
        return scoring.with_scores(scores, table(), protocol.scores) if protocol.scores else table()


def _judged(table: VerdictTable, endpoint: int, protocol: Protocol) -> tuple[int, int]:
    within, against = protocol.rates[0].scope_verdicts, protocol.failing_verdicts
    counted = {verdict: n for verdict, n in table.given[endpoint].items() if verdict in within}
    return sum(n for verdict, n in counted.items() if verdict in against), sum(counted.values())


def _weighing(rate: Rate, options: Options) -> Rate:
    """The rate with the weights that a reader chose, where it weighs."""
    chosen = {value: options.weights.get(value, weight) for value, weight in rate.weights.items()}
    return replace(rate, weights=chosen) if rate.weighted else rate


def _views(protocol: Protocol, table: VerdictTable) -> tuple[FacetView, ...]:
    """The protocol's breakdowns, then polarity and other facets that the release has."""
    known = {view.name for view in protocol.facets}
    found = [POLARITIES] if POLARITY in table.members and POLARITY not in known else []
    more = sorted(set(table.members) - known - {POLARITY, RUBRIC, POINTS})
    return (*protocol.facets, *found, *(FacetView(name, name, "heat") for name in more))


def _drawn(rates: Sequence[Rate], view: FacetView, primary: Rate) -> Rate:
    """The rate that is compared under a breakdown."""
    found = next((rate for rate in rates if rate.name == view.rate), primary)
    return found if found.arm == "trap" else rates[0]


def _has(table: VerdictTable, name: str) -> NDArray[np.bool_]:
    """Of each judgment, whether its rubric has a value of a breakdown."""
    of = np.zeros(table.rubrics, dtype=np.bool_)
    for members in table.members.get(name, {}).values():
        of |= members
    found: NDArray[np.bool_] = of[table.rubric]
    return found


def _values(table: VerdictTable, view: FacetView, labels: Mapping[str, str]) -> dict[str, tuple[str, Ints]]:
    """Value -> its label and judgments, without those on control samples, in the order of the report."""
    trap = ~table.unit_is_control[table.unit]
    found = {
        value: np.flatnonzero(members[table.rubric] & trap)
        for value, members in table.members.get(view.name, {}).items()
    }
    names = dict(view.values) if view.values else labels
    order = sorted(found)
    if view.values:
        order.sort(key=lambda value: list(names).index(value) if value in names else len(names))
    return {value: (names.get(value, value), found[value]) for value in order if len(found[value])}
