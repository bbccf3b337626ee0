"""Adds a model to a finished run: only this model is asked, in the same way as the others."""

from decimal import Decimal

from django.db import transaction

from evaluation import errors
from evaluation.models import Run
from evaluation.runs import queries
from evaluation.runs.rows import filling
from evaluation.runs.settings import RunSettings
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
    run.budget_money = None if budget_money is None else run.cost + budget_money
    run.budget_calls = None if budget_calls is None else run.calls + budget_calls
    run.save(update_fields=["endpoint_settings", "budget_money", "budget_calls"])
    filling.add_endpoints(run, [endpoint])
    services.settle(pk)
    life_cycle.wake_workers()
    run.refresh_from_db()
    return run
