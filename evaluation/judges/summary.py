"""The part of a report on its judges, as JSON: agreement, variance, self-preference, validation."""

from typing import Any

from evaluation import registry
from evaluation.judges.agreement import panel_report
from evaluation.judges.families import judged_counts, self_preference, tested_members
from evaluation.judges.numbers import values
from evaluation.judges.numbers.families import Counts
from evaluation.judges.numbers.values import SIMULATED_NOTICE as SIMULATED_NOTICE
from evaluation.judges.numbers.variance import ModelVariance, variances
from evaluation.judges.queries import validation_report
from evaluation.models import Run
from evaluation.runs.queries import endpoints_of
from evaluation.runs.rows.result_cache import cached, key_of
from evaluation.runs.rows.verdicts import RunVerdicts
from evaluation.runs.selecting_models import selecting_models


def as_dict(run: Run, judged: Counts | None = None) -> dict[str, Any]:
    """The keys of a report that concern its judges and the selection of samples.

    `judges` is None without a panel, `validation` until it has started.
    `judged`: (failed, judged) of each model, if these counts are known already.
    """
    names = sorted(endpoints_of(run).values_list("name", flat=True)) if run.panel or run.answers_each > 1 else []
    verdicts = RunVerdicts(run)
    return {
        "judges": cached(key_of(run, "judges", names) if run.panel else "", lambda: judges(verdicts)),
        "repeats": cached(key_of(run, "repeats", names) if names else "", lambda: repeats(verdicts)),
        "self_preference": preference(verdicts, judged),
        "selection": list(selecting_models(run)),
        "validation": validation(run),
    }


def judges(verdicts: RunVerdicts) -> dict[str, Any] | None:
    """The panel and the agreement of its judges; None if one judge decided once."""
    report = panel_report(verdicts)
    return None if report is None else values.panel(report)


def repeats(verdicts: RunVerdicts) -> dict[str, Any]:
    """Answers per question, judgments per criterion, and the components of the variance.

    Without components unless the run has repeated answers or a panel.
    """
    run, protocol = verdicts.run, registry.protocol(verdicts.run.release.benchmark)
    models: tuple[ModelVariance, ...] = ()
    if run.answers_each > 1 or run.panel:
        models = variances(verdicts.table, protocol, verdicts.votes if run.panel else None)
    return values.repeats(run.answers_each, run.judgments_each, models)


def preference(verdicts: RunVerdicts, judged: Counts | None = None) -> dict[str, Any]:
    """Endpoints of a tested model's family, and how much judges favour their own family.

    `judged`: (failed, judged) of each model, if these counts are known already.
    """
    result = self_preference(verdicts)
    counts = (judged or judged_counts(verdicts)) if result.kin else {}
    return values.preference(result, tested_members(verdicts.run), counts)


def validation(run: Run) -> dict[str, Any] | None:
    """The judge against physicians; None if there is no validation."""
    report = validation_report(run)
    return None if report is None else values.validation(report)
