"""Where the spread of a run comes from: the samples, the model's answers, the judges."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet

from evaluation import registry
from evaluation.models import Judgment, Run, Vote
from evaluation.statistics.repeats import Components, variance_components
from generation.models.work import Work


@dataclass(frozen=True, slots=True)
class ModelVariance:
    """The variance of the share of an answer's criteria that failed, for one model."""

    endpoint: str
    components: Components


def variances(run: Run) -> tuple[ModelVariance, ...]:
    """The split for each model, where there are several answers or judgments; else nothing."""
    if run.answers_each == 1 and not run.panel:
        return ()
    protocol = registry.protocol(run.release.benchmark)
    counted = {"run": run, "status": Work.Status.DONE, "verdict__in": protocol.rates[0].scope_verdicts}
    rows: QuerySet[Any]
    by: tuple[str, ...]
    if run.panel:
        rows, response, by = Vote.objects.filter(**counted), "judgment__response", ("judge", "repeat")
    else:
        rows, response, by = Judgment.objects.filter(**counted), "response", ()
    keys = [f"{response}__{name}" for name in ("endpoint__name", "sample", "variant")]
    judged = rows.order_by().values_list(*by, *keys, response)
    judged = judged.annotate(n=Count("pk"), failed=Count("pk", filter=Q(verdict__in=protocol.failing_verdicts)))
    found: dict[str, list[tuple[str, int, float]]] = defaultdict(list)
    for *_judge, model, sample, variant, answer, n, failed in judged:
        found[model].append((f"{sample}/{variant}", answer, failed / n))
    order = run.tested.order_by("pk").values_list("endpoint__name", flat=True)
    return tuple(
        ModelVariance(name, variance_components(*zip(*found[name], strict=True))) for name in order if found[name]
    )
