"""Estimates batches and comparisons before launch."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import Count

from generation import errors
from generation.batches import queries
from generation.batches.launch import BatchSettings, check_independence, choose_records
from generation.jobs.estimate import Estimate, UsualCalls, estimate_line, paces
from generation.models import Batch, Call, Draft, Endpoint, SourceRecord
from generation.prompts import queries as prompts_queries
from generation.recipes import registry, trap_plan
from generation.recipes.recipe import Draft as DraftValue
from generation.samples import queries as samples_queries
from generation.sources import queries as sources_queries
from review.quality import activity

PromptsAndKind = tuple[str, str]  # a prompt set, and a kind of record


def estimate_batch(settings: BatchSettings) -> Estimate:
    """Estimate the calls that a launch with these settings would make: one batch, or two compared.

    Only first versions are counted: every version that physicians send back costs the same again.
    All records of a kind are assumed to need the questions that the first one needs; the questions
    of an optional role without an endpoint are left out. Raises what a launch would: RolesUnbound,
    UnknownRole, NothingToDo, SamePrompts, UnknownPrompts, UnknownPreset, WrongSetting, WrongPlan,
    WrongDraw, SharedModel.
    """
    benchmark, plan, checks = settings.benchmark, settings.plan, settings.checks
    recipe = registry.recipe(benchmark)
    values = registry.resolve_settings(benchmark, settings.preset, settings.changes)
    prompts = settings.prompt_sets
    records = choose_records(settings).records
    checks_run = checks
    if checks_run is None:
        checks_run = registry.check_names(benchmark)
    counts = Counter(kind for _pk, kind in records)
    bound = queries.bind_roles(benchmark, settings.roles, counts, checks)
    players = settings.players_in(bound)
    endpoints = settings.endpoints_in(bound, players)
    check_independence(settings, endpoints)
    terms = samples_queries.terms(benchmark)
    if plan is not None:
        targets = [trap_plan.targets_for(plan, task, count, terms) for task, count in counts.items()]
        if not any(targets):
            raise errors.WrongPlan(", ".join(plan.targets))
    question_counts: Counter[tuple[str, str]] = Counter()
    prompt_counts: Counter[str] = Counter()
    places: dict[str, set[PromptsAndKind]] = defaultdict(set)  # by prompt
    for kind, value in _first_drafts(records, prompts, terms=terms, checks=tuple(checks_run), settings=values):
        for role, prompt in _asked(benchmark, value):  # the same question may occur several times
            if role in bound:
                question_counts[role, prompt] += counts[kind]
                prompt_counts[prompt] += counts[kind]
                places[prompt].add((value.prompts, kind))
    drafts_before, calls_before = _read_history(settings, values, bound, checks_run)
    lines = []
    for (role, prompt), n in question_counts.items():
        records_asked = before = 0
        for name, kind in places[prompt]:
            records_asked += counts[kind]
            before += drafts_before[name, kind]
        repeats = prompt_counts[prompt] / records_asked
        usual = None
        if before:
            usual = UsualCalls(calls_before[prompt] / before, before)
        if role == recipe.multiple_role:
            playing, questions = players or (bound[role],), n
        else:
            playing, questions = (bound[role],), n * max(1, len(players))
        for endpoint in playing:
            lines.append(estimate_line(role, endpoint, prompt, questions, repeats=repeats, usual=usual))
    drafts = sum(counts.values()) * len(prompts) * max(1, len(players))
    shared = queries.shared_models(benchmark, endpoints)
    working = paces([*bound.values(), *players])
    time = activity.case_time(benchmark)
    return Estimate(tuple(lines), jobs=len(prompts), rows=drafts, paces=working, one_model=shared, review=time)


def _first_drafts(
    records: Sequence[tuple[int, str]], prompts: Sequence[str], **more: Any
) -> Iterator[tuple[str, DraftValue]]:
    """A draft of the first record of each kind with each prompt set, with its kind.

    `more`: further values of the drafts.
    """
    first_record: dict[str, int] = {}
    for pk, kind in records:
        first_record.setdefault(kind, pk)
    rows = SourceRecord.objects.defer("private").in_bulk(list(first_record.values()))
    joined = sources_queries.partner_contents(list(rows.values()))
    for kind, pk in first_record.items():
        record = sources_queries.record_value(rows[pk], joined[pk])
        for name in prompts:
            yield kind, DraftValue(record=record, prompts=name, **more)


def _asked(benchmark: str, value: DraftValue) -> list[tuple[str, str]]:
    """What the steps that apply to a draft ask: role and prompt."""
    asked: list[tuple[str, str]] = []
    with prompts_queries.using(benchmark, prompts_queries.stored_set(benchmark, value.prompts)):
        for step in registry.recipe(benchmark).steps:
            if step.applies(value):
                asked += step.asks(value)
    return asked


MAX_BATCHES = 50  # how many of the benchmark's newest batches to look at
ENOUGH_DRAFTS = 200


def _read_history(
    settings: BatchSettings, values: Mapping[str, Any], bound: Mapping[str, Endpoint], checks: Sequence[str]
) -> tuple[Counter[PromptsAndKind], Counter[str]]:
    """Drafts by prompt set and kind of record, and their calls by prompt, of the latest batches.

    These are finished batches with the same preset, values, roles and checks, or with further roles
    and checks. A maximum says little: loops of a recipe rarely run to their end, so what it may ask
    is many times what it asks.
    """
    preset = registry.preset(settings.benchmark, settings.preset)
    preset_name = ""
    if preset:
        preset_name = preset.name
    candidates = Batch.objects.filter(
        benchmark=settings.benchmark,
        status=Batch.Status.FINISHED,
        preset=preset_name,
        prompts__in=settings.prompt_sets,
    )
    drafts: Counter[PromptsAndKind] = Counter()
    calls: Counter[str] = Counter()
    for batch in candidates.prefetch_related("roles").order_by("-pk")[:MAX_BATCHES]:
        roles = {role.role for role in batch.roles.all()}
        if batch.settings != values or not set(bound) <= roles or not set(checks) <= set(batch.checks):
            continue
        ended = Draft.objects.filter(batch=batch, parent=None).values_list("record__content__kind")
        for kind, n in ended.annotate(n=Count("pk")).order_by():
            drafts[batch.prompts, kind] += n
        asked = Call.objects.filter(job=batch.pk).values_list("prompt").annotate(n=Count("pk"))
        calls.update(dict(asked.order_by()))
        if drafts.total() >= ENOUGH_DRAFTS:
            break
    return drafts, calls
