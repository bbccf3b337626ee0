"""The numbers on judges as JSON, for the report and for the check of a bundle."""

from collections.abc import Iterable
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from evaluation.judges.numbers.agreement import PanelReport
from evaluation.judges.numbers.families import Counts, Member, SelfPreference, rates_by_family
from evaluation.judges.numbers.validation import ValidationReport
from evaluation.judges.numbers.variance import ModelVariance
from evaluation.statistics.intervals import RateInterval
from review.rules.shown_fields import shown_values

SIMULATED_NOTICE = "Simulated reviewers: not evidence."


def panel(report: PanelReport) -> dict[str, Any]:
    """The panel and the agreement of its judges."""
    fields = asdict(report)
    return {"panel": fields.pop("rule"), **fields}


def repeats(answers: int, judgments: int, variances: Iterable[ModelVariance]) -> dict[str, Any]:
    """Answers per question, judgments per criterion, and the components of the variance."""
    models = [{"endpoint": model.endpoint, **asdict(model.components)} for model in variances]
    return {"answers": answers, "judgments": judgments, "models": models}


def preference(result: SelfPreference, tested: Iterable[Member], judged: Counts) -> dict[str, Any]:
    """Endpoints of a tested model's family, and how much judges favour their own family.

    `judged`: (failed, judged) of each model.
    """
    rates = {}
    if result.kin:
        rates = rates_by_family(tested, judged)
    by_family = []
    for family, (failed, n) in sorted(rates.items()):
        by_family.append({"family": family, "failed": failed, "judged": n, "rate": failed / n})
    return {
        "kin": list(map(asdict, result.kin)),
        "rates": by_family,
        "preferences": [{**asdict(each), "difference": each.difference} for each in result.preferences],
    }


def validation(report: ValidationReport) -> dict[str, Any]:
    """The judge against physicians."""
    notice = {}
    if report.simulated:
        notice = {"notice": SIMULATED_NOTICE}
    return {
        **shown_values(report),
        "created_at": report.created_at.isoformat(),
        **notice,
        "models": list(map(_with_rates, report.models)),
        "labels": list(map(asdict, report.labels)),
        "comparisons": list(map(asdict, report.comparisons)),
    }


def _with_rates(item: Any) -> Any:
    """The item as JSON; of a rate with its interval, what the interval is based on is left out."""
    if isinstance(item, RateInterval):
        return shown_values(item)
    if isinstance(item, tuple):
        return [_with_rates(each) for each in item]
    if is_dataclass(item):
        return {each.name: _with_rates(getattr(item, each.name)) for each in fields(item)}
    return item
