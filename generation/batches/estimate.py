"""The estimate of a batch."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from generation import errors
from generation.batches import queries
from generation.batches.launch import BatchSettings, check_apart, choose_records
from generation.jobs.estimate import Estimate, Usual, estimate_line, paces
from generation.models import Batch, Call, Draft, Endpoint, SourceRecord
from generation.recipes import registry, trap_plan
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import Term, TrapPlan
from generation.samples import queries as samples_queries
from generation.sources import queries as sources_queries

Where = tuple[str, str]  # a set of prompts, a kind of record


def estimate_batch(settings: BatchSettings) -> Estimate:
    """What a launch with these settings would ask: a batch, or a comparison of two.

    First versions alone: every version that physicians send back costs as much again. All records of a kind are taken to be
    asked what the first one of the kind is; what an optional role without an endpoint would be asked is left out. Raises what
    a launch would: RolesUnbound, UnknownRole, NothingToDo, SamePrompts, UnknownPrompts, UnknownPreset, WrongSetting,
    WrongPlan, WrongDraw, SharedModel.
    """
    benchmark, plan, checks = settings.benchmark, settings.plan, settings.checks
    recipe = registry.recipe(benchmark)
    values = registry.settings_of(benchmark, settings.preset, settings.changes)
    prompts = settings.prompt_sets
    if unknown := [name for name in prompts if name and name not in recipe.prompt_sets]:
        raise errors.UnknownPrompts(", ".join(unknown))
    chosen = choose_records(settings).records
    wanted = tuple(registry.check_names(benchmark) if checks is None else checks)
    counts = Counter(kind for _pk, kind in chosen)
    bound = queries.bind_roles(benchmark, settings.roles, counts)
    check_apart(benchmark, values, bound)
    terms = samples_queries.terms(benchmark)
    if plan is not None:
        _check_plan(plan, counts, terms)
    first = {kind: pk for pk, kind in reversed(chosen)}
    asked: Counter[tuple[str, str]] = Counter()
    where: dict[str, set[Where]] = {}  # by prompt
    rows = SourceRecord.objects.defer("private").in_bulk(list(first.values()))
    joined = sources_queries.partner_contents(list(rows.values()))
    for kind, count in counts.items():
        row = rows[first[kind]]
        record = sources_queries.record_value(row, joined[row.pk])
        for name in prompts:
            value = DraftValue(
                record=record,
                terms=terms,
                prompts=name,
                checks=wanted,
                settings=values,
            )
            for step in recipe.steps:
                if step.applies(value):
                    for question in step.asks(value):  # the same one may be put several times
                        asked[question] += count
                        where.setdefault(question[1], set()).add((name, kind))
    asked = Counter({question: n for question, n in asked.items() if question[0] in bound})
    history = _history(settings, values, bound, wanted)
    players = settings.players_in(bound)
    asks = [
        (role, endpoint, prompt, n * (1 if role == recipe.several else max(1, len(players))))
        for (role, prompt), n in asked.items()
        for endpoint in (players if role == recipe.several and players else (bound[role],))
    ]
    lines = [
        estimate_line(
            role,
            endpoint,
            prompt,
            requests,
            repeats=_together(asked, prompt) / sum(counts[kind] for _name, kind in where[prompt]),
            usual=history.of(prompt, where[prompt]),
        )
        for role, endpoint, prompt, requests in asks
    ]
    drafts = sum(counts.values()) * len(prompts) * max(1, len(players))
    shared = queries.shared_models(benchmark, bound)
    working = [*bound.values(), *(each for each in players if each not in bound.values())]
    return Estimate(tuple(lines), jobs=len(prompts), rows=drafts, paces=paces(working), one_model=shared)


def _together(asked: Mapping[tuple[str, str], int], prompt: str) -> int:
    """The questions under a prompt, of all roles."""
    return sum(n for (_role, name), n in asked.items() if name == prompt)


@dataclass(frozen=True, slots=True)
class History:
    """Drafts that were made under the same settings: how many with which prompts of which kind, and their calls by prompt."""

    drafts: Mapping[Where, int]
    calls: Mapping[str, int]

    def of(self, prompt: str, where: Iterable[Where]) -> Usual | None:
        """The calls of a prompt for one draft that may ask it; None where there were no such drafts."""
        rows = sum(self.drafts.get(place, 0) for place in where)
        return Usual(self.calls.get(prompt, 0) / rows, rows) if rows else None


LOOKED_AT = 50  # batches of the benchmark, the newest, that may have had the same settings
ENOUGH = 200  # drafts


def _history(
    settings: BatchSettings, values: Mapping[str, Any], bound: Mapping[str, Endpoint], checks: Sequence[str]
) -> History:
    """What the last finished batches asked that had this preset with these values, these roles and checks, or more.

    Loops of a recipe rarely run to their end: what it may ask is many times what it asks.
    """
    preset = registry.preset(settings.benchmark, settings.preset)
    there = Batch.objects.filter(
        benchmark=settings.benchmark,
        status=Batch.Status.FINISHED,
        preset=preset.name if preset else "",
        prompts__in=settings.prompt_sets,
    )
    drafts: Counter[Where] = Counter()
    calls: Counter[str] = Counter()
    for batch in there.prefetch_related("roles").order_by("-pk")[:LOOKED_AT]:
        roles = {role.role for role in batch.roles.all()}
        if batch.settings != values or not set(bound) <= roles or not set(checks) <= set(batch.checks):
            continue
        ended = Draft.objects.filter(batch=batch, parent=None).values_list("record__content__kind")
        drafts.update({(batch.prompts, kind): n for kind, n in ended.annotate(n=Count("pk")).order_by()})
        calls.update(dict(Call.objects.filter(job=batch.pk).values_list("prompt").annotate(n=Count("pk")).order_by()))
        if drafts.total() >= ENOUGH:
            break
    return History(drafts, calls)


def _check_plan(plan: TrapPlan, counts: Mapping[str, int], terms: Sequence[Term]) -> None:
    """Raises WrongPlan where the plan asks for nothing of these tasks, or for what there is not."""
    try:
        targets = [trap_plan.targets_for(plan, task, count, terms) for task, count in counts.items()]
    except trap_plan.PlanMistake as mistake:
        raise errors.WrongPlan(str(mistake)) from mistake
    if not any(targets):
        raise errors.WrongPlan(", ".join(plan.targets))
