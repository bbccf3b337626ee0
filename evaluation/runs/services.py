"""Launches and changes runs."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from evaluation import errors, registry
from evaluation.models import Judgment, PolicyAnswer, Response, Run, RunJudge, Vote
from evaluation.numbers.rules import NO_RESPONSE, NOT_JUDGED
from evaluation.runs import queries
from evaluation.runs.plan import make_plan, plan_overrides
from evaluation.runs.rows import filling, policy_answers, tallies
from evaluation.runs.rows.chains import HOPELESS
from evaluation.runs.settings import RunSettings
from generation.common.chunks import chunked
from generation.engine import provider_batches
from generation.errors import NotRepeatable
from generation.jobs import life_cycle
from generation.models import Release
from generation.models.work import Work
from generation.prompts import queries as prompts_queries
from generation.releases import integrity
from review.models import User
from review.rules.permissions import Can, require

Status = Work.Status


def describe_run(pk: int, *, title: str, note: str, actor: User) -> Run:
    """Give a run a title and a note. Raises UnknownRun, NotAllowed."""
    require(actor, Can.MEASURE)
    run = Run.objects.filter(pk=pk).first()
    if run is None:
        raise errors.UnknownRun(str(pk))
    run.title, run.note = title.strip(), note.strip()
    run.save(update_fields=["title", "note"])
    return run


def launch_run(settings: RunSettings, *, actor: User | None = None, key: str = "") -> Run:
    """Create a run with one response per sample, endpoint, variant and repeat.

    The first rows are created at once, the others by a worker. The run stores the judge's
    temperature and each endpoint's current sampling settings. `key`: if the same person already
    launched a run under this key, that run is returned instead.

    Raises NoEndpoints; JudgeNeeded, NoJudgeNeeded; NotPerSample if the benchmark has no such
    judging; UnknownDataSet, UnknownPolicy; NoBatches if no endpoint offers batches; TooManyRepeats;
    EscalationNeedsThree, NoPanelInBatches for several judges; InvalidPlan;
    UnknownPrompts; ReleaseAltered; KeyReused if other settings were launched under `key`.
    """
    integrity.check_release(settings.release)
    protocol, datasets = queries.protocol_and_data_sets(settings)
    judge = settings.judge
    planned, prompt_set = make_plan(settings, protocol, datasets), settings.prompt_set
    with prompts_queries.using(settings.release.benchmark, prompt_set):
        fixed_texts = list(policy_answers.unsaved(settings, protocol, datasets))
    temperature = None
    if judge:
        temperature = settings.judge_temperature
        if temperature is None:
            temperature = protocol.judge_temperature
        if temperature is None:
            temperature = judge.temperature

    def create() -> Run:
        run = Run.objects.create(
            release=settings.release,
            judge=judge,
            judge_temperature=temperature,
            endpoint_settings={str(endpoint.pk): endpoint.launch_settings for endpoint in settings.asked},
            panel=settings.rule,
            variants=[dataset.name for dataset in datasets],
            plan=planned.as_json,
            prompt_set=prompt_set,
            **settings.columns,
            **{**settings.of_job, "first_only": settings.first_only and settings.transport == Run.Transport.LIVE},
            created_by=actor,
            created_at=timezone.now(),
        )
        RunJudge.objects.bulk_create([RunJudge(run=run, endpoint=endpoint) for endpoint in settings.judges[1:]])
        filling.add_endpoints(run, settings.tested)
        policy_answers.create(run, fixed_texts)
        return run

    run = life_cycle.launch_once(Run, key, create, actor=actor, content=settings)
    if not run.responses.exists():
        filling.fill(run)
    life_cycle.wake_workers(run.pk)
    return run


def repeat_settings(run: Run, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given launch settings, completed by those of a run; see `JobKind.repeat_settings`.

    Settings of the run that depend on a given one are dropped: planned comparisons on the models,
    further judges and temperature on the judge, metric and outcomes on the preset, the primary data
    set on the data sets. Raises NotRepeatable if the run was imported.
    """
    if run.origin == Run.Origin.IMPORTED:
        raise NotRepeatable
    protocol = registry.protocol(run.release.benchmark)
    tested = tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True))
    datasets: list[str] = []
    if len(queries.data_sets_of(run)) != len(queries.data_sets_in(run.release)):
        datasets = list(run.variants)
    judges = [judge.name for judge in queries.judges_of(run)]
    judge = None
    if judges:
        judge = judges[0]
    published, temperature = protocol.judge_temperature, run.judge_temperature
    if published is None and run.judge is not None:
        published = run.judge.temperature
    if temperature == published:
        temperature = None
    stored: dict[str, Any] = {
        "release": run.release.reference,
        "endpoints": list(tested),
        "datasets": datasets,
        "judge": judge,
        "further_judges": judges[1:],
        "judge_temperature": temperature,
        "panel": run.panel or Run.Panel.MAJORITY.value,
        "prompts": run.prompts,
        "preset": run.plan.get("preset", ""),
        **plan_overrides(run, protocol, tested),
        **RunSettings.stored_values(run),
    }
    dependents = {
        "endpoints": ("comparisons",),
        "judge": ("further_judges", "judge_temperature"),
        "datasets": ("primary_dataset",),
    }
    left_out: set[str] = set()
    for name, names in dependents.items():
        if name in given:
            left_out.update(names)
    if given.get("preset", stored["preset"]) != stored["preset"]:
        left_out |= {"metric", "outcomes"}
    settings = {}
    for name, value in stored.items():
        if value != "" and name not in left_out:
            settings[name] = value
    return {**settings, **given}


def last_settings(actor: User, release: Release | None) -> tuple[Run | None, dict[str, Any]]:
    """The last run of this benchmark that a person launched, and its settings but the release."""
    if release is None:
        return None, {}
    runs = Run.objects.filter(created_by=actor, release__benchmark=release.benchmark, origin=Run.Origin.LAUNCHED)
    last = runs.select_related("judge", "release").order_by("-pk").first()
    if last is None:
        return None, {}
    settings = repeat_settings(last, {})
    del settings["release"]
    return last, settings


@transaction.atomic
def retry_failed(run_id: int) -> int:
    """Queue failed responses and judgments again; returns the number of rows.

    Raises ImportedRun, since imported results cannot be asked again.
    """
    if Run.objects.filter(pk=run_id, origin=Run.Origin.IMPORTED).exists():
        raise errors.ImportedRun
    failed: dict[str, Any] = {"run_id": run_id, "status": Status.FAILED}
    reset = {"status": Status.QUEUED, "error": "", "detail": "", "tries": 0, "via": None, "live": False}
    # The list is read once: rows that fail meanwhile keep their judgments until the next retry.
    retryable = Response.objects.filter(**failed).exclude(
        pk__in=Response.objects.filter(HOPELESS, **failed).values("pk")
    )
    locked = retryable.select_for_update(of=("self",), no_key=True).order_by("pk")
    count = 0
    for chunk in chunked(iter(list(locked.values_list("pk", flat=True)))):
        # They are created again with the response.
        Judgment.objects.filter(response__in=chunk, error=NO_RESPONSE, status=Status.FAILED).delete()
        count += Response.objects.filter(pk__in=chunk).update(**reset, outcome="")
    count += _retry_votes(run_id)
    unjudged = Judgment.objects.filter(~Q(error=NO_RESPONSE) | Q(response__status=Status.DONE), **failed, run__panel="")
    unjudged = unjudged.exclude(error=NOT_JUDGED)
    tallies.reset(run_id)
    count += unjudged.update(**reset)
    failed_texts = PolicyAnswer.objects.filter(**failed)
    return count + failed_texts.update(status=Status.QUEUED, error="", detail="", tries=0)


def _retry_votes(run_id: int) -> int:
    """Queue the failed votes of a panel again, with the judgments that they left undecided.

    Judgments on which all judges voted without a majority stay: no call failed. Returns the number
    of votes.
    """
    locked = Judgment.objects.filter(run=run_id, status=Status.FAILED, votes__status=Status.FAILED)
    pks = locked.select_for_update(of=("self",), no_key=True).order_by("pk").values_list("pk", flat=True)
    count = 0
    for chunk in chunked(iter(dict.fromkeys(pks))):
        failed = Vote.objects.filter(judgment__in=chunk, status=Status.FAILED)
        count += failed.update(status=Status.QUEUED, error="", detail="", tries=0)
        Judgment.objects.filter(pk__in=chunk).update(status=Status.QUEUED, error="", detail="")
    return count


def release_blocked_rows() -> None:
    """Free rows that wait for another run's provider batch which was stopped before submission."""
    for batch in provider_batches.blocked_batches():
        for model in (Response, Judgment):
            waiting = model._default_manager.filter(via=batch, status=Status.QUEUED, live=False)
            waiting.exclude(run=batch.job_id).update(via=None)
