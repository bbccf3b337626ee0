"""Launches batches and comparisons."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from django.db.models import Count, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_noop as _
from pydantic import Field

from generation import errors
from generation.batches import queries
from generation.batches.draw import MAX_SEED, STRATIFIED, UNKNOWN, Draw, DrawnRecords, draw_records, parse_draw
from generation.common.chunks import chunked
from generation.jobs import life_cycle
from generation.jobs.settings import RECORDS, AskedAs, LaunchSettings
from generation.models import Batch, BatchRole, Comparison, Draft, Endpoint, Source, SourceRecord
from generation.prompts import queries as prompts_queries
from generation.recipes import registry, trap_plan
from generation.recipes.recipe import TrapPlan
from generation.samples import queries as samples_queries
from review.models import User
from review.rules import limits
from review.rules.limits import MAX_ID

MAX_VALUE = 300  # characters of a value by which records are drawn


class BatchSettings(LaunchSettings):
    """The settings of a batch, or of a comparison of two, to estimate or launch.

    `where`: field -> values, see `Draw`. `compare`: None without a comparison. `changes`: see
    `registry.resolve_settings`. `checks`: None for all of them.
    """

    benchmark: str = Field(title=_("Benchmark"), max_length=64)
    source: Source = Field(title=_("Source"))
    roles: Annotated[Mapping[str, Endpoint], AskedAs(option="--role")] = Field(
        title="Endpoints", description="The endpoint of each role."
    )
    further_endpoints: Sequence[Endpoint] = Field(
        (),
        title="Further endpoints",
        description="Further endpoints for the role that several may play; each record gets one draft per endpoint.",
        max_length=limits.ENTRIES,
    )
    limit: Annotated[int | None, AskedAs(RECORDS)] = Field(
        None, title=_("Record limit"), description=_("Leave empty to use all remaining records."), ge=1, le=MAX_ID
    )
    draw: Annotated[str, AskedAs(RECORDS)] = Field(
        "", title=_("Selection"), description=_("first (default), random or stratified:FIELD."), max_length=200
    )
    seed: Annotated[int, AskedAs(RECORDS)] = Field(
        0, title=_("Seed"), description=_("The same seed draws the same records. Leave empty for 0."), ge=0, le=MAX_SEED
    )
    where: Annotated[Mapping[str, Sequence[Annotated[str, Field(max_length=MAX_VALUE)]]], AskedAs(RECORDS)] = Field(
        default_factory=dict,
        title=_("Only records with"),
        description='Draw only records with one of these values of each field: {"language": ["en"]}.',
    )
    again: Annotated[bool, AskedAs(RECORDS)] = Field(
        False,
        title=_("Discarded records"),
        description=_(
            "Also draw records of which every draft and sample so far was discarded. Ignores cached replies."
        ),
    )
    plan: Annotated[TrapPlan | None, AskedAs(RECORDS)] = Field(
        None, title=_("Trap plan"), description='A name, or targets such as {"A1": 30, "C": 20}.'
    )
    prompts: Annotated[str, AskedAs(offered=True)] = Field(
        "",
        title=_("Prompts"),
        description=_("A released prompt set, or one of your own: NAME or NAME@VERSION."),
        max_length=64,
    )
    compare: Annotated[str | None, AskedAs(offered=True)] = Field(
        None,
        title=_("Compare with"),
        description=_("Runs a second batch over the same records with different prompts."),
        max_length=64,
    )
    preset: Annotated[str, AskedAs(offered=True)] = Field(
        "",
        title=_("Preset"),
        description=_(
            "The recipe's settings. They are saved with the batch and also used for later versions of its samples."
        ),
        max_length=64,
    )
    changes: Annotated[Mapping[str, Any], AskedAs(option="--set")] = Field(
        default_factory=dict,
        title=_("Overrides"),
        description='Preset values to override: {"reviewers": "two"}.',
        serialization_alias="settings",
    )
    checks: Sequence[Annotated[str, Field(max_length=40)]] | None = Field(
        None, title="Checks", description="Leave empty for all of them.", max_length=limits.ENTRIES
    )
    one_model: bool = Field(
        False,
        title=_("One model in several roles"),
        description=_("Allows one model to check, examine or vote on its own work. The data card says so."),
    )

    @property
    def record_draw(self) -> Draw:
        """How records are drawn. Raises WrongDraw."""
        return parse_draw(self.draw, self.seed, self.where)

    def players_in(self, bound: Mapping[str, Endpoint]) -> tuple[Endpoint, ...]:
        """The distinct endpoints of the role that several may play; empty if no record needs it.

        Raises UnknownRole if endpoints are given for it but the recipe has no such role.
        """
        role = registry.recipe(self.benchmark).multiple_role
        first = self.roles.get(role)
        if self.further_endpoints and first is None:
            raise errors.UnknownRole(", ".join(endpoint.name for endpoint in self.further_endpoints))
        if first is None or role not in bound:
            return ()
        distinct = {endpoint.pk: endpoint for endpoint in (first, *self.further_endpoints)}
        return tuple(distinct.values())

    def endpoints_in(
        self, bound: Mapping[str, Endpoint], players: tuple[Endpoint, ...]
    ) -> dict[str, tuple[Endpoint, ...]]:
        """All endpoints of each role; `players`: of the role that several may play."""
        by_role: dict[str, tuple[Endpoint, ...]] = {name: (endpoint,) for name, endpoint in bound.items()}
        if players:
            by_role[registry.recipe(self.benchmark).multiple_role] = players
        return by_role

    @property
    def prompt_sets(self) -> tuple[str, ...]:
        """The full name of each batch's prompt set.

        Raises SamePrompts if two are the same, UnknownPrompts, UnknownPreset.
        """
        names = [self.prompts]
        if self.compare is not None:
            names.append(self.compare)
        sets = []
        for name in names:
            resolved = registry.resolve_prompt_set(self.benchmark, name, self.preset)
            sets.append(prompts_queries.full_name(self.benchmark, resolved))
        if len(set(sets)) < len(sets):
            raise errors.SamePrompts
        return tuple(sets)


def launch_batch(settings: BatchSettings, *, actor: User | None = None, key: str = "") -> Batch:
    """Queue drafts for up to `limit` records that have no draft of this benchmark yet.

    Records are taken in the order of the draw. `key`: if the same person already launched something
    under this key, that batch is returned and nothing is launched.

    Raises:
        KeyReused: something else was launched under this key.
        RolesUnbound: a role that these records need has no endpoint.
        NothingToDo: no record is left that the recipe takes.
        UnknownRole, WrongPlan, UnknownPrompts, UnknownPreset, WrongSetting, UnknownCheck: a choice
            does not fit the recipe. WrongDraw: it does not fit the records.
        SharedModel: one model plays roles that the recipe keeps apart.
    """

    def launch() -> Batch:
        return _new_batches(settings, actor)[0]

    batch = life_cycle.launch_once(Batch, key, launch, actor=actor, content=settings)
    life_cycle.wake_workers(batch.pk)
    return batch


def launch_comparison(settings: BatchSettings, *, actor: User | None = None, key: str = "") -> Comparison:
    """Queue two batches over the same records and plan, with the prompts `prompts` and `compare`.

    `key`: as in `launch_batch`. Raises SamePrompts, and what `launch_batch` raises.
    """
    if len(settings.prompt_sets) < 2:
        raise errors.SamePrompts

    def make() -> Batch:
        comparison = Comparison.objects.create(
            benchmark=settings.benchmark, source=settings.source, created_by=actor, created_at=timezone.now()
        )
        return _new_batches(settings, actor, comparison)[0]

    first = life_cycle.launch_once(Batch, key, make, actor=actor, content=settings, variant="comparison")
    comparison = Comparison.objects.get(batches=first)
    for arm in comparison.batches.order_by("arm"):
        life_cycle.wake_workers(arm.pk)
    return comparison


def choose_records(settings: BatchSettings) -> DrawnRecords:
    """Select the records of a launch, with their kinds.

    Raises Archived, NothingToDo, WrongDraw, NotCallable.
    """
    if settings.source.archived_at is not None:
        raise errors.Archived(settings.source.name)
    recipe = registry.recipe(settings.benchmark)
    asked = (*settings.roles.values(), *settings.further_endpoints)
    if not_callable := [endpoint.name for endpoint in asked if not endpoint.is_usable]:
        raise errors.NotCallable(", ".join(not_callable))
    draw = settings.record_draw
    records = queries.records_without_draft(settings.source, settings.benchmark, recipe.kinds, again=settings.again)
    if recipe.splits is not None:
        values = registry.resolve_settings(settings.benchmark, settings.preset, settings.changes)
        _check_splits(records, recipe.splits(values), draw)
    drawn = draw_records(records, settings.source, draw, settings.limit)
    if settings.again:
        return replace(drawn, summary={**drawn.summary, "again": True})
    return drawn


def _check_splits(records: QuerySet[SourceRecord], allowed: Mapping[str, tuple[str, ...]], draw: Draw) -> None:
    """Raise WrongDraw if a record passing the filter is of a split these settings do not take."""
    accepted = draw.where.get("split")
    for kind, splits in allowed.items():
        if accepted is not None and set(accepted) <= set(splits):
            continue
        rows = records.filter(content__kind=kind).exclude(content__split__in=splits).order_by()
        refused = {}
        for split, n in rows.values_list("content__split").annotate(n=Count("pk")):
            name = split or UNKNOWN
            if accepted is None or name in accepted:
                refused[name] = n
        if refused:
            listing = ", ".join(f"{name} ({n})" for name, n in sorted(refused.items()))
            raise errors.WrongDraw(
                f"these settings take records of {', '.join(splits)} only, and there are others: {listing}. Draw where"
                f" split={splits[0]}, or change the setting"
            )


def _new_batches(settings: BatchSettings, actor: User | None, comparison: Comparison | None = None) -> list[Batch]:
    """Store the batch of a launch, or both of a comparison, and queue its drafts."""
    Source.objects.select_for_update(no_key=True).get(pk=settings.source.pk)  # two launches at once share no record
    if settings.again:  # a cached reply would be discarded once more
        settings = settings.model_copy(update={"fresh": True})
    drawn = choose_records(settings)
    kinds = {kind for _pk, kind in drawn.records}
    roles = queries.bind_roles(settings.benchmark, settings.roles, kinds, settings.checks)
    players = settings.players_in(roles)
    endpoints = settings.endpoints_in(roles, players)
    check_independence(settings, endpoints)
    batches = []
    prompts_by_arm = {"": settings.prompts}
    if comparison is not None:
        prompts_by_arm = {"A": settings.prompts, "B": settings.compare or ""}
    for arm, name in prompts_by_arm.items():
        of_arm = settings.model_copy(update={"prompts": name})
        batch = _new_batch(of_arm, endpoints, actor, drawn.summary, comparison, arm)
        _queue_drafts(batch, drawn.records, settings.plan, players)
        batches.append(batch)
    return batches


def _new_batch(
    setting: BatchSettings,
    endpoints_by_role: Mapping[str, Sequence[Endpoint]],
    actor: User | None,
    draw: Mapping[str, Any],
    comparison: Comparison | None,
    arm: str,
) -> Batch:
    benchmark = setting.benchmark
    prompts = registry.resolve_prompt_set(benchmark, setting.prompts, setting.preset)
    prompt_set = prompts_queries.stored_set(benchmark, prompts)
    if prompt_set:
        prompts = str(prompt_set)
    settings = registry.resolve_settings(benchmark, setting.preset, setting.changes)
    preset_name, changed = "", []
    if preset := registry.preset(benchmark, setting.preset):
        preset_name = preset.name
        changed = [name for name, value in settings.items() if value != preset.values[name]]
    batch_roles = []
    endpoint_settings = {}
    for role, endpoints in endpoints_by_role.items():
        for endpoint in endpoints:
            batch_roles.append(BatchRole(role=role, endpoint=endpoint))
            endpoint_settings[str(endpoint.pk)] = endpoint.launch_settings
    known = registry.check_names(benchmark)
    checks = setting.checks
    if checks is None:
        checks = known
    if unknown := [name for name in checks if name not in known]:
        raise errors.UnknownCheck(f"{', '.join(unknown)}; known: {', '.join(known) or '-'}")
    batch = Batch.objects.create(
        benchmark=benchmark,
        source=setting.source,
        checks=[name for name in known if name in checks],
        prompts=prompts,
        prompt_set=prompt_set,
        preset=preset_name,
        settings=settings,
        changed=changed,
        endpoint_settings=endpoint_settings,
        draw=draw,
        **setting.of_job,
        comparison=comparison,
        arm=arm,
        created_by=actor,
        created_at=timezone.now(),
    )
    for batch_role in batch_roles:
        batch_role.batch = batch
    BatchRole.objects.bulk_create(batch_roles)
    return batch


def check_independence(settings: BatchSettings, endpoints: Mapping[str, Sequence[Endpoint]]) -> None:
    """Raise SharedModel if a model plays roles that the recipe keeps apart, unless allowed."""
    if settings.one_model:
        return
    shared = queries.shared_models(settings.benchmark, endpoints)
    if shared:
        raise errors.SharedModel("; ".join(f"{role} and {other}: {model}" for role, other, model in shared))


def _queue_drafts(
    batch: Batch, records: Sequence[tuple[int, str]], plan: TrapPlan | None, players: Sequence[Endpoint]
) -> None:
    preferences = _distribute_plan(batch, records, plan)

    def drafts() -> Iterator[Draft]:
        for (pk, _kind), preferred in zip(records, preferences, strict=True):
            for player in players or (None,):
                yield Draft(batch=batch, record_id=pk, preferred=preferred, endpoint=player)

    for chunk in chunked(drafts()):
        Draft.objects.bulk_create(chunk)


def _distribute_plan(batch: Batch, records: Sequence[tuple[int, str]], plan: TrapPlan | None) -> list[list[str]]:
    """Distribute the plan over the records and store it, scaled to the batch, with the batch.

    The seed is derived from the plan and its records. So the same launch gives the same prompts
    anywhere, and both batches of a comparison get the same wishes.
    """
    if plan is None:
        return [[]] * len(records)
    preferences: list[list[str]] = [[] for _ in records]
    terms = samples_queries.terms(batch.benchmark)
    stored_plan: dict[str, Any] = {"name": plan.name, "targets": {}, "clusters": {}}
    positions_by_task: dict[str, list[int]] = {}
    for position, (_pk, kind) in enumerate(records):
        positions_by_task.setdefault(kind, []).append(position)
    for task, positions in positions_by_task.items():
        targets = trap_plan.targets_for(plan, task, len(positions), terms)
        seed = json.dumps([batch.benchmark, batch.source.name, task, targets])
        distributed = trap_plan.distribute(targets, len(positions), terms, seed=seed)
        for position, preferred in zip(positions, distributed, strict=True):
            preferences[position] = list(preferred)
        if targets:
            stored_plan["targets"][task] = targets
            stored_plan["clusters"][task] = trap_plan.count_clusters(distributed, terms)
    if not stored_plan["targets"]:
        raise errors.WrongPlan(", ".join(plan.targets))
    batch.plan = stored_plan
    batch.save(update_fields=["plan"])
    return preferences


def repeat_settings(batch: Batch, given: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the given values of a launch with a batch's; see `JobKind.repeat_settings`.

    Roles and overrides are replaced one by one; another preset drops the batch's overrides. Raises
    JobOfOtherBenchmark.
    """
    if given.get("benchmark", batch.benchmark) != batch.benchmark:
        raise errors.JobOfOtherBenchmark
    recipe = registry.recipe(batch.benchmark)
    default_prompts = ""
    if not batch.preset or queries.preset_of(batch):
        default_prompts = registry.resolve_prompt_set(batch.benchmark, "", batch.preset)
    prompts = ""
    is_known = batch.prompt_set_id or batch.prompts in recipe.prompt_sets
    if is_known and batch.prompts != default_prompts:
        prompts = batch.prompts
    roles, further_endpoints = {}, []
    for role, endpoints in queries.players(batch).items():
        roles[role], *further = [endpoint.name for endpoint in endpoints]
        if role == recipe.multiple_role:
            further_endpoints = further
    plan = batch.plan.get("name") or registry.NO_PLAN
    if plan == registry.CUSTOM_PLAN:
        plan = batch.plan["targets"]
    mode = batch.draw.get("mode", "")
    if mode == STRATIFIED:
        mode = f"{STRATIFIED}:{batch.draw['field']}"
    overrides = {name: batch.settings[name] for name in batch.changed if name in batch.settings}
    checks = [name for name in registry.check_names(batch.benchmark) if name in batch.checks]
    previous: dict[str, Any] = {
        "benchmark": batch.benchmark,
        "source": batch.source.name,
        "roles": roles,
        "further_endpoints": further_endpoints,
        "draw": mode,
        "seed": batch.draw.get("seed") or 0,
        "where": batch.draw.get("where") or {},
        "again": bool(batch.draw.get("again")),
        "plan": plan,
        "prompts": prompts,
        "preset": batch.preset,
        "settings": overrides,
        "one_model": bool(queries.shared_roles(batch)),
        "checks": checks,
    }
    if given.get("preset", batch.preset) != batch.preset:
        previous |= {"settings": {}, "prompts": ""}
    merged = {}
    for name in ("roles", "settings"):
        if isinstance(given.get(name), Mapping):
            merged[name] = {**previous[name], **given[name]}
    given_roles = given.get("roles")
    if isinstance(given_roles, Mapping) and recipe.multiple_role in given_roles:
        previous["further_endpoints"] = []
    return {**previous, **given, **merged}


def last_settings(actor: User, benchmark: str) -> tuple[Batch | None, dict[str, Any]]:
    """A person's latest batch of this benchmark, and the initial values it gives a launch form."""
    batch = Batch.objects.filter(benchmark=benchmark, created_by=actor).select_related("source").order_by("-pk").first()
    if batch is None:
        return None, {}
    previous, several = repeat_settings(batch, {}), registry.recipe(benchmark).multiple_role
    initial = {name: previous[name] for name in ("preset", "prompts", "one_model")}
    initial["changes"] = previous["settings"]
    for role, name in previous["roles"].items():
        initial[f"role-{role}"] = name
        if role == several:
            initial[f"role-{role}"] = [name, *previous["further_endpoints"]]
    if isinstance(previous["plan"], str):
        initial |= {"plan": previous["plan"], "targets": {}}
    else:
        initial |= {"plan": registry.NO_PLAN, "targets": previous["plan"]}
    initial["skip"] = [name for name in registry.check_names(benchmark) if name not in batch.checks]
    return batch, initial
