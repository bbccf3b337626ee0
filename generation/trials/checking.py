"""Tries each model of a job once with what the job will send, before anything else is asked."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from generation import errors
from generation.jobs import life_cycle, services
from generation.jobs.kinds import Trial, kind_of
from generation.llm.errors import UnexpectedError
from generation.models import LAUNCH_SETTINGS, Endpoint, Job
from generation.trials import findings
from generation.trials.sending import send_once
from review.common.site_pause import paused_since

MODEL_CHECK = "ModelCheck"  # why a job is paused: a model cannot do what the job needs
SECONDS = 60.0  # the longest wait for one reply
HOLD = timedelta(minutes=5)  # after which another worker begins again, as this one was lost
MAX_TRIALS = 4  # of one endpoint
AT_ONCE = 4


def is_unchecked(job: Job) -> bool:
    """Whether a model of a running job must be tried before the job is worked on."""
    return job.status == Job.Status.RUNNING and not job.is_resting and bool(_due(job))


def check_models(pk: int) -> bool:
    """Try the models of a running job that were not tried; returns whether it may be worked on now.

    False while another worker tries them or the site is paused, and if the job was paused because a
    model refuses what the job would send: its detail says what, in words. A model that does not
    answer pauses nothing, as the others can go on without it.
    """
    job = Job.objects.get(pk=pk)
    if paused_since():
        return False
    if not is_unchecked(job):
        return True
    trials = _due(job)
    now = timezone.now()
    free = Job.objects.filter(Q(checking_until=None) | Q(checking_until__lt=now), pk=pk)
    if not free.update(checking_until=now + HOLD):
        return False
    results: dict[str, dict[str, Any]] = {}
    try:
        for trial, result in _try_all(pk, trials):
            merged = results.setdefault(str(trial.endpoint.pk), {"endpoint": trial.endpoint.name, "tried": []})
            merged["tried"].append(result)
    finally:
        _store(pk, results)
    return bool(Job.objects.filter(pk=pk, status=Job.Status.RUNNING).exists())


def _due(job: Job) -> list[Trial]:
    kind, due = kind_of(job), defaultdict[int, list[Trial]](list)
    for trial in kind.trials(kind.get(job.pk)):
        # A simulated model refuses nothing.
        if str(trial.endpoint.pk) not in job.model_checks and not trial.endpoint.simulated:
            due[trial.endpoint.pk].append(trial)
    first_trials = []
    for trials in due.values():
        first_trials += trials[:MAX_TRIALS]
    return first_trials


def _try_all(pk: int, trials: list[Trial]) -> list[tuple[Trial, dict[str, Any]]]:
    def run(trial: Trial) -> dict[str, Any]:
        try:
            return _try(pk, trial)
        finally:
            connection.close()

    if connection.in_atomic_block or len(trials) == 1:
        return [(trial, _try(pk, trial)) for trial in trials]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(zip(trials, pool.map(run, trials), strict=True))


def _try(pk: int, trial: Trial) -> dict[str, Any]:
    subject = f"check:{pk}"
    try:
        sent = send_once(
            trial.endpoint,
            trial.request,
            trial.shape,
            subject=subject,
            seconds=SECONDS,
            looks=trial.endpoint.context_tokens is None,
            batched=trial.batched,
        )
        if sent.context:
            Endpoint.objects.filter(pk=trial.endpoint.pk).update(context_found=sent.context)
        found = findings.findings(sent)
        cost, seconds, answered = sent.cost, sent.seconds, sent.error is None
    except Exception as failure:  # a bug of ours must not hold up the job: what is wrong will show in its rows
        found = [findings.TrialFinding("silent", f"{UnexpectedError.__name__}: {type(failure).__name__}")]
        cost, seconds, answered = Decimal(0), 0.0, False
    found_as_json = [{"code": finding.code, "detail": finding.detail} for finding in found]
    return {
        "role": trial.role,
        "prompt": trial.request.prompt,
        "answered": answered,
        "seconds": round(seconds, 2),
        "cost": str(cost),
        "findings": found_as_json,
        "blocks": any(finding.blocks for finding in found),
    }


@transaction.atomic
def _store(pk: int, results: dict[str, dict[str, Any]]) -> None:
    job = life_cycle.lock_job(pk)
    job.model_checks = {**job.model_checks, **results}
    job.checking_until = None
    job.save(update_fields=["model_checks", "checking_until"])
    lines: dict[str, None] = {}  # each once
    for entry in results.values():
        for finding in blocking(entry):
            line = f"{entry['endpoint']}: {finding.words}"
            if finding.detail:
                line += f" ({finding.detail})"
            lines[line] = None
    if lines and job.status == Job.Status.RUNNING:
        life_cycle.pause(pk, because=MODEL_CHECK, detail=" ".join(lines))


@transaction.atomic
def adapt(pk: int) -> Job:
    """Set the endpoints of a job to what they were found to accept, and resume it.

    A model that refuses a temperature is sent none, one that refuses `max_tokens` gets
    `max_completion_tokens`, one without provider batches is asked live. Raises JobOver,
    BudgetTooSmall; NothingToAdapt if no finding has such a remedy.
    """
    job = life_cycle.lock_job(pk)
    kind = kind_of(job)
    launched = dict(kind.get(pk).endpoint_settings)
    remedies = {}
    for key, entry in job.model_checks.items():
        if remedy := remedy_of(entry):
            remedies[key] = remedy
    if not remedies:
        raise errors.NothingToAdapt
    for endpoint in Endpoint.objects.select_for_update(no_key=True).filter(pk__in=remedies).order_by("pk"):
        remedy = remedies[str(endpoint.pk)]
        for name, value in remedy.items():
            setattr(endpoint, name, value)
        endpoint.save(update_fields=list(remedy))
        kept = {name: value for name, value in remedy.items() if name in LAUNCH_SETTINGS}
        launched[str(endpoint.pk)] = {**launched.get(str(endpoint.pk), {}), **kept}
    kind.model._default_manager.filter(pk=pk).update(endpoint_settings=launched)
    return services.resume(pk)


def remedy_of(entry: dict[str, Any]) -> dict[str, Any]:
    """The settings with which a model may accept what it refused."""
    remedy: dict[str, Any] = {}
    for finding in blocking(entry):
        remedy |= findings.REMEDIES.get(finding.code, {})
    return remedy


def blocking(entry: dict[str, Any]) -> list[findings.TrialFinding]:
    """The findings about a model because of which its job does not begin."""
    found: dict[findings.TrialFinding, None] = {}  # each once
    for trial in entry["tried"]:
        for values in trial["findings"]:
            finding = findings.TrialFinding(**values)
            if finding.blocks:
                found[finding] = None
    return list(found)
