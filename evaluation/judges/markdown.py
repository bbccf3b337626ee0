"""The section on judges in Markdown reports, and corrected rates as table rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.judges import summary
from evaluation.models import Run
from evaluation.protocol import EXCLUDED
from review.charts.text_measure import format_share
from review.common import text_tables

ALL = "All"


def section(run: Run) -> list[str]:
    """Lines on selecting models, self-preference, panel agreement and validation, if they apply."""
    judging = summary.as_dict(run)
    return [
        *_selection(judging["selection"]),
        *_kin(judging["self_preference"]),
        *_panel(judging["judges"]),
        *_validation(judging["validation"]),
    ]


def _selection(models: Sequence[str]) -> list[str]:
    if not models:
        return []
    names = ", ".join(models)
    warning = f"The samples were selected because these models failed on them, so their rates are biased: {names}."
    return ["", "## Models used to select the samples", "", warning]


def _kin(preference: Mapping[str, Any]) -> list[str]:
    lines = []
    for kin in preference["kin"]:
        tested = ", ".join(kin["tested"])
        lines.append(f"- {kin['endpoint']} ({kin['role']}) is of the family {kin['family']}, like {tested}.")
    if not lines:
        return []
    if len(preference["rates"]) > 1:
        rates = ", ".join([f"{rate['family']} {_figure(rate['rate'])}" for rate in preference["rates"]])
        lines += [
            "",
            f"Rate by model family: {rates}. Families also differ in quality, so this alone shows no preference.",
        ]
    if preference["preferences"]:
        lines += [
            "",
            "Judge's rate minus that of judges of other families, on the same criteria; a difference below 0: milder "
            "on its own family.",
        ]
        rows = []
        for row in preference["preferences"]:
            difference, _p = _difference({**row, "value": row["difference"], "p_adjusted": None})
            rows.append((row["judge"], f"{row['own']:+.3f}", f"{row['others']:+.3f}", difference))
        lines += ["", *text_tables.markdown(["Judge", "Own family", "Other families", "Difference"], rows)]
    return ["", "## Same model family", "", *lines]


def _panel(panel: Mapping[str, Any] | None) -> list[str]:
    if panel is None:
        return []
    rows = []
    for pair in [*panel["pairs"], *panel["repeats"]]:
        cells = [" – ".join(pair["judges"]), pair["n"], _figure(pair["raw"])]
        for name in ("kappa", "ac1"):
            figure = {"value": pair[name], "low": pair[f"{name}_low"], "high": pair[f"{name}_high"]}
            cells.append(_with_interval(figure))
        rows.append(cells)
    if together := panel["several"]:
        figures = [_with_interval(together[name]) for name in ("raw", "fleiss", "ac1")]
        rows.append(["All together (Fleiss' kappa)", together["n"], *figures])
    lines = ["", "## Agreement between judges", "", f"Panel: {panel['panel']}, {panel['judgments']} per judge."]
    possible = ", ".join(panel["verdicts"])
    lines.append(
        f"The judges may give {len(panel['verdicts'])} verdicts ({possible}) and gave {panel['verdicts_used']}."
    )
    if panel["undecided"]:
        share = panel["undecided"] / (panel["undecided"] + panel["decided"])
        rule = panel["undecided_rule"]
        if rule == EXCLUDED:
            counted = "stay unjudged"
        else:
            counted = f"count as '{rule}'"
        lines.append(f"{panel['undecided']} criteria ({_figure(share)} of all) had no majority and {counted}.")
        if len(panel["judges"]) == 2:
            lines.append("With two judges these are the ones on which they differ. A third would decide: escalation.")
    return [*lines, "", *text_tables.markdown(["Judges", "Criteria", "Raw", "Kappa", "AC1"], rows)]


def _validation(validation: Mapping[str, Any] | None) -> list[str]:
    if validation is None:
        return []
    lines = ["", "## Judge against physicians", ""]
    if validation["simulated_physicians"]:
        lines += [f"> **{validation['notice']}**", ""]
    lines += [f"{validation['closed']} of {validation['drawn']} responses decided, seed {validation['seed']}.", ""]
    head = ["Model", "Compared", "Criteria", "Kappa", "AC1", "Balanced F1", "Sensitivity", "Specificity"]
    rows = []
    for model in validation["models"]:
        judge, physicians = model["judge"], model["physicians"]
        figures = [judge[key] for key in ("kappa", "ac1", "balanced_f1", "sensitivity", "specificity")]
        figures += [model["raw"], model["corrected"]]
        rows.append((model["endpoint"], "judge – physicians", judge["n"], *map(_with_interval, figures)))
        figures = [physicians[key] for key in ("kappa", "ac1", "balanced_f1")]
        others = map(_with_interval, figures)
        rows.append((model["endpoint"], "physician – physician", physicians["n"], *others, *["–"] * 4))
    lines += text_tables.markdown([*head, "Rate", "Corrected"], rows)
    by_dataset = [row for row in corrected_rows(validation) if row[1] != ALL]
    if by_dataset:
        lines += ["", *text_tables.markdown(["Model", "Data set", "Rate", "Corrected"], by_dataset)]
    if by_pair := compared_rows(validation):
        head = ["Data set", "Models", "Difference", "p (Holm)", "Corrected", "p (Holm)"]
        lines += ["", "Differences of models, by the judge and corrected for its errors.", ""]
        lines += text_tables.markdown(head, by_pair)
    if validation["labels"]:
        head = ["Rubric", "Criteria", "Physicians agree", "Kappa", "Judge agrees", "Kappa of the judge"]
        names = ("physicians_agree", "physicians_kappa", "judge_agrees", "judge_kappa")
        labels = []
        for row in validation["labels"]:
            labels.append((row["label"], row["n"], *[_figure(row[name]) for name in names]))
        lines += ["", *text_tables.markdown(head, labels)]
    return lines


def corrected_rows(validation: Mapping[str, Any] | None) -> list[list[str]]:
    """Rows of model, data set, rate by the judge, and corrected rate.

    The first row of each model is over all data sets.
    """
    rows: list[list[str]] = []
    if not validation:
        return rows
    for model in validation["models"]:
        for rates in ({"label": ALL, **model}, *model["datasets"]):
            raw, corrected = _with_interval(rates["raw"]), _with_interval(rates["corrected"])
            rows.append([model["endpoint"], str(rates["label"]), raw, corrected])
    return rows


def compared_rows(validation: Mapping[str, Any] | None) -> list[list[str]]:
    """Rows of data set, models, and difference with p: by the judge, and corrected."""
    rows: list[list[str]] = []
    if not validation:
        return rows
    for row in validation["comparisons"]:
        models = f"{row['first']} – {row['second']}"
        rows.append([str(row["label"]), models, *_difference(row["raw"]), *_difference(row["corrected"])])
    return rows


def _difference(difference: Mapping[str, Any]) -> tuple[str, str]:
    value, p = difference["value"], difference["p_adjusted"]
    if value is None:
        return "–", "–"
    text = f"{value:+.3f}"
    if difference["low"] is not None:
        text += f" ({difference['low']:+.3f}–{difference['high']:+.3f})"
    if p is None:
        return text, "–"
    if p < 0.001:
        return text, "< 0.001"
    return text, f"{p:.3f}"


def _figure(value: float | None) -> str:
    return format_share(value, percent=False) or "–"


def _with_interval(figure: Mapping[str, Any]) -> str:
    value = _figure(figure["value"])
    if figure["value"] is None or figure["low"] is None:
        return value
    return f"{value} ({_figure(figure['low'])}–{_figure(figure['high'])})"
