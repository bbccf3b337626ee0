"""Queries on jobs of any kind."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import Count, Min, Q, QuerySet, Sum
from django.utils import timezone

from generation.jobs.fair_lanes import FairLanes, HeldLane, WaitingJob
from generation.models import LAUNCH_SETTINGS, Call, Endpoint, Job, Lane

J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """A model that a job calls.

    `settings`: its settings at launch, as far as they are set. `reported`: the model names in its
    responses, which reveal versions. `prompts`: the prompts it got.
    """

    endpoint: str
    model: str
    roles: tuple[str, ...]
    settings: Mapping[str, Any]
    reported: tuple[str, ...]
    prompts: tuple[str, ...]


def models_asked(
    job: Job, roles: Iterable[tuple[str, Endpoint]], launched: Mapping[str, Mapping[str, Any]]
) -> list[ModelAsked]:
    """The models of a job in the order of its `roles`, each endpoint once: one query.

    `launched`: endpoint -> its settings at launch (`LAUNCH_SETTINGS`).
    """
    by_endpoint: dict[Endpoint, list[str]] = {}
    for role, endpoint in roles:
        by_endpoint.setdefault(endpoint, []).append(role)
    answered = Call.objects.filter(job=job.pk, error="").order_by()
    calls_by_endpoint: dict[int, tuple[set[str], set[str]]] = {}
    for pk, model, prompt in answered.values_list("endpoint", "model", "prompt").distinct():
        names, prompts = calls_by_endpoint.setdefault(pk, (set(), set()))
        names.add(model)
        prompts.add(prompt)
    models = []
    for endpoint, names_of_roles in by_endpoint.items():
        reported, prompts = calls_by_endpoint.get(endpoint.pk, (set(), set()))
        values = launched.get(str(endpoint.pk), {})
        named = ((name, values.get(name)) for name in LAUNCH_SETTINGS)
        settings = {name: value for name, value in named if value is not False and value not in (None, "", {})}
        roles_of = tuple(dict.fromkeys(names_of_roles))
        named_prompts = tuple(sorted(prompts - {""}))
        models.append(
            ModelAsked(endpoint.name, endpoint.model, roles_of, settings, tuple(sorted(reported - {""})), named_prompts)
        )
    return models


def with_role_names(models: Iterable[ModelAsked], name: Callable[[str], str]) -> list[ModelAsked]:
    """The models with display names for their roles."""
    return [replace(model, roles=tuple(map(name, model.roles))) for model in models]


@dataclass(frozen=True, slots=True)
class StageCost:
    """The calls of a job to one endpoint with one prompt.

    `calls` are HTTP attempts, `hits` replies that had already been paid for.
    """

    prompt: str
    endpoint: str
    model: str
    calls: int
    hits: int
    failed: int
    tokens_in: int
    tokens_out: int
    cost: Decimal


def stage_costs(job: Job) -> list[StageCost]:
    """The calls of a job by prompt and endpoint, in the order of the first call: one query."""
    paid = Q(hit_of__isnull=True)
    rows = (
        Call.objects.filter(job=job.pk)
        .order_by()
        .values_list("prompt", "endpoint__name", "endpoint__model")
        .annotate(
            attempts=Count("pk", filter=paid),
            reused=Count("pk", filter=~paid),
            broken=Count("pk", filter=~Q(error="")),
            sum_in=Sum("tokens_in", filter=paid, default=0),
            sum_out=Sum("tokens_out", filter=paid, default=0),
            sum_cost=Sum("cost", default=Decimal(0)),
            first=Min("pk"),
        )
    )
    return [StageCost(*row[:-1]) for row in sorted(rows, key=lambda row: row[-1])]


def most_lanes(job: Job) -> int:
    """How many lanes a job may have at the same time."""
    return job.most_lanes or int(settings.MHB_LANES)


def fair_lanes(jobs: Iterable[Job]) -> FairLanes:
    """The given jobs, which have rows to take, beside all live lanes: one query."""
    now = timezone.now()
    waiting = [WaitingJob(job.pk, job.rank, most_lanes(job), job.waits_since) for job in jobs]
    live = Lane.objects.filter(until__gt=now).select_related("job").order_by("pk")
    held = [HeldLane(lane.pk, lane.job_id, lane.job.rank, lane.worker, lane.started_at) for lane in live]
    return FairLanes(waiting, held, now)


def failed_calls(job: Job, error: str = "") -> QuerySet[Call]:
    """Failed calls of a job (with one error class), newest first, without the requests."""
    calls = Call.objects.filter(~Q(error=""), job=job.pk).select_related("endpoint").defer("request").order_by("-pk")
    if error:
        return calls.filter(error=error)
    return calls


def endpoints_behind_pause(job: Job, endpoints: QuerySet[Endpoint]) -> list[Endpoint]:
    """The endpoints of a job because of which it paused automatically: one query."""
    if job.paused_because == "EndpointDown":
        return list(endpoints.filter(state__down_since__isnull=False).distinct())
    if job.paused_because in ("KeyMissing", "NotAllowed"):
        detail = job.paused_detail
        named = []
        for endpoint in endpoints.distinct():
            key, host = endpoint.key_env, urlsplit(endpoint.url).hostname
            if (key and key in detail) or (host and f"Host: {host}" in detail):
                named.append(endpoint)
        return named
    return []
