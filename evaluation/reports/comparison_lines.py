"""Comparisons, ranks and endings as table lines: texts, chart marks and links."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from evaluation.models import Response
from evaluation.protocol import EXCLUDED, JUDGE_FAILED, JUDGE_FAILURES, JUDGED, UNDECIDED, UNPARSED, Protocol, Rate
from evaluation.reports.numbers.comparing import ModelComparison
from evaluation.reports.queries import Report
from evaluation.verdicts.selection import PENDING
from review.charts.interval import Mark, difference_mark
from review.charts.text_measure import format_share

KIND_LABELS = {
    JUDGED: _("answered and judged"),
    UNPARSED: _("answered, judge's reply unreadable"),
    JUDGE_FAILED: _("answered, judge failed"),
    UNDECIDED: _("answered, judges without a majority"),
    PENDING: _("not judged yet"),
}


@dataclass(frozen=True, slots=True)
class ComparisonLine:
    """A pair of models on a data set or in a cell of a breakdown, with its row of a forest plot."""

    dataset: str
    value: str
    first: str
    second: str
    rates: tuple[str, str]
    difference: str
    interval: str
    effect: str
    p: str
    p_adjusted: str
    significant: bool
    failed_by_one: str  # samples that only the first failed / only the second
    clusters: int
    role: str
    mark: Mark | None
    scale: tuple[str, str]  # the differences at the ends of the plot

    @property
    def too_few(self) -> bool:
        """Whether there are too few samples for an interval."""
        return bool(self.clusters) and not self.interval


@dataclass(frozen=True, slots=True)
class RankLine:
    """A model's rank on a data set, and the ranks that are not ruled out."""

    dataset: str
    endpoint: str
    place: int
    possible: str


@dataclass(frozen=True, slots=True)
class HeldOutLine:
    """A model's rate on public samples and on held-out ones, formatted."""

    dataset: str
    endpoint: str
    public: str
    held_out: str
    difference: str
    interval: str  # '' if there are too few
    clusters: str  # public / held out


@dataclass(frozen=True, slots=True)
class EndingLine:
    """Responses of a model on a data set that ended in one way, and how their criteria count."""

    endpoint: str
    dataset: str
    kind: str
    responses: int | None
    criteria: int
    counted: int
    rule: str
    href: str


def comparison_lines(
    report: Report, comparisons: Sequence[ModelComparison], rate: Rate, values: Mapping[str, str] | None = None
) -> tuple[ComparisonLine, ...]:
    """The lines of these comparisons. `values`: the names of a breakdown's values."""
    labels = {name: gettext(label) for name, label in report.datasets}
    reach = reach_of(comparisons)
    return tuple(
        ComparisonLine(
            dataset=labels[comparison.dataset],
            value=(values or {}).get(comparison.value, comparison.value),
            first=comparison.first,
            second=comparison.second,
            rates=(
                format_share(comparison.rates[0], percent=rate.percent),
                format_share(comparison.rates[1], percent=rate.percent),
            ),
            difference=format_difference(comparison.difference, rate),
            interval=format_interval(comparison.low, comparison.high, rate),
            effect=_effect(comparison),
            p=format_p(comparison.p),
            p_adjusted=format_p(comparison.p_adjusted),
            significant=comparison.p_adjusted is not None and comparison.p_adjusted < 0.05,
            failed_by_one=""
            if comparison.only_first is None
            else f"{comparison.only_first} / {comparison.only_second}",
            clusters=comparison.clusters,
            role=comparison.role,
            mark=difference_mark(comparison.difference, comparison.low, comparison.high, reach=reach),
            scale=scale_of(reach, rate),
        )
        for comparison in comparisons
    )


def reach_of(comparisons: Iterable[ModelComparison]) -> float:
    """The largest distance from zero of these differences and their intervals."""
    ends = ((each.difference, each.low, each.high) for each in comparisons)
    return max((abs(end) for each in ends for end in each if end is not None), default=0.0)


def scale_of(reach: float, rate: Rate) -> tuple[str, str]:
    """The ends of a forest plot, in the unit of `format_interval`."""
    return (f"{-100 * reach:+.0f}", f"{100 * reach:+.0f}") if rate.percent else (f"{-reach:+.2f}", f"{reach:+.2f}")


def held_out_lines(report: Report, rate: Rate) -> tuple[HeldOutLine, ...]:
    """The lines of a rate's gaps between public and held-out samples."""
    labels = {name: gettext(label) for name, label in report.datasets}
    return tuple(
        HeldOutLine(
            labels[gap.dataset],
            gap.endpoint,
            format_share(gap.public, percent=rate.percent),
            format_share(gap.held_out, percent=rate.percent),
            format_difference(gap.difference, rate),
            format_interval(gap.low, gap.high, rate),
            f"{gap.public_clusters} / {gap.held_out_clusters}",
        )
        for gap in report.numbers.held_out
        if gap.rate == rate.name
    )


def format_difference(difference: float | None, rate: Rate) -> str:
    """'+12.0 pp' (percentage points), or '+0.120' for rates without percent; '' for None."""
    if difference is None:
        return ""
    return (
        gettext("%(n)s pp") % {"n": f"{round(100 * difference, 1) + 0.0:+.1f}"}
        if rate.percent
        else f"{difference:+.3f}"
    )


def format_p(p: float | None) -> str:
    """'0.012', or '< 0.001'; '' for None."""
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def format_interval(low: float | None, high: float | None, rate: Rate) -> str:
    """The interval of a difference, in the unit of `format_difference`; '' if there is none."""
    if low is None or high is None:
        return ""
    return f"{100 * low:+.1f} – {100 * high:+.1f}" if rate.percent else f"{low:+.3f} – {high:+.3f}"


def _effect(comparison: ModelComparison) -> str:
    parts = []
    if comparison.odds_ratio is not None:
        parts.append(gettext("odds ratio %(n)s") % {"n": f"{comparison.odds_ratio:.2f}"})
    if comparison.cohens_h is not None:
        parts.append(f"h {comparison.cohens_h:+.2f}")
    return ", ".join(parts)


def ranking_lines(report: Report, rate: Rate) -> tuple[RankLine, ...]:
    """The ranks of models by a rate on every data set."""
    labels = {name: gettext(label) for name, label in report.datasets}
    return tuple(
        RankLine(
            labels[ranking.dataset],
            ranking.endpoint,
            ranking.place,
            str(ranking.best) if ranking.best == ranking.worst else f"{ranking.best}–{ranking.worst}",
        )
        for ranking in report.numbers.rankings
        if ranking.rate == rate.name
    )


def ending_lines(report: Report, link: Callable[[str, str, str], str]) -> tuple[EndingLine, ...]:
    """How responses ended. `link`: the judgments of an endpoint, data set and outcome."""
    labels = {name: gettext(label) for name, label in report.datasets}
    outcomes = dict(Response.Outcome.choices)
    return tuple(
        EndingLine(
            endpoint=ending.endpoint,
            dataset=labels[ending.dataset],
            kind=str(KIND_LABELS.get(ending.kind) or outcomes[Response.Outcome(ending.kind)]),
            responses=ending.responses,
            criteria=ending.criteria,
            counted=ending.counted,
            rule=rule_label(ending.rule, report.protocol),
            href=link(ending.endpoint, ending.dataset, ending.kind if ending.kind in outcomes else "answered"),
        )
        for ending in report.numbers.endings
    )


def rule_names(protocol: Protocol) -> list[tuple[str, str]]:
    """(name, label) of what a plan has rules for: outcomes, and failures of the judge if any."""
    failures = () if protocol.judge is None else JUDGE_FAILURES
    return [(name, str(label)) for name, label in Response.Outcome.choices] + [
        (name, str(KIND_LABELS[name])) for name in failures
    ]


def rule_label(rule: str, protocol: Protocol) -> str:
    """How an outcome or a failure of the judge is counted, in words."""
    if rule == JUDGED:
        return gettext("judged where there is text, otherwise excluded")
    if rule == EXCLUDED:
        return gettext("excluded")
    return gettext("counted as '%(verdict)s'") % {"verdict": gettext(protocol.verdicts.get(rule, rule))}


HELD_OUT_COLUMNS = ("Data set", "Model", "Public", "Held out", "Difference", "95 % interval", "Samples")


def held_out_cells(report: Report, rate: Rate) -> list[tuple[str, ...]]:
    """The cells of a table of public and held-out rates, under `HELD_OUT_COLUMNS`."""
    return [
        (
            line.dataset,
            line.endpoint,
            line.public,
            line.held_out,
            line.difference,
            line.interval or "too few",
            line.clusters,
        )
        for line in held_out_lines(report, rate)
    ]
