"""A report as a document: Markdown for issues and appendices, LaTeX for papers."""

from django.utils.translation import override

from evaluation.judges import markdown as judges_markdown
from evaluation.judges import summary
from evaluation.labels import cluster_label, failure_words, value_name
from evaluation.metrics import MeasuredRate
from evaluation.models import Run
from evaluation.numbers.comparing import ModelComparison
from evaluation.numbers.counting import RateRow
from evaluation.numbers.plans import SECONDARY
from evaluation.numbers.rates import of_rate, rate_named
from evaluation.protocol import UNDECIDED, Rate
from evaluation.reports import change_tables, score_lines
from evaluation.reports.comparison_lines import (
    HELD_OUT_COLUMNS,
    format_difference,
    format_interval,
    format_p,
    format_shares,
    held_out_cells,
    kind_label,
    rule_label,
)
from evaluation.reports.headlines import answer
from evaluation.reports.queries import Report
from evaluation.runs.queries import JUDGE, judge_names, judges_of, models_asked
from review.charts.text_measure import format_share
from review.common import text_tables

SIMULATED = "Simulated models: not evidence."
SIMULATED_REVIEWERS = "Simulated reviewers: not evidence."
BOUNDS = "Best case", "Worst case"  # with all exclusions counted for, or against, the model
PARTIAL = "a data set has no verdicts"


@override("en")
def as_markdown(report: Report) -> str:
    """The report in Markdown: an overall table, and one for each facet."""
    run = report.run
    rate_labels = [str(rate.label) for rate in report.rates]
    lines = [f"# {run.release}: {', '.join(rate_labels)}", ""]
    if report.simulated:
        lines += [f"> **{SIMULATED}**", ""]
    if run.release.simulated_samples:
        lines += [f"> **{SIMULATED_REVIEWERS}**", ""]
    if not report.finished:
        lines += ["> Results so far: unfinished items count as not judged.", ""]
    for each in report.left_out:
        at = f"{each.left_out_at:%Y-%m-%d %H:%M} UTC"
        reason = text_tables.markdown_cell(failure_words(each.left_out_because))
        if reason:
            reason = f" ({reason})"
        effect = "its numbers are incomplete"
        if each.role == JUDGE:
            effect = "the other judges decide without it"
        lines += [f"> `{each.endpoint.name}` was left out of the run at {at}{reason}: {effect}.", ""]
    said = answer(report, report.planned_rate)
    facts = [f"- {name}: {text_tables.markdown_cell(value)}" for name, value in said.facts]
    lines += ["## Answer", "", *said.sentences, "", *facts, ""]
    rules = [str(rate.rule) for rate in report.rates]
    if len(report.rates) > 1:
        rules = [f"{rate.label}: {rate.rule}" for rate in report.rates]
    lines += ["```bibtex", *said.citation.splitlines(), "```", ""]
    lines += [
        f"Run {run.pk}, {_how_decided(report)}. {' '.join(rules)}",
        f"Release SHA-256 `{run.release.sha256}`.",
        "",
        *_plan(report),
        *[f"## {report.planned_rate.label}", "", *text_tables.markdown(*_models_by_data_sets(report))],
        "",
        "## All metrics",
        "",
        *_table(report, report.numbers.overall, facet=""),
        *_endings(report),
        *_comparisons(report),
        *_held_out(report),
        *_contrasts(report),
        *change_tables.changes_as_markdown(report),
        *change_tables.averages_as_markdown(report),
        *score_lines.as_markdown(report),
        "",
        *_models(report),
        *judges_markdown.section(run),
    ]
    for view in report.numbers.views:
        if not report.numbers.facets[view.name]:
            continue  # such as severity, in a release without severities
        lines += ["", f"## Breakdown: {view.label}", ""]
        if view.note:
            lines += [str(view.note), ""]
        lines += _table(report, report.numbers.facets[view.name], facet=view.label)
        n = report.numbers.without[view.name]
        if n == 1:
            lines += ["", "1 judgment has no value for this breakdown and is not counted above."]
        elif n:
            lines += ["", f"{n} judgments have no value for this breakdown and are not counted above."]
    return "\n".join(lines) + "\n"


def _models(report: Report) -> list[str]:
    """The models asked, with their versions, settings and prompts."""
    head = ["Endpoint", "Role", "Model", "Reported by the server", "Settings", "Prompts"]
    rows = []
    for model in models_asked(report.run):
        settings = [f"{name}={value}" for name, value in model.settings.items()]
        rows.append(
            (
                model.endpoint,
                ", ".join(model.roles),
                model.model,
                ", ".join(model.reported) or "–",
                ", ".join(settings) or "–",
                ", ".join(model.prompts) or "–",
            )
        )
    lines = ["## Models", "", *text_tables.markdown(head, rows)]
    if report.run.judge_id:
        lines += ["", how_judged(report.run)]
    if report.run.prompt_set:
        lines += ["", f"Prompt set: `{report.run.prompts}`, SHA-256 `{report.run.prompts_sha256}`."]
    return lines


def how_judged(run: Run) -> str:
    """How the judges of a run were asked, for its report and the card of its bundle."""
    calls = "one call per criterion"
    if run.judging == Run.Judging.PER_SAMPLE:
        calls = "one call per sample"
    asked = f"Judged by {judge_names(run)}, {calls}"
    if run.judge_temperature is not None:
        asked += f", at temperature {run.judge_temperature:g}"
    if run.panel:
        asked += f", {run.judgments_each} per judge, decided by {run.panel}"
    if not run.share_cached:
        return f"{asked}."
    share = f"{run.share_cached:.0%} of the input tokens were read from a cache"
    return f"{asked}. {share}. A warm cache can turn a verdict, even at temperature 0."


def _how_decided(report: Report) -> str:
    judges = [f"`{judge.name}` ({judge.model})" for judge in judges_of(report.run)]
    if len(judges) > 1:
        text = f"judges {', '.join(judges)}"
    elif judges:
        text = f"judge {judges[0]}"
    elif report.run.origin == Run.Origin.IMPORTED:
        text = "judge not stated"
    else:
        text = f"responses read by code, seed {report.run.seed}"
    if report.run.sampling == Run.Sampling.ENDPOINT:
        return f"{text}, sampled with the settings of the endpoints, not of the benchmark"
    return text


def _table(report: Report, rows: tuple[RateRow, ...], *, facet: str) -> list[str]:
    rates, head = report.rates, ["Model", "Data set"]
    if facet:
        rates = report.facet_rates
        head.append(facet)
    datasets, several = dict(report.datasets), len(rates) > 1
    if several:
        head.append("Metric")
    excluded = "Excluded"
    if report.run.judge:
        excluded = "Not judged"
    head += ["Rate", "95 % interval", "Numerator / denominator", excluded, *BOUNDS]
    cells = []
    for row in rows:
        if facet and not any(row.verdicts.values()):  # the data set has no such rubric
            continue
        place: list[object] = [row.endpoint, datasets.get(row.dataset, row.dataset)]
        if facet:
            place.append(value_name(row.value, str(row.label)))
        for rate in rates:
            measured = row.rates[rate.name]
            if measured.is_empty:
                continue
            metric = []
            if several:
                metric = [rate.label]
            cells.append(
                [
                    *place,
                    *metric,
                    format_share(measured.value, percent=False) or "–",
                    _interval(measured),
                    f"{measured.numerator} / {measured.denominator}",
                    measured.excluded,
                    *_bounds(measured, percent=False),
                ]
            )
    return text_tables.markdown(head, cells)


def _bounds(measured: MeasuredRate, *, percent: bool) -> tuple[str, str]:
    """The rate with all exclusions counted for the model, and against it; '–' for none."""
    if measured.bounds is None:
        return "–", "–"
    return format_share(measured.bounds.best, percent=percent), format_share(measured.bounds.worst, percent=percent)


def _interval(measured: MeasuredRate) -> str:
    if measured.partial:
        return PARTIAL
    if measured.too_few:
        return "too few"
    return format_shares(measured.interval or (), percent=False) or "–"


def _plan(report: Report) -> list[str]:
    """The analysis plan, and what is exploratory."""
    plan, lines = report.plan, []
    if plan.frozen:
        rules = [f"{outcome}: {rule_label(rule, report.protocol)}" for outcome, rule in plan.outcomes.items()]
        preset = ""
        if plan.preset:
            preset = f"counting rules '{text_tables.markdown_cell(plan.preset)}'; "
        dataset = ""
        if plan.dataset:
            dataset = f"primary data set {dict(report.datasets).get(plan.dataset, plan.dataset)}; "
        lines += [
            f"Analysis plan, frozen at launch: {preset}primary metric {_label(report, plan.metric)}; {dataset}"
            f"{len(plan.comparisons)} comparisons of models; no interval below {plan.minimum} samples. "
            f"{', '.join(rules)}. Everything else is exploratory.",
            "",
        ]
    else:
        lines += ["No analysis plan was frozen at launch: all results are exploratory.", ""]
    if report.options.common:
        counted, asked = report.numbers.samples
        lines += [f"> Only the {counted} of {asked} samples that every model answered. This view is exploratory.", ""]
    return lines


def _label(report: Report, name: str) -> str:
    rate = rate_named(report.protocol.rates, name)
    if rate is None:
        return name
    return str(rate.label)


def _models_by_data_sets(report: Report) -> tuple[list[object], list[list[str]]]:
    """Head and rows as papers print them: the primary metric with its interval."""
    rate = report.planned_rate
    cells = {(row.endpoint, row.dataset): row.rates[rate.name] for row in report.numbers.overall}
    datasets = dict(report.datasets)
    rows = []
    for endpoint in report.endpoints:
        shares = [_share_with_interval(cells[endpoint, name], rate) for name in datasets]
        rows.append([endpoint, *shares])
    return ["Model", *datasets.values()], rows


def _share_with_interval(measured: MeasuredRate, rate: Rate) -> str:
    value = format_share(measured.value, percent=rate.percent)
    if not value:
        if measured.partial:
            return f"– ({PARTIAL})"
        return "–"
    if measured.interval is None:
        return f"{value} (too few)"
    return f"{value} ({format_shares(measured.interval, percent=rate.percent)})"


def _endings(report: Report) -> list[str]:
    datasets = dict(report.datasets)
    head = ["Model", "Data set", "Outcome", "Responses", "Rubrics", "With a verdict", "Rule"]
    rows = []
    for ending in report.numbers.endings:
        responses: object = ending.responses
        if ending.responses is None:
            responses = "–"
        rule = rule_label(ending.rule, report.protocol)
        place = (ending.endpoint, datasets[ending.dataset], kind_label(ending.kind))
        rows.append((*place, responses, ending.criteria, ending.counted, rule))
    lines = ["", "## How responses ended", "", *text_tables.markdown(head, rows)]
    notes = []
    for odd in report.oddities:
        if odd.ending:
            name = text_tables.markdown_cell(odd.ending)
            what = f"ended in an unknown way ({name}) and are left out"
        else:
            what = "still begin like reasoning, which the judge may have read"
        notes.append(f"- {odd.endpoint}: {odd.responses} responses {what}.")
    if unread := report.unread.count:
        errors = [f"{n}: {failure_words(name)}" for name, n in report.unread.by_error.items()]
        share = format_share(report.unread.share)
        notes.append(f"- {unread} of {report.unread.asked} verdicts ({share}) could not be read: {', '.join(errors)}.")
    if report.run.estimated:
        notes.append(f"- The cost of {report.run.estimated} calls is an upper estimate: no usage was reported.")
    if notes:
        lines.append("")
    return lines + notes


def _comparisons(report: Report) -> list[str]:
    datasets, rates = dict(report.datasets), report.rates_by_name
    head = ["Data set", "Metric", "Models", "Difference", "95 % interval", "Odds ratio", "p", "p (Holm)"]
    head += [cluster_label(report.numbers.cluster_unit), "Plan"]
    rows = []
    for comparison in report.numbers.comparisons:
        rate = rates[comparison.rate]
        odds_ratio = "–"
        if comparison.odds_ratio is not None:
            odds_ratio = f"{comparison.odds_ratio:.2f}"
        rows.append(
            (
                datasets[comparison.dataset],
                rate.label,
                f"{comparison.first} – {comparison.second}",
                *_difference(comparison, rate),
                odds_ratio,
                format_p(comparison.p) or "–",
                format_p(comparison.p_adjusted) or "–",
                comparison.clusters,
                comparison.role,
            )
        )
    note = ""
    if report.run.judge:
        note = "By the judge's verdicts alone, as ranks are; corrected differences need physicians' verdicts."
    return text_tables.section("Comparisons of models", head, rows, note)


def _difference(comparison: ModelComparison, rate: Rate) -> tuple[str, str]:
    interval = format_interval(comparison.low, comparison.high, rate)
    if not interval and comparison.clusters:
        interval = "too few"
    return format_difference(comparison.difference, rate) or "–", interval or "–"


def _held_out(report: Report) -> list[str]:
    title = f"{report.planned_rate.label}: public and held-out samples"
    rows = held_out_cells(report, report.planned_rate)
    note = "A model that does better on public samples may have seen them. Exploratory."
    return text_tables.section(title, HELD_OUT_COLUMNS, rows, note)


def _contrasts(report: Report) -> list[str]:
    rates = report.rates_by_name
    head = ["Comparison", "Model", "Metric", "Variant", "Baseline", "Difference"]
    rows = []
    for contrast in report.numbers.contrasts:
        values = [format_share(value, percent=False) or "–" for value in contrast.values]
        difference = "–"
        if contrast.difference is not None:
            difference = f"{contrast.difference:+.3f}"
        label = str(rates[contrast.rate].label)
        rows.append((contrast.label, contrast.endpoint, label, *values, difference))
    return text_tables.section("Effects of the variants", head, rows)


@override("en")
def as_latex(report: Report) -> str:
    """The report for papers: its answer, then tables with booktabs."""
    said = answer(report, report.planned_rate)
    run, rate, datasets = report.run, report.planned_rate, dict(report.datasets)
    clusters = cluster_label(report.numbers.cluster_unit).lower()
    notes = [f"{rate.label}. 95 % intervals with {clusters} as clusters. Release {run.release}, run {run.pk}."]
    if report.simulated:
        notes.append(SIMULATED)
    if run.release.simulated_samples:
        notes.append(SIMULATED_REVIEWERS)
    if not report.finished:
        notes.append("Results so far.")
    if not report.is_planned(rate):
        notes.append("Exploratory.")
    undecided = 0
    for ending in report.numbers.endings:
        if ending.kind == UNDECIDED:
            undecided += ending.criteria
    if undecided:
        rule = rule_label(report.plan.outcomes[UNDECIDED], report.protocol)
        notes.append(f"{undecided} criteria without a majority of the judges: {rule}.")
    lines = ["% needs \\usepackage{booktabs}", f"% release SHA-256 {run.release.sha256}"]
    lines += [*map(text_tables.tex, said.sentences), r"\begin{itemize}"]
    lines += [rf"\item {text_tables.tex(f'{name}: {value}')}" for name, value in said.facts]
    lines.append(r"\end{itemize}")
    lines += [f"% {line}" for line in said.citation.splitlines()]
    lines += text_tables.latex(" ".join(notes), *_models_by_data_sets(report))
    bounded = []
    for row in report.numbers.overall:
        measured = row.rates[rate.name]
        if measured.excluded and measured.bounds:
            bounds = _bounds(measured, percent=rate.percent)
            bounded.append((row.endpoint, datasets[row.dataset], measured.excluded, *bounds))
    if bounded:
        caption = f"{rate.label} with all exclusions counted for the model (best case), and against it (worst case)."
        lines += text_tables.latex(caption, ["Model", "Data set", "Excluded", *BOUNDS], bounded)
    compared = []
    for comparison in of_rate(report.numbers.comparisons, rate):
        dataset = str(datasets[comparison.dataset])
        if comparison.role == SECONDARY:
            dataset += f" ({SECONDARY})"
        models = f"{comparison.first} – {comparison.second}"
        p = format_p(comparison.p_adjusted) or "–"
        compared.append((dataset, models, *_difference(comparison, rate), p))
    if compared:
        caption = f"Differences of models in {rate.label}, paired by {clusters}; p adjusted by Holm."
        lines += text_tables.latex(caption, ["Data set", "Models", "Difference", "95 % interval", "p"], compared)
    if gaps := held_out_cells(report, rate):
        caption = f"{rate.label} on public and on held-out samples. Exploratory."
        lines += text_tables.latex(caption, HELD_OUT_COLUMNS, gaps)
    if changes := change_tables.rows(report, rate):
        caption = f"Gains in {rate.label}, paired by {clusters}, with Fix and Break rates."
        lines += text_tables.latex(caption, ["Comparison", "Data set", "Model", "Gain", "Fix", "Break"], changes)
    if report.numbers.scores:
        lines += text_tables.latex("Means of scores.", *score_lines.means(report))
    return "\n".join(lines + _corrected_as_latex(run)) + "\n"


def _corrected_as_latex(run: Run) -> list[str]:
    """The judge's rates beside those corrected by physicians; empty without a validation."""
    validation = summary.validation(run)
    rows = judges_markdown.corrected_rows(validation)
    if validation is None or not rows:
        return []
    caption = "Rates by the judge, and corrected by the verdicts of physicians on a share of the responses."
    if validation["simulated_physicians"]:
        caption += f" {validation['notice']}"
    lines = text_tables.latex(caption, ["Model", "Data set", "Rate", "Corrected"], rows)
    if compared := judges_markdown.compared_rows(validation):
        caption = "Differences of models by the judge, and corrected for its errors; p adjusted by Holm."
        lines += text_tables.latex(caption, ["Data set", "Models", "Difference", "p", "Corrected", "p"], compared)
    return lines
