"""Launches batches and comparisons."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from django.utils import timezone

from generation import errors
from generation.batches import queries
from generation.common.chunks import chunked
from generation.jobs import life_cycle
from generation.models import Batch, BatchRole, Comparison, Draft, Endpoint, Source
from generation.recipes import registry, trap_plan
from generation.recipes.recipe import TrapPlan
from generation.samples import queries as samples_queries
from review.models import User


@dataclass(frozen=True, slots=True)
class Setting:
    """How a batch is to be made, besides its models.

    `plan`: which traps are wanted how often. `prompts`: the set of prompt files. `preset`: the recipe's, "" for the usual one;
    `changes`: values of it that are to be others (`benchmarks.settings_of`).
    `checks`: None stands for all there are.
    `budget_money`, `budget_calls`: what its calls may cost, and how many there may be; None: no limit. `fresh`: ask anew what
    has been paid for already.
    """

    plan: TrapPlan | None = None
    prompts: str = ""
    preset: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    checks: Sequence[str] | None = None
    budget_money: Decimal | None = None
    budget_calls: int | None = None
    fresh: bool = False


def launch_batch(
    *,
    benchmark: str,
    source: Source,
    roles: Mapping[str, Endpoint],
    limit: int | None = None,
    setting: Setting = Setting(),
    actor: User | None = None,
    key: str = "",
) -> Batch:
    """Queue a draft for up to `limit` records that have no draft of this benchmark yet, oldest first.

    `key`: what the same person launched under it before is returned, and nothing launched.

    Raises:
        KeyReused: something else was launched under this key.
        RolesUnbound: a role that these records need has no endpoint. NothingToDo: no record is left that the recipe takes.
        UnknownRole, WrongPlan, UnknownPrompts, UnknownPreset, WrongSetting, UnknownCheck: what was chosen does not fit the
        recipe.
    """

    def make() -> Batch:
        chosen = _choose_records(benchmark, source, limit)
        batch = _new_batch(benchmark, source, queries.bound(benchmark, roles, _kinds(chosen)), setting, actor)
        _queue_drafts(batch, chosen, setting.plan)
        return batch

    asked = {"benchmark": benchmark, "source": source, "roles": roles, "limit": limit, "setting": setting}
    return life_cycle.once(Batch, key, make, actor=actor, asked=asked)


def launch_comparison(
    *,
    benchmark: str,
    source: Source,
    roles: Mapping[str, Endpoint],
    prompts: tuple[str, str],
    limit: int | None = None,
    setting: Setting = Setting(),
    actor: User | None = None,
    key: str = "",
) -> Comparison:
    """Queue two batches over the same records with the same plan, each with its own set of prompts.

    `key`: as with `launch_batch`. Raises SamePrompts, and what `launch_batch` raises.
    """
    if len({registry.prompts_of(benchmark, name, setting.preset) for name in prompts}) == 1:
        raise errors.SamePrompts

    def make() -> Batch:
        chosen = _choose_records(benchmark, source, limit)
        bound = queries.bound(benchmark, roles, _kinds(chosen))
        comparison = Comparison.objects.create(
            benchmark=benchmark, source=source, created_by=actor, created_at=timezone.now()
        )
        made = []
        for arm, name in zip("AB", prompts, strict=True):
            batch = _new_batch(benchmark, source, bound, replace(setting, prompts=name), actor, comparison, arm)
            _queue_drafts(batch, chosen, setting.plan)
            made.append(batch)
        return made[0]

    asked = {
        "benchmark": benchmark,
        "source": source,
        "roles": roles,
        "limit": limit,
        "setting": setting,
        "prompts": prompts,
    }
    return Comparison.objects.get(
        batches=life_cycle.once(Batch, key, make, actor=actor, asked=asked, what="comparison")
    )


def _choose_records(benchmark: str, source: Source, limit: int | None) -> list[tuple[int, str]]:
    """The records of a launch with their kinds. Two launches at once would use a record twice: the source is locked."""
    recipe = registry.recipe(benchmark)
    if limit is not None and limit < 1:
        raise errors.NothingToDo
    Source.objects.select_for_update(no_key=True).get(pk=source.pk)
    records = queries.records_without_draft(source, benchmark, recipe.kinds)
    chosen = list(records.values_list("pk", "content__kind")[:limit])
    if not chosen:
        raise errors.NothingToDo
    return chosen


def _kinds(chosen: Sequence[tuple[int, str]]) -> set[str]:
    return {kind for _pk, kind in chosen}


def _new_batch(
    benchmark: str,
    source: Source,
    roles: Mapping[str, Endpoint],
    setting: Setting,
    actor: User | None,
    comparison: Comparison | None = None,
    arm: str = "",
) -> Batch:
    recipe = registry.recipe(benchmark)
    if setting.prompts and setting.prompts not in recipe.prompt_sets:
        raise errors.UnknownPrompts(f"{setting.prompts!r}; known: {', '.join(recipe.prompt_sets) or '-'}")
    preset = registry.preset(benchmark, setting.preset)
    settings = registry.settings_of(benchmark, setting.preset, setting.changes)
    known = registry.check_names(benchmark)
    wanted = known if setting.checks is None else setting.checks
    if unknown := [name for name in wanted if name not in known]:
        raise errors.UnknownCheck(f"{', '.join(unknown)}; known: {', '.join(known) or '-'}")
    batch = Batch.objects.create(
        benchmark=benchmark,
        source=source,
        checks=[name for name in known if name in wanted],
        prompts=registry.prompts_of(benchmark, setting.prompts, setting.preset),
        preset=preset.name if preset else "",
        settings=settings,
        changed=[name for name in settings if preset and settings[name] != preset.values[name]],
        budget_money=setting.budget_money,
        budget_calls=setting.budget_calls,
        fresh=setting.fresh,
        comparison=comparison,
        arm=arm,
        created_by=actor,
        created_at=timezone.now(),
    )
    BatchRole.objects.bulk_create(
        BatchRole(batch=batch, role=name, endpoint=endpoint) for name, endpoint in roles.items()
    )
    return batch


def _queue_drafts(batch: Batch, records: Sequence[tuple[int, str]], plan: TrapPlan | None) -> None:
    hands = _deal(batch, records, plan)
    drafts = (
        Draft(batch=batch, record_id=pk, preferred=hand) for (pk, _kind), hand in zip(records, hands, strict=True)
    )
    for chunk in chunked(drafts):
        Draft.objects.bulk_create(chunk)


def _deal(batch: Batch, records: Sequence[tuple[int, str]], plan: TrapPlan | None) -> list[list[str]]:
    """What each record is asked for; the plan, scaled to the batch, is kept with it.

    The seed is of the plan and its records: the same launch anywhere gives the same prompts, and so does a batch beside it.
    """
    hands: list[list[str]] = [[] for _ in records]
    if plan is None:
        return hands
    terms = samples_queries.terms(batch.benchmark)
    kept: dict[str, Any] = {"name": plan.name, "targets": {}, "clusters": {}}
    try:
        for task in dict.fromkeys(kind for _pk, kind in records):
            places = [at for at, (_pk, kind) in enumerate(records) if kind == task]
            targets = trap_plan.targets_for(plan, task, len(places), terms)
            seed = json.dumps([batch.benchmark, batch.source.name, task, targets])
            dealt = trap_plan.deal(targets, len(places), terms, seed=seed)
            for at, hand in zip(places, dealt, strict=True):
                hands[at] = list(hand)
            if targets:
                kept["targets"][task] = targets
                kept["clusters"][task] = trap_plan.clusters_of(dealt, terms)
    except trap_plan.PlanMistake as mistake:
        raise errors.WrongPlan(str(mistake)) from mistake
    if not kept["targets"]:
        raise errors.WrongPlan(", ".join(plan.targets))
    batch.plan = kept
    batch.save(update_fields=["plan"])
    return hands
