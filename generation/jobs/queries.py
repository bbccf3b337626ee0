"""Queries on jobs of any kind."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import Count, Min, Q, QuerySet, Sum
from django.utils import timezone

from generation.models import FROZEN, Call, Endpoint, Job, Lane

J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """A model that a job asks. settings: as they were at the launch, those that are set; reported: the names under which the
    server answered, which tell versions apart; prompts: what it was asked with."""

    endpoint: str
    model: str
    roles: tuple[str, ...]
    settings: Mapping[str, Any]
    reported: tuple[str, ...]
    prompts: tuple[str, ...]


def models_asked(
    job: Job, roles: Iterable[tuple[str, Endpoint]], launched: Mapping[str, Mapping[str, Any]]
) -> list[ModelAsked]:
    """The models of a job in the order of its `roles`, each endpoint once: one query. `launched`: by endpoint, see `FROZEN`."""
    by_endpoint: dict[Endpoint, list[str]] = {}
    for role, endpoint in roles:
        by_endpoint.setdefault(endpoint, []).append(role)
    answered = Call.objects.filter(job=job.pk, error="").order_by()
    said: dict[int, tuple[set[str], set[str]]] = {}
    for pk, model, prompt in answered.values_list("endpoint", "model", "prompt").distinct():
        names, prompts = said.setdefault(pk, (set(), set()))
        names.add(model)
        prompts.add(prompt)
    found = []
    for endpoint, names_of_roles in by_endpoint.items():
        reported, prompts = said.get(endpoint.pk, (set(), set()))
        kept = launched.get(str(endpoint.pk), {})
        settings = {name: kept[name] for name in FROZEN if kept.get(name) not in (None, "", {})}
        roles_of = tuple(dict.fromkeys(names_of_roles))
        asked = tuple(sorted(prompts - {""}))
        found.append(
            ModelAsked(endpoint.name, endpoint.model, roles_of, settings, tuple(sorted(reported - {""})), asked)
        )
    return found


def with_role_names(models: Iterable[ModelAsked], name: Callable[[str], str]) -> list[ModelAsked]:
    """The same with their roles as readers call them."""
    return [replace(each, roles=tuple(map(name, each.roles))) for each in models]


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a job asked of one endpoint with one prompt. `calls` are HTTP attempts, `hits` replies that had been paid for."""

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
    """The calls of a job by prompt and endpoint, in the order in which they were first made: one query."""
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


def lanes_wanted(job: Job) -> int:
    """How many more lanes a job may have, beside those that live."""
    living = Lane.objects.filter(job=job.pk, until__gt=timezone.now()).count()
    return max(0, int(settings.MHB_LANES) - living)


def due(waiting: QuerySet[J]) -> list[int]:
    """Those of the `waiting` jobs that need a worker, each once for every further lane it may have."""
    now = timezone.now()
    running = waiting.filter(Q(rests_until__isnull=True) | Q(rests_until__lte=now), status=Job.Status.RUNNING)
    return [job.pk for job in running for _ in range(lanes_wanted(job))]


def failed_calls(job: Job, error: str = "") -> QuerySet[Call]:
    """Failed calls of a job (with one error class), newest first, without the requests."""
    found = Call.objects.filter(~Q(error=""), job=job.pk).select_related("endpoint").defer("sent").order_by("-pk")
    return found.filter(error=error) if error else found


def behind_the_pause(job: Job, endpoints: QuerySet[Endpoint]) -> list[Endpoint]:
    """Those of its `endpoints` that made a job pause automatically. One query; none if it did not pause so."""
    if job.paused_because == "EndpointDown":
        return list(endpoints.filter(state__down_since__isnull=False).distinct())
    if job.paused_because in ("KeyMissing", "NotAllowed"):
        named = [(one, one.key_env, urlsplit(one.url).hostname) for one in endpoints.distinct()]
        told = job.paused_detail
        return [one for one, key, host in named if (key and key in told) or (host and f"Host: {host}" in told)]
    return []
