"""Adds to a finished run: a model, or fixed texts. Only these are asked or judged."""

from collections.abc import Sequence
from decimal import Decimal

from django.db import transaction

from evaluation import errors, registry
from evaluation.models import PolicyAnswer, Run
from evaluation.runs import queries
from evaluation.runs.rows import filling, policy_answers, tallies
from evaluation.runs.settings import POLICY_SAMPLES, RunSettings
from generation.errors import NotCallable
from generation.jobs import life_cycle, services
from generation.jobs.settings import stored_values
from generation.models import Endpoint
from generation.releases import integrity


def check_model(run: Run, endpoint: Endpoint) -> RunSettings:
    """The settings of a run of this model alone, for an estimate. Raises what `add_model` does."""
    if run.origin == Run.Origin.IMPORTED:
        raise errors.ImportedRun
    if not endpoint.is_usable:
        raise NotCallable(endpoint.name)
    if run.tested.filter(endpoint=endpoint).exists():
        raise errors.ModelAlreadyTested(endpoint.name)
    if run.status != Run.Status.FINISHED:
        raise errors.RunNotFinished
    integrity.check_release(run.release)
    judges = queries.judges_of(run)
    for judge in judges:
        queries.endpoint_as_launched(run, judge)
    live = run.transport == Run.Transport.LIVE or not (endpoint.batches or (run.judge and run.judge.batches))
    return RunSettings(
        release=run.release,
        endpoints=[endpoint],
        judge=run.judge,
        further_judges=judges[1:],
        panel=run.panel or Run.Panel.MAJORITY,
        judge_temperature=run.judge_temperature,
        datasets=run.variants,
        prompts=run.prompts,
        fresh=run.fresh,
        **stored_values(RunSettings, run) | ({"transport": Run.Transport.LIVE} if live else {}),
    )


@transaction.atomic
def add_model(
    pk: int, endpoint: Endpoint, *, budget_money: Decimal | None = None, budget_calls: int | None = None
) -> Run:
    """Reopen a finished run and queue the responses of this model to all its questions.

    The budget is for this model, beyond what the run has spent; None: no limit. The endpoint's
    current settings are stored with the run. Raises ImportedRun, NotCallable, ReleaseAltered,
    ModelAlreadyTested, RunNotFinished.
    """
    life_cycle.lock_job(pk)
    run = Run.objects.select_related("release", "judge").get(pk=pk)
    check_model(run, endpoint)
    # Existing settings stay: the judge may also be a model under test.
    run.endpoint_settings.setdefault(str(endpoint.pk), endpoint.launch_settings)
    run.save(update_fields=["endpoint_settings"])
    filling.add_endpoints(run, [endpoint])
    return _reopened(run, budget_money, budget_calls)


def check_policies(run: Run, policies: Sequence[str], policy_samples: int = POLICY_SAMPLES) -> RunSettings:
    """The settings by which fixed texts are added to a run, for an estimate: of those it lacks.

    `policy_samples`: of each data set; those that a run has already stay. Raises what
    `add_policies` does.
    """
    if run.origin == Run.Origin.IMPORTED:
        raise errors.ImportedRun
    if run.judge is None:
        raise errors.NoJudgeNeeded
    if run.status != Run.Status.FINISHED:
        raise errors.RunNotFinished
    queries.check_policies(policies, registry.protocol(run.release.benchmark))
    integrity.check_release(run.release)
    return RunSettings(
        release=run.release,
        endpoints=[],
        judge=run.judge,
        datasets=run.variants,
        prompts=run.prompts,
        fresh=run.fresh,
        **{
            **stored_values(RunSettings, run),
            "policies": [name for name in dict.fromkeys(policies) if name not in run.policies],
            "policy_samples": run.policy_samples if run.policies else policy_samples,
        },
    )


def add_policies(
    pk: int,
    policies: Sequence[str],
    policy_samples: int = POLICY_SAMPLES,
    *,
    budget_money: Decimal | None = None,
    budget_calls: int | None = None,
) -> Run:
    """Reopen a finished run and have its judge judge these fixed texts. May be repeated.

    The budget is for them. Raises ImportedRun, NoJudgeNeeded, RunNotFinished, UnknownPolicy,
    ReleaseAltered.
    """
    run = Run.objects.select_related("release", "judge", "prompt_set").get(pk=pk)
    settings, protocol = check_policies(run, policies, policy_samples), registry.protocol(run.release.benchmark)
    with queries.prompts_of(run):
        rows = list(policy_answers.unsaved(settings, protocol, queries.data_sets_of(run)))
    with transaction.atomic():
        life_cycle.lock_job(pk)
        run.refresh_from_db()
        known = set(PolicyAnswer.objects.filter(run=run).values_list("policy", flat=True))
        new = [row for row in rows if row.policy not in known]
        if run.status != Run.Status.FINISHED or not new:
            return run
        run.policies = [*run.policies, *dict.fromkeys(row.policy for row in new)]
        run.policy_samples = settings.policy_samples
        run.save(update_fields=["policies", "policy_samples"])
        policy_answers.create(run, new)
        tallies.reset(pk)
        return _reopened(run, budget_money, budget_calls)


def _reopened(run: Run, budget_money: Decimal | None, budget_calls: int | None) -> Run:
    """The run at work again, within a budget beyond what it has spent."""
    run.budget_money = None if budget_money is None else run.cost + budget_money
    run.budget_calls = None if budget_calls is None else run.calls + budget_calls
    run.save(update_fields=["budget_money", "budget_calls"])
    services.settle(run.pk)
    life_cycle.wake_workers()
    run.refresh_from_db()
    return run
