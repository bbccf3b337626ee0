"""Differences, intervals, p and endings as the texts of a table's cells."""

from collections.abc import Iterable

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from evaluation.models import Response
from evaluation.numbers.comparing import ModelComparison
from evaluation.numbers.rates import of_rate
from evaluation.numbers.rules import CANCELLED, EDITED, INVALIDATED, LIMIT, MISSING, PENDING, SUPERSEDED
from evaluation.protocol import EXCLUDED, JUDGE_FAILED, JUDGE_FAILURES, JUDGED, UNDECIDED, UNPARSED, Protocol, Rate
from evaluation.reports.queries import Report
from review.charts.text_measure import format_share

KIND_LABELS = {
    JUDGED: _("answered and judged"),
    UNPARSED: _("answered, judge's reply unreadable"),
    JUDGE_FAILED: _("answered, judge failed"),
    UNDECIDED: _("answered, judges without a majority"),
    PENDING: _("not judged yet"),
    MISSING: _("no answer"),
    INVALIDATED: _("invalidated by the tool that judged it"),
    LIMIT: _("stopped by a limit of the tool that asked it"),
    EDITED: _("score edited by hand"),
    SUPERSEDED: _("superseded by a later answer"),
    CANCELLED: _("cancelled or discarded"),
}


def reach_of(comparisons: Iterable[ModelComparison]) -> float:
    """The largest distance from zero of these differences and their intervals."""
    reach = 0.0
    for each in comparisons:
        for end in (each.difference, each.low, each.high):
            if end is not None:
                reach = max(reach, abs(end))
    return reach


def scale_of(reach: float, rate: Rate) -> tuple[str, str]:
    """The ends of a forest plot, in the unit of `format_interval`."""
    if rate.percent:
        return (f"{-100 * reach:+.0f}", f"{100 * reach:+.0f}")
    return (f"{-reach:+.2f}", f"{reach:+.2f}")


def format_difference(difference: float | None, rate: Rate) -> str:
    """'+12.0 pp' (percentage points), or '+0.120' for rates without percent; '' for None."""
    if difference is None:
        return ""
    if rate.percent:
        return gettext("%(n)s pp") % {"n": f"{round(100 * difference, 1) + 0.0:+.1f}"}
    return f"{difference:+.3f}"


def format_shares(shares: Iterable[float], *, percent: bool) -> str:
    """'0.120–0.150', the ends of a range or of an interval; '' for none."""
    return "–".join([format_share(share, percent=percent) for share in shares])


def format_p(p: float | None) -> str:
    """'0.012', or '< 0.001'; '' for None."""
    if p is None:
        return ""
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}"


def format_interval(low: float | None, high: float | None, rate: Rate) -> str:
    """The interval of a difference, in the unit of `format_difference`; '' if there is none."""
    if low is None or high is None:
        return ""
    if rate.percent:
        return f"{100 * low:+.1f} – {100 * high:+.1f}"
    return f"{low:+.3f} – {high:+.3f}"


def effect_size(comparison: ModelComparison) -> str:
    """The odds ratio and Cohen's h, in words; '' if there is neither."""
    parts = []
    if comparison.odds_ratio is not None:
        parts.append(gettext("odds ratio %(n)s") % {"n": f"{comparison.odds_ratio:.2f}"})
    if comparison.cohens_h is not None:
        parts.append(f"h {comparison.cohens_h:+.2f}")
    return ", ".join(parts)


def kind_label(kind: str) -> str:
    """How a response ended, in words: the `kind` of an `OutcomeCount`."""
    return str(KIND_LABELS.get(kind) or Response.Outcome(kind).label)


def rule_names(protocol: Protocol) -> list[tuple[str, str]]:
    """(name, label) of what a plan has rules for: outcomes, and failures of the judge if any."""
    names = [(name, str(label)) for name, label in Response.Outcome.choices]
    if protocol.judge is not None:
        names += [(name, str(KIND_LABELS[name])) for name in JUDGE_FAILURES]
    return names


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
    datasets = dict(report.datasets)
    rows: list[tuple[str, ...]] = []
    for gap in of_rate(report.numbers.held_out, rate):
        rows.append(
            (
                gettext(datasets[gap.dataset]),
                gap.endpoint,
                format_share(gap.public, percent=rate.percent),
                format_share(gap.held_out, percent=rate.percent),
                format_difference(gap.difference, rate),
                format_interval(gap.low, gap.high, rate) or gettext("too few"),
                f"{gap.public_clusters} / {gap.held_out_clusters}",
            )
        )
    return rows
