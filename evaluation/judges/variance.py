"""The variance of a run, split into samples, answers and judges."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet

from evaluation import registry
from evaluation.models import Judgment, Run, Vote
from evaluation.statistics.repeats import VarianceComponents, variance_components
from generation.models.work import Work


@dataclass(frozen=True, slots=True)
class ModelVariance:
    """For one model, the variance of the share of an answer's criteria that failed."""

    endpoint: str
    components: VarianceComponents


def variances(run: Run) -> tuple[ModelVariance, ...]:
    """The split for each model; empty unless the run has repeated answers or a panel."""
    if run.answers_each == 1 and not run.panel:
        return ()
    protocol = registry.protocol(run.release.benchmark)
    counted = {"run": run, "status": Work.Status.DONE, "verdict__in": protocol.rates[0].scope_verdicts}
    rows: QuerySet[Any]
    judge_columns: tuple[str, ...]
    if run.panel:
        rows, response, judge_columns = Vote.objects.filter(**counted), "judgment__response", ("judge", "repeat")
    else:
        rows, response, judge_columns = Judgment.objects.filter(**counted), "response", ()
    keys = [f"{response}__{name}" for name in ("endpoint__name", "sample", "variant")]
    judged = rows.order_by().values_list(*judge_columns, *keys, response)
    judged = judged.annotate(n=Count("pk"), failed=Count("pk", filter=Q(verdict__in=protocol.failing_verdicts)))
    # model -> question, answer, share of criteria that failed
    shares: dict[str, list[tuple[str, int, float]]] = defaultdict(list)
    for *_judge, model, sample, variant, answer, n, failed in judged:
        shares[model].append((f"{sample}/{variant}", answer, failed / n))
    order = run.tested.order_by("pk").values_list("endpoint__name", flat=True)
    return tuple(
        ModelVariance(name, variance_components(*zip(*shares[name], strict=True))) for name in order if shares[name]
    )
