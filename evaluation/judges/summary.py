"""The part of a report on its judges, as JSON: agreement, variance, self-preference, validation."""

from dataclasses import asdict
from typing import Any

from evaluation.judges.agreement import panel_report
from evaluation.judges.families import Counts, judged_counts, rates_by_family, self_preference
from evaluation.judges.queries import ModelValidation, validation_report
from evaluation.judges.variance import variances
from evaluation.models import Run
from evaluation.runs.queries import endpoints_of
from evaluation.runs.rows.result_cache import cached, key_of
from evaluation.runs.selection import selecting_models
from evaluation.statistics.intervals import RateInterval
from evaluation.statistics.validation import JudgeQuality

SIMULATED_NOTICE = "Simulated reviewers: not evidence."


def as_dict(run: Run, judged: Counts | None = None) -> dict[str, Any]:
    """The keys of a report that concern its judges and the selection of samples.

    `judges` is None without a panel, `validation` until it has started.
    `judged`: (failed, judged) of each model, if these counts are known already.
    """
    names = sorted(endpoints_of(run).values_list("name", flat=True)) if run.panel or run.answers_each > 1 else []
    return {
        "judges": cached(key_of(run, "judges", names) if run.panel else "", lambda: judges(run)),
        "repeats": cached(key_of(run, "repeats", names) if names else "", lambda: repeats(run)),
        "self_preference": preference(run, judged),
        "selection": list(selecting_models(run)),
        "validation": validation(run),
    }


def judges(run: Run) -> dict[str, Any] | None:
    """The panel and the agreement of its judges; None if one judge decided once."""
    panel = panel_report(run)
    if panel is None:
        return None
    fields = asdict(panel)
    return {"panel": fields.pop("rule"), **fields}


def repeats(run: Run) -> dict[str, Any]:
    """Answers per question, judgments per criterion, and the components of the variance."""
    return {
        "answers": run.answers_each,
        "judgments": run.judgments_each,
        "models": [
            {
                "endpoint": model.endpoint,
                "samples": model.components.samples,
                "sample": model.components.sample,
                "answer": model.components.answer,
                "judge": model.components.judge,
                "clipped": list(model.components.clipped),
            }
            for model in variances(run)
        ],
    }


def preference(run: Run, judged: Counts | None = None) -> dict[str, Any]:
    """Endpoints of a tested model's family, and how much judges favour their own family.

    `judged`: (failed, judged) of each model, if these counts are known already.
    """
    result = self_preference(run)
    rates = rates_by_family(run, judged or judged_counts(run)) if result.kin else {}
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


def validation(run: Run) -> dict[str, Any] | None:
    """The judge against physicians; None if there is no validation."""
    report = validation_report(run)
    if report is None:
        return None
    return {
        "rate": report.rate.name,
        "drawn": report.drawn,
        "closed": report.closed,
        "third": report.third,
        "complete": report.complete,
        "not_drawn": list(report.not_drawn),
        "seed": report.validation.seed,
        "created_at": report.validation.created_at.isoformat(),
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
