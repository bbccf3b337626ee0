"""The estimate of a batch."""

from collections import Counter
from collections.abc import Mapping, Sequence

from generation import errors
from generation.batches import queries
from generation.batches.launch import BatchSettings, check_apart, choose_records
from generation.jobs.estimate import Estimate, estimate_line
from generation.models import SourceRecord
from generation.recipes import registry, trap_plan
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import Term, TrapPlan
from generation.samples import queries as samples_queries
from generation.sources import queries as sources_queries


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
    lines = [
        estimate_line(role, bound[role], prompt, requests)
        for (role, prompt), requests in asked.items()
        if role in bound
    ]
    return Estimate(tuple(lines), jobs=len(prompts))


def _check_plan(plan: TrapPlan, counts: Mapping[str, int], terms: Sequence[Term]) -> None:
    """Raises WrongPlan where the plan asks for nothing of these tasks, or for what there is not."""
    try:
        targets = [trap_plan.targets_for(plan, task, count, terms) for task, count in counts.items()]
    except trap_plan.PlanMistake as mistake:
        raise errors.WrongPlan(str(mistake)) from mistake
    if not any(targets):
        raise errors.WrongPlan(", ".join(plan.targets))
