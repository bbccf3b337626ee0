"""Adds to a finished run: a model, fixed texts, or what is asked again. Nothing else is asked."""

from collections.abc import Sequence
from decimal import Decimal

from django.db import transaction

from evaluation import errors, registry
from evaluation.models import PolicyAnswer, Run
from evaluation.runs import plan, queries
from evaluation.runs.rows import filling, policy_answers, tallies
from evaluation.runs.settings import POLICY_SAMPLES, RunSettings
from generation.errors import NotCallable
from generation.jobs import life_cycle, services
from generation.jobs.settings import Budget
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
    stored = RunSettings.stored_values(run)
    if live:
        stored = {**stored, "transport": Run.Transport.LIVE}
    return RunSettings.model_construct(  # its launch has checked them
        release=run.release,
        endpoints=[endpoint],
        judge=run.judge,
        further_judges=judges[1:],
        panel=Run.Panel(run.panel or Run.Panel.MAJORITY),
        judge_temperature=run.judge_temperature,
        datasets=run.variants,
        prompts=run.prompts,
        fresh=run.fresh,
        **stored,
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


class Checks(Budget):
    """What a finished run is to be checked by, on a sample of each data set.

    `policies`: fixed texts that its judge judges. `again`: what is done a second time
    (`PolicyAnswer.Again`). What a run has already stays. The budget is for this alone.
    """

    run: Run
    policies: Sequence[str] = ()
    again: Sequence[str] = ()
    samples: int = POLICY_SAMPLES

    @property
    def settings(self) -> RunSettings:
        """Those of the run, with the fixed texts that it lacks."""
        run = self.run
        policy_samples = self.samples
        if run.policies:
            policy_samples = run.policy_samples
        return RunSettings.model_construct(
            release=run.release,
            endpoints=[tested.endpoint for tested in run.tested.filter(left_out_at=None).select_related("endpoint")],
            judge=run.judge,
            datasets=run.variants,
            prompts=run.prompts,
            fresh=run.fresh,
            **{
                **RunSettings.stored_values(run),
                "policies": [name for name in dict.fromkeys(self.policies) if name not in run.policies],
                "policy_samples": policy_samples,
            },
        )


def check_checks(checks: Checks) -> list[PolicyAnswer]:
    """The rows that these checks would add. Raises what `add_checks` does."""
    run, protocol = checks.run, registry.protocol(checks.run.release.benchmark)
    if run.origin == Run.Origin.IMPORTED:
        raise errors.ImportedRun
    if run.judge is None and (checks.policies or PolicyAnswer.Again.VERDICTS in checks.again):
        raise errors.NoJudgeNeeded
    if run.status != Run.Status.FINISHED:
        raise errors.RunNotFinished
    queries.check_policies(checks.policies, protocol)
    integrity.check_release(run.release)
    datasets, rules = queries.data_sets_of(run), plan.outcomes_of(run, protocol)
    with queries.prompts_of(run):
        rows = list(policy_answers.unsaved(checks.settings, protocol, datasets))
    rows += policy_answers.unsaved_again(run, checks.again, checks.samples, rules, datasets)
    asked = set()
    for row in rows:
        if row.response and row.policy == PolicyAnswer.Again.ANSWERS:
            asked.add(row.response.endpoint)
    for endpoint in sorted(asked, key=lambda each: each.name):
        if not endpoint.is_usable:
            raise NotCallable(endpoint.name)
    return rows


def add_checks(checks: Checks) -> Run:
    """Reopen a finished run for these checks. No number of a model changes. May be repeated.

    Raises ImportedRun, NoJudgeNeeded, RunNotFinished, UnknownPolicy, NotCallable, ReleaseAltered.
    """
    rows, settings = check_checks(checks), checks.settings
    with transaction.atomic():
        life_cycle.lock_job(checks.run.pk)
        run = Run.objects.select_related("release", "judge", "prompt_set").get(pk=checks.run.pk)
        stored = PolicyAnswer.objects.filter(run=run)
        texts = set(stored.filter(response=None).values_list("policy", flat=True))
        again = set(stored.exclude(response=None).values_list("response", "policy"))
        new = []
        for row in rows:
            if row.response_id is None:
                is_known = row.policy in texts
            else:
                is_known = (row.response_id, row.policy) in again
            if not is_known:
                new.append(row)
        if run.status != Run.Status.FINISHED or not new:
            return run
        added = [row.policy for row in new if row.response_id is None]
        if added:
            run.policies = [*run.policies, *dict.fromkeys(added)]
            run.policy_samples = settings.policy_samples
            run.save(update_fields=["policies", "policy_samples"])
        policy_answers.create(run, new)
        tallies.reset(run.pk)
        return _reopened(run, checks.budget_money, checks.budget_calls)


def _reopened(run: Run, budget_money: Decimal | None, budget_calls: int | None) -> Run:
    """The run at work again, within a budget beyond what it has spent."""
    if budget_money is None:
        run.budget_money = None
    else:
        run.budget_money = run.cost + budget_money
    if budget_calls is None:
        run.budget_calls = None
    else:
        run.budget_calls = run.calls + budget_calls
    run.save(update_fields=["budget_money", "budget_calls"])
    services.settle(run.pk)
    life_cycle.wake_workers(run.pk)
    run.refresh_from_db()
    return run
