"""Changes by contrast, and means over models and data sets, as tables of a document."""

from evaluation.numbers.changes import BROKEN, FIXED
from evaluation.numbers.rates import of_rate
from evaluation.protocol import Rate
from evaluation.reports.comparison_lines import format_difference, format_interval, format_p
from evaluation.reports.queries import Report
from review.charts.text_measure import format_share
from review.common import text_tables


def changes_as_markdown(report: Report) -> list[str]:
    """The gains, with answers fixed and broken, and the bottleneck of each data set."""
    datasets, rates = dict(report.datasets), report.rates_by_name
    head = ["Comparison", "Data set", "Model", "Metric", "Gain", "95 % interval", "p (Holm)"]
    cells = []
    for change in report.numbers.changes:
        rate = rates[change.rate]
        cells.append(
            (
                change.label,
                datasets[change.first],
                change.endpoint or "Mean of the models",
                rate.label,
                format_difference(change.gain, rate) or "–",
                format_interval(change.low, change.high, rate) or "–",
                format_p(change.p_adjusted) or "–",
                _format_share_of(change.fix_rate, change.moves[FIXED], change.wrong),
                _format_share_of(change.break_rate, change.moves[BROKEN], change.right),
                change.clusters,
            )
        )
    lines = text_tables.section("Fixed and broken answers", [*head, "Fixed", "Broken", "Samples"], cells)
    for bottleneck in report.numbers.bottlenecks:
        rate = rates[bottleneck.rate]
        gains = ", ".join([f"{label}: {format_difference(gain, rate)}" for label, gain in bottleneck.gains.items()])
        lines += [
            "",
            f"{datasets[bottleneck.dataset]}, {rate.label}: largest gain by '{bottleneck.label}' ({gains}). "
            f"Lead over '{bottleneck.runner_up}': {format_difference(bottleneck.lead, rate) or '–'}, 95 % interval "
            f"{format_interval(bottleneck.low, bottleneck.high, rate) or 'too few'}, "
            f"p (Holm) {format_p(bottleneck.p_adjusted) or '–'}.",
        ]
    return lines


def _format_share_of(share: float | None, n: int, whole: int) -> str:
    return f"{format_share(share, percent=False) or '–'} ({n} of {whole})"


def averages_as_markdown(report: Report) -> list[str]:
    """The unweighted means over models and over data sets."""
    datasets, rates = dict(report.datasets), report.rates_by_name
    cells = []
    for rate, variant, means in report.numbers.averages:
        label = rates[rate].label
        for name, value in means.by_dataset.items():
            cells.append((label, datasets[name], "models", format_share(value, percent=False) or "–"))
        for name, value in means.by_model.items():
            model = f"{name} {variant}".strip()
            cells.append((label, model, "data sets", format_share(value, percent=False) or "–"))
    return text_tables.section("Unweighted means", ["Metric", "Mean of", "Over", "Value"], cells)


def rows(report: Report, rate: Rate) -> list[tuple[str, ...]]:
    """The changes in one rate, formatted: contrast, data set, model, gain, Fix, Break."""
    names = dict(report.datasets)
    cells: list[tuple[str, ...]] = []
    for change in of_rate(report.numbers.changes, rate):
        cells.append(
            (
                str(change.label),
                str(names[change.first]),
                change.endpoint or "Mean",
                format_difference(change.gain, rate) or "–",
                format_share(change.fix_rate, percent=rate.percent) or "–",
                format_share(change.break_rate, percent=rate.percent) or "–",
            )
        )
    return cells
