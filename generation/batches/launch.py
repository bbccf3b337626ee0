"""Launches batches and comparisons."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from django.db.models import Count, QuerySet
from django.utils import timezone

from generation import errors
from generation.batches import queries
from generation.batches.draw import STRATIFIED, UNKNOWN, Draw, Drawn, draw_records
from generation.common.chunks import chunked
from generation.jobs import life_cycle
from generation.models import Batch, BatchRole, Comparison, Draft, Endpoint, Source, SourceRecord
from generation.recipes import registry, trap_plan
from generation.recipes.recipe import TrapPlan
from generation.samples import queries as samples_queries
from review.common import bulk_rows
from review.models import User


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """What a batch, or a comparison of two, is to be: what is estimated and launched.

    `roles`: the endpoint of each; `beside`: further endpoints of the role that several may play. `limit`: at most so many
    records, drawn as `draw` says. `plan`: which traps are wanted how often. `prompts`: the set of prompt files;
    `compare`: that of a second batch over the same records, None where nothing is compared.
    `preset`: the recipe's, "" for the usual one; `changes`: overridden values of it (`registry.settings_of`).
    `checks`: None stands for all there are.
    `budget_money`, `budget_calls`: what a batch's calls may cost, and how many there may be; None: no limit. `fresh`: ask anew
    what has been paid for already.
    """

    benchmark: str
    source: Source
    roles: Mapping[str, Endpoint]
    beside: Sequence[Endpoint] = ()
    limit: int | None = None
    draw: Draw = field(default_factory=Draw)
    plan: TrapPlan | None = None
    prompts: str = ""
    compare: str | None = None
    preset: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    checks: Sequence[str] | None = None
    budget_money: Decimal | None = None
    budget_calls: int | None = None
    fresh: bool = False

    def players_in(self, bound: Mapping[str, Endpoint]) -> tuple[Endpoint, ...]:
        """The endpoints of the role that several may play, each once; none where these records do without it.

        Raises UnknownRole where endpoints are given for it and the recipe has no such role.
        """
        role = registry.recipe(self.benchmark).several
        first = self.roles.get(role)
        if self.beside and first is None:
            raise errors.UnknownRole(", ".join(endpoint.name for endpoint in self.beside))
        if first is None or role not in bound:
            return ()
        return tuple({endpoint.pk: endpoint for endpoint in (first, *self.beside)}.values())

    @property
    def prompt_sets(self) -> tuple[str, ...]:
        """The set of prompts of each batch, by its full name. Raises SamePrompts where two are the same."""
        names = (self.prompts,) if self.compare is None else (self.prompts, self.compare)
        sets = tuple(registry.prompts_of(self.benchmark, name, self.preset) for name in names)
        if len(set(sets)) < len(sets):
            raise errors.SamePrompts
        return sets


def launch_batch(settings: BatchSettings, *, actor: User | None = None, key: str = "") -> Batch:
    """Queue a draft for up to `limit` records that have no draft of this benchmark yet, as they are drawn.

    `key`: what the same person launched under it before is returned, and nothing launched.

    Raises:
        KeyReused: something else was launched under this key.
        RolesUnbound: a role that these records need has no endpoint. NothingToDo: no record is left that the recipe takes.
        UnknownRole, WrongPlan, UnknownPrompts, UnknownPreset, WrongSetting, UnknownCheck: what was chosen does not fit the
        recipe. WrongDraw: nor do the records. SharedModel: one model plays roles that the recipe wants apart.
    """

    def make() -> Batch:
        drawn = _lock_records(settings)
        bound = queries.bind_roles(settings.benchmark, settings.roles, _kinds(drawn.records))
        batch = _new_batch(settings, bound, actor, drawn)
        _queue_drafts(batch, drawn.records, settings.plan, settings.players_in(bound))
        return batch

    return life_cycle.launch_once(Batch, key, make, actor=actor, asked=settings)


def launch_comparison(settings: BatchSettings, *, actor: User | None = None, key: str = "") -> Comparison:
    """Queue two batches over the same records with the same plan, with the prompts `prompts` and `compare`.

    `key`: as with `launch_batch`. Raises SamePrompts, and what `launch_batch` raises.
    """
    if len(settings.prompt_sets) < 2:
        raise errors.SamePrompts

    def make() -> Batch:
        drawn = _lock_records(settings)
        bound = queries.bind_roles(settings.benchmark, settings.roles, _kinds(drawn.records))
        comparison = Comparison.objects.create(
            benchmark=settings.benchmark, source=settings.source, created_by=actor, created_at=timezone.now()
        )
        made = []
        for arm, name in zip("AB", (settings.prompts, settings.compare or ""), strict=True):
            batch = _new_batch(replace(settings, prompts=name), bound, actor, drawn, comparison, arm)
            _queue_drafts(batch, drawn.records, settings.plan, settings.players_in(bound))
            made.append(batch)
        return made[0]

    first = life_cycle.launch_once(Batch, key, make, actor=actor, asked=settings, what="comparison")
    return Comparison.objects.get(batches=first)


def choose_records(settings: BatchSettings) -> Drawn:
    """The records of a launch with their kinds. Raises NothingToDo, WrongDraw."""
    recipe = registry.recipe(settings.benchmark)
    if settings.limit is not None and settings.limit < 1:
        raise errors.NothingToDo
    records = queries.records_without_draft(settings.source, settings.benchmark, recipe.kinds)
    if recipe.splits is not None:
        values = registry.settings_of(settings.benchmark, settings.preset, settings.changes)
        _check_splits(records, recipe.splits(values), settings.draw)
    return draw_records(records, settings.source, settings.draw, settings.limit)


def _check_splits(records: QuerySet[SourceRecord], allowed: Mapping[str, tuple[str, ...]], draw: Draw) -> None:
    """Raises WrongDraw where records that the filter lets through may be of a split that these settings do not take."""
    wanted = draw.where.get("split")
    for kind, splits in allowed.items():
        if wanted is not None and set(wanted) <= set(splits):
            continue
        rows = records.filter(content__kind=kind).exclude(content__split__in=splits).order_by()
        counts = dict(rows.values_list("content__split").annotate(n=Count("pk")))
        found = {name or UNKNOWN: n for name, n in counts.items() if wanted is None or (name or UNKNOWN) in wanted}
        if found:
            said = ", ".join(f"{name} ({n})" for name, n in sorted(found.items()))
            raise errors.WrongDraw(
                f"these settings take records of {', '.join(splits)} only, and there are others: {said}. Draw where"
                f" split={splits[0]}, or change the setting"
            )


def _lock_records(settings: BatchSettings) -> Drawn:
    """The records of a launch. Two launches at once would use a record twice: the source is locked."""
    Source.objects.select_for_update(no_key=True).get(pk=settings.source.pk)
    return choose_records(settings)


def _kinds(chosen: Sequence[tuple[int, str]]) -> set[str]:
    return {kind for _pk, kind in chosen}


def _new_batch(
    setting: BatchSettings,
    roles: Mapping[str, Endpoint],
    actor: User | None,
    drawn: Drawn,
    comparison: Comparison | None = None,
    arm: str = "",
) -> Batch:
    benchmark, recipe = setting.benchmark, registry.recipe(setting.benchmark)
    if setting.prompts and setting.prompts not in recipe.prompt_sets:
        raise errors.UnknownPrompts(f"{setting.prompts!r}; known: {', '.join(recipe.prompt_sets) or '-'}")
    preset = registry.preset(benchmark, setting.preset)
    settings = registry.settings_of(benchmark, setting.preset, setting.changes)
    check_apart(benchmark, settings, roles)
    known = registry.check_names(benchmark)
    wanted = known if setting.checks is None else setting.checks
    if unknown := [name for name in wanted if name not in known]:
        raise errors.UnknownCheck(f"{', '.join(unknown)}; known: {', '.join(known) or '-'}")
    batch = Batch.objects.create(
        benchmark=benchmark,
        source=setting.source,
        checks=[name for name in known if name in wanted],
        prompts=registry.prompts_of(benchmark, setting.prompts, setting.preset),
        preset=preset.name if preset else "",
        settings=settings,
        changed=[name for name in settings if preset and settings[name] != preset.values[name]],
        endpoint_settings={str(each.pk): each.frozen for each in (*roles.values(), *setting.players_in(roles))},
        draw=drawn.kept,
        budget_money=setting.budget_money,
        budget_calls=setting.budget_calls,
        fresh=setting.fresh,
        comparison=comparison,
        arm=arm,
        created_by=actor,
        created_at=timezone.now(),
    )
    BatchRole.objects.bulk_create(
        BatchRole(batch=batch, role=name, endpoint=each)
        for name, endpoint in roles.items()
        for each in (setting.players_in(roles) if name == recipe.several else (endpoint,))
    )
    return batch


def check_apart(benchmark: str, settings: Mapping[str, Any], roles: Mapping[str, Endpoint]) -> None:
    """Raises SharedModel where one model plays roles that the recipe wants apart, and no setting allows it."""
    allowed = registry.recipe(benchmark).may_share
    if not allowed or settings.get(allowed):
        return
    if shared := queries.shared_models(benchmark, roles):
        said = "; ".join(f"{role} and {other}: {model}" for role, other, model in shared)
        raise errors.SharedModel(f"{said} ({allowed})")


def _queue_drafts(
    batch: Batch, records: Sequence[tuple[int, str]], plan: TrapPlan | None, players: Sequence[Endpoint]
) -> None:
    hands = _deal(batch, records, plan)
    drafts = (
        Draft(batch=batch, record_id=pk, preferred=hand, endpoint=player)
        for (pk, _kind), hand in zip(records, hands, strict=True)
        for player in (players or (None,))
    )
    for chunk in chunked(drafts):
        bulk_rows.store(chunk)


def _deal(batch: Batch, records: Sequence[tuple[int, str]], plan: TrapPlan | None) -> list[list[str]]:
    """What each record is asked for; the plan, scaled to the batch, is kept with it.

    The seed is of the plan and its records: the same launch anywhere gives the same prompts, and so does a batch beside it.
    """
    if plan is None:
        return [[]] * len(records)
    hands: list[list[str]] = [[] for _ in records]
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


def repeated(batch: Batch, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given for a launch, and the settings of a batch for what is not; see `JobKind.repeated`.

    Roles and overridden values are given one by one; the overrides of another preset are left out. Raises UnlikeBenchmark.
    """
    if given.get("benchmark", batch.benchmark) != batch.benchmark:
        raise errors.UnlikeBenchmark
    recipe = registry.recipe(batch.benchmark)
    usual = (
        registry.prompts_of(batch.benchmark, "", batch.preset) if not batch.preset or queries.preset_of(batch) else ""
    )
    played = {role: names.split(", ") for role, names in queries.endpoints_by_role(batch).items()}
    drawn, plan = batch.draw, batch.plan.get("name") or registry.NO_PLAN
    old: dict[str, Any] = {
        "benchmark": batch.benchmark,
        "source": batch.source.name,
        "roles": {role: names[0] for role, names in played.items()},
        "beside": played.get(recipe.several, [])[1:],
        "draw": f"{STRATIFIED}:{drawn['field']}" if drawn.get("mode") == STRATIFIED else drawn.get("mode", ""),
        "seed": drawn.get("seed") or 0,
        "where": drawn.get("where") or {},
        "plan": batch.plan["targets"] if plan == registry.OWN_PLAN else plan,
        "prompts": batch.prompts if batch.prompts in recipe.prompt_sets and batch.prompts != usual else "",
        "preset": batch.preset,
        "settings": {name: batch.settings[name] for name in batch.changed if name in batch.settings},
        "checks": [name for name in registry.check_names(batch.benchmark) if name in batch.checks],
    }
    if given.get("preset", batch.preset) != batch.preset:
        old |= {"settings": {}, "prompts": ""}
    several = {name: given[name] for name in ("roles", "settings") if isinstance(given.get(name), Mapping)}
    if recipe.several in several.get("roles", {}):
        old["beside"] = []
    return {**old, **given, **{name: {**old[name], **some} for name, some in several.items()}}


def last_settings(actor: User, benchmark: str) -> tuple[Batch | None, dict[str, Any]]:
    """The batch of this benchmark that a person launched last, and what a launch form would repeat of it."""
    last = Batch.objects.filter(benchmark=benchmark, created_by=actor).select_related("source").order_by("-pk").first()
    if last is None:
        return None, {}
    old, several = repeated(last, {}), registry.recipe(benchmark).several
    played = {role: [name, *old["beside"]] if role == several else name for role, name in old["roles"].items()}
    return last, {
        **{f"role-{role}": names for role, names in played.items()},
        **{name: old[name] for name in ("preset", "prompts")},
        "changes": old["settings"] or None,
        "plan": old["plan"] if isinstance(old["plan"], str) else registry.NO_PLAN,
        "skip": [name for name in registry.check_names(benchmark) if name not in last.checks],
    }
