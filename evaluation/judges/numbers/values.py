"""The numbers on judges as JSON, for the report and for the check of a bundle."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from evaluation.judges.numbers.agreement import PanelReport
from evaluation.judges.numbers.families import Counts, Member, SelfPreference, rates_by_family
from evaluation.judges.numbers.validation import ModelValidation, ValidationReport
from evaluation.judges.numbers.variance import ModelVariance
from evaluation.statistics.intervals import RateInterval
from evaluation.statistics.validation import JudgeQuality

SIMULATED_NOTICE = "Simulated reviewers: not evidence."


def panel(report: PanelReport) -> dict[str, Any]:
    """The panel and the agreement of its judges."""
    fields = asdict(report)
    return {"panel": fields.pop("rule"), **fields}


def repeats(answers: int, judgments: int, variances: Iterable[ModelVariance]) -> dict[str, Any]:
    """Answers per question, judgments per criterion, and the components of the variance."""
    return {
        "answers": answers,
        "judgments": judgments,
        "models": [
            {
                "endpoint": model.endpoint,
                "samples": model.components.samples,
                "sample": model.components.sample,
                "answer": model.components.answer,
                "judge": model.components.judge,
                "clipped": list(model.components.clipped),
            }
            for model in variances
        ],
    }


def preference(result: SelfPreference, tested: Iterable[Member], judged: Counts) -> dict[str, Any]:
    """Endpoints of a tested model's family, and how much judges favour their own family.

    `judged`: (failed, judged) of each model.
    """
    rates = rates_by_family(tested, judged) if result.kin else {}
    return {
        "kin": [asdict(kin) for kin in result.kin],
        "rates": [
            {"family": family, "failed": failed, "judged": n, "rate": failed / n}
            for family, (failed, n) in sorted(rates.items())
        ],
        "preferences": [
            {**asdict(preference), "difference": preference.difference} for preference in result.preferences
        ],
    }


def validation(report: ValidationReport) -> dict[str, Any]:
    """The judge against physicians."""
    return {
        "rate": report.rate.name,
        "drawn": report.drawn,
        "closed": report.closed,
        "third": report.third,
        "complete": report.complete,
        "not_drawn": list(report.not_drawn),
        "seed": report.seed,
        "created_at": report.created_at.isoformat(),
        "simulated_physicians": report.simulated,
        **({"notice": SIMULATED_NOTICE} if report.simulated else {}),
        "models": [_model(model) for model in report.models],
        "labels": [asdict(label) for label in report.labels],
        "comparisons": [asdict(comparison) for comparison in report.comparisons],
    }


def _model(model: ModelValidation) -> dict[str, Any]:
    return {
        "endpoint": model.endpoint,
        "judge": _quality(model.judge),
        "physicians": _quality(model.physicians),
        "raw": _rate(model.raw),
        "corrected": asdict(model.corrected),
        "datasets": [
            {"dataset": rate.dataset, "label": rate.label, "raw": _rate(rate.raw), "corrected": asdict(rate.corrected)}
            for rate in model.datasets
        ],
    }


def _quality(quality: JudgeQuality) -> dict[str, Any]:
    return {
        "n": quality.n,
        "clusters": quality.clusters,
        "sensitivity": _rate(quality.sensitivity),
        "specificity": _rate(quality.specificity),
        **{name: asdict(getattr(quality, name)) for name in ("kappa", "ac1", "balanced_f1")},
    }


def _rate(interval: RateInterval) -> dict[str, Any]:
    return {"value": interval.value, "low": interval.low, "high": interval.high, "method": str(interval.method)}
