"""All numbers of a run's report, from its verdicts: a few group-bys over its frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from evaluation.numbers import changes, comparing, counting
from evaluation.numbers.averages import Contrast, MetricAverages, averages_of, contrasts_of
from evaluation.numbers.changes import Bottleneck, Change
from evaluation.numbers.comparing import ModelComparison, Ranking
from evaluation.numbers.counting import OutcomeCount, RateRow
from evaluation.numbers.coverage import Coverage, coverage
from evaluation.numbers.frame import SAMPLE, Frame, counts_against
from evaluation.numbers.held_out import HeldOutGap, held_out_gaps
from evaluation.numbers.late import pl
from evaluation.numbers.plans import Plan
from evaluation.numbers.rates import gettext_noop as _
from evaluation.numbers.rates import rate_named
from evaluation.numbers.rules import POLARITY, RUBRIC, TRAP
from evaluation.numbers.scoring import ScoreRow, score_rows
from evaluation.numbers.totals import UnitTotals, facet_totals, has_data, judged_by_all, unit_totals
from evaluation.protocol import FacetView, Protocol, Rate

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
        samples: units with a verdict that counts, and all units asked.
        judged: model -> (verdicts against it, verdicts), of those in scope of the protocol's first
            rate.
        held_out: rates on public samples beside those on held-out ones.
        scores, score_facets: means of scores that code gave responses, overall and by breakdown.
        coverage: of each model; those that are not complete have no rank.
        cluster_unit: what shares one is a cluster of intervals and comparisons.
        withdrawn: samples that were withdrawn, which count in no number but `with_withdrawn`.
        with_withdrawn: rows over all criteria as if these samples still counted; empty if none were
            withdrawn.
        averages: unweighted means, for variants with several models or data sets.
        contrasts: the protocol's contrasts of which the run asked both data sets.
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
    changes: tuple[Change, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()
    held_out: tuple[HeldOutGap, ...] = ()
    scores: tuple[ScoreRow, ...] = ()
    score_facets: Mapping[str, tuple[ScoreRow, ...]] = field(default_factory=dict)
    coverage: tuple[Coverage, ...] = ()
    cluster_unit: str = SAMPLE
    withdrawn: int = 0
    with_withdrawn: tuple[RateRow, ...] = ()
    averages: tuple[MetricAverages, ...] = ()
    contrasts: tuple[Contrast, ...] = ()


def count(
    frame: Frame,
    protocol: Protocol,
    plan: Plan,
    labels: Mapping[str, str],
    options: Options = Options(),
    unranked: Sequence[str] = (),
) -> ReportNumbers:
    """Every number of a report, from the frame of a run.

    `labels`: of the values of breakdowns. `unranked`: models that are not ranked.
    """
    whole = frame.current
    counted = whole
    if options.common:
        counted = whole.only(judged_by_all(whole))
    rates = tuple([_with_weights(rate, options) for rate in protocol.rates if has_data(whole, rate)])
    views = _views(protocol, whole)
    rows, minimum = counted.by_value(), plan.minimum
    totals = unit_totals(counted, rates)
    verdicts = counting.verdict_counts(counted, rows).get("", {})
    overall = counting.rate_rows(totals, verdicts, protocol, minimum)
    compared = _comparisons(totals, plan, options)
    facets, cells, score_facets, without = {}, {}, {}, {}
    for view in views:
        breakdown = _breakdown(counted, rates, view, labels, protocol, plan)
        facets[view.name], cells[view.name] = breakdown.rows, breakdown.comparisons
        without[view.name] = breakdown.without
        if protocol.scores:
            score_facets[view.name] = breakdown.scores
    covered = coverage(whole)
    to_rank = {of_model.endpoint for of_model in covered if of_model.complete}.difference(unranked)
    ranked = [row for row in overall if row.endpoint in to_rank]
    all_changes = changes.changes(totals, protocol, minimum)
    return ReportNumbers(
        rates=rates,
        views=views,
        overall=tuple(overall),
        facets=facets,
        without=without,
        endings=tuple(counting.endings(counted, plan.outcomes)),
        comparisons=tuple(compared),
        cells=cells,
        rankings=tuple(_rankings(rates, protocol, ranked, compared)),
        failed=_failed(whole),
        samples=(counted.rows.filter("counts")["unit"].n_unique(), len(whole.units)),
        judged=counts_against(whole, protocol.rates[0], protocol.failing_verdicts),
        changes=tuple(all_changes),
        bottlenecks=tuple(changes.bottlenecks(totals, protocol, all_changes, minimum)),
        held_out=tuple(held_out_gaps(totals.values(), minimum)),
        scores=score_rows(counted, rows, protocol.scores, {"": ""}, minimum),
        score_facets=score_facets,
        coverage=covered,
        cluster_unit=whole.cluster_unit,
        withdrawn=frame.withdrawn,
        with_withdrawn=_with_withdrawn(frame, rates, protocol, minimum),
        averages=averages_of(protocol, rates, overall),
        contrasts=contrasts_of(protocol, rates, overall, frame.models),
    )


def _with_withdrawn(frame: Frame, rates: Sequence[Rate], protocol: Protocol, minimum: int) -> tuple[RateRow, ...]:
    """The rows over all criteria, of withdrawn samples too."""
    if not frame.withdrawn:
        return ()
    verdicts = counting.verdict_counts(frame, frame.by_value()).get("", {})
    return tuple(counting.rate_rows(unit_totals(frame, rates), verdicts, protocol, minimum))


def _comparisons(totals: Mapping[str, UnitTotals], plan: Plan, options: Options) -> list[ModelComparison]:
    """The planned pairs by every rate."""
    plan = replace(plan, frozen=plan.frozen and not options.common)
    compared = []
    for of_rate in totals.values():
        pairs = plan.pairs_of(of_rate.models)
        compared += comparing.compare(of_rate, pairs, minimum=plan.minimum, role=plan.role)
    return compared


class _Breakdown(NamedTuple):
    """The numbers by value of a breakdown; `without`: the rows whose rubric has no value."""

    rows: tuple[RateRow, ...]
    comparisons: tuple[ModelComparison, ...]
    scores: tuple[ScoreRow, ...]
    without: int


def _breakdown(
    frame: Frame, rates: Sequence[Rate], view: FacetView, labels: Mapping[str, str], protocol: Protocol, plan: Plan
) -> _Breakdown:
    """The numbers by value of a breakdown, in the order of the report."""
    by_value = frame.by_value(view.name)
    verdicts = counting.verdict_counts(frame, by_value)
    of_trap = [rate for rate in rates if rate.arm == TRAP]
    totals = dict(facet_totals(frame, of_trap, by_value))
    names = dict(view.values) or labels
    shown = _shown_rate(rates, view, plan)
    shown_labels: dict[str, str] = {}
    rows: list[RateRow] = []
    compared: dict[str, UnitTotals] = {}
    for value in _in_order(totals, view):
        label = names.get(value, value)
        rows += counting.rate_rows(totals[value], verdicts[value], protocol, plan.minimum, value, label)
        shown_labels[value], compared[value] = label, totals[value][shown.name]
    has_value = pl.col("rubric").is_in(frame.facet(view.name)["rubric"].unique().implode())
    return _Breakdown(
        tuple(rows),
        tuple(comparing.compare_cells(compared, plan.pairs_of(frame.models), minimum=plan.minimum)),
        score_rows(frame, by_value, protocol.scores, shown_labels, plan.minimum),
        frame.rows.filter(~pl.col("is_control") & ~has_value).height,
    )


def _in_order(values: Iterable[str], view: FacetView) -> list[str]:
    """Values of a breakdown: those that it names first, in its order, then the others by name."""
    named = dict(view.values)
    known = sorted(values)
    first = [value for value in named if value in known]
    return first + [value for value in known if value not in named]


def _shown_rate(rates: Sequence[Rate], view: FacetView, plan: Plan) -> Rate:
    """The rate that a breakdown compares: its own or the plan's; the first for one of controls."""
    shown = rate_named(rates, view.rate) or rate_named(rates, plan.metric)
    if shown is None or shown.arm != TRAP:
        return rates[0]
    return shown


def _rankings(
    rates: Sequence[Rate], protocol: Protocol, rows: Sequence[RateRow], compared: Sequence[ModelComparison]
) -> list[Ranking]:
    result = []
    for rate in rates:
        result += comparing.rankings(rate, rows, compared, lower_is_better=protocol.is_lower_better(rate))
    return result


def _failed(frame: Frame) -> dict[str, int]:
    """Model -> its failed responses, of those that have any."""
    failed = frame.responses.filter("failed").group_by("model").agg(pl.col("n").sum())
    counts = dict(failed.iter_rows())
    return {model: counts[model] for model in frame.models if model in counts}


def _with_weights(rate: Rate, options: Options) -> Rate:
    """The rate with the weights that the reader chose, if it is weighted."""
    if rate.weights is None:
        return rate
    chosen = {value: options.weights.get(value, weight) for value, weight in rate.weights.of.items()}
    return replace(rate, weights=rate.weights._replace(of=chosen))


def _views(protocol: Protocol, frame: Frame) -> tuple[FacetView, ...]:
    """The protocol's breakdowns, then polarity and the other facets of the release."""
    views = list(protocol.facets)
    viewed = {view.name for view in views} | {RUBRIC}
    if POLARITY in frame.facets and POLARITY not in viewed:
        views.append(POLARITIES)
    viewed.add(POLARITY)
    for rate in protocol.rates:
        if rate.score:
            viewed.update(rate.score.facets)
    views += [FacetView(name, name, "heat") for name in sorted(frame.facets.keys() - viewed)]
    return tuple(views)
