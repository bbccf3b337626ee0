"""Launches and changes runs."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from evaluation import errors, registry
from evaluation.models import Judgment, Response, Run, RunJudge, Vote
from evaluation.runs import queries
from evaluation.runs.plan import changes_to_plan, make_plan
from evaluation.runs.rows import filling, tallies
from evaluation.runs.rows.chains import HOPELESS
from evaluation.runs.settings import RunSettings
from generation.engine import provider_batches
from generation.errors import NotRepeatable
from generation.jobs import life_cycle
from generation.models import Release
from generation.models.work import Work
from review.models import User

Status = Work.Status
CHUNK = 500
NO_RESPONSE = "NoResponse"  # the error of judgments whose response failed
NOT_JUDGED = "NotJudged"  # of those that are counted by the outcome of their response, whatever was said


def launch_run(settings: RunSettings, *, actor: User | None = None, key: str = "") -> Run:
    """Queue one response per sample, endpoint, variant and repeat: the first rows at once, the others by the worker.

    `key`: what the same person launched under it before is returned, and nothing launched.

    The run keeps the judge's temperature and each endpoint's own sampling settings as they are now.
    Raises NoEndpoints; JudgeNeeded, NoJudgeNeeded; NotPerSample where the benchmark has no such judging; UnknownDataSet;
    NoBatches where no endpoint offers batches; TooManyRepeats; EscalationNeedsThree, NoPanelInBatches of several judges;
    InvalidPlan; KeyReused where something else was launched under `key`.
    """
    protocol, datasets = queries.protocol_and_data_sets(settings)
    judge = settings.judge
    planned = make_plan(settings, protocol)
    temperatures = (settings.judge_temperature, protocol.judge_temperature, judge.temperature) if judge else ()

    def make() -> Run:
        run = Run.objects.create(
            release=settings.release,
            judge=judge,
            judge_temperature=next((each for each in temperatures if each is not None), None),
            endpoint_settings={str(each.pk): each.launch_settings for each in settings.asked},
            judging=settings.judging,
            panel=settings.rule,
            answers_each=settings.answers,
            judgments_each=settings.judgments,
            seed=settings.seed,
            variants=[dataset.name for dataset in datasets],
            transport=settings.transport,
            sampling=settings.sampling,
            plan=planned.as_json,
            budget_money=settings.budget_money,
            budget_calls=settings.budget_calls,
            fresh=settings.fresh,
            created_by=actor,
            created_at=timezone.now(),
        )
        RunJudge.objects.bulk_create(RunJudge(run=run, endpoint=endpoint) for endpoint in settings.judges[1:])
        filling.begin(run, settings.tested)
        return run

    return life_cycle.launch_once(Run, key, make, actor=actor, asked=settings)


def repeated(run: Run, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given for a launch, and the settings of a run for what is not; see `JobKind.repeated`.

    What rests on something that is given is left out: planned comparisons on the models, further judges and the temperature
    on the judge, metric and outcomes on the preset. Raises NotRepeatable: the run was made elsewhere.
    """
    if run.origin == Run.Origin.IMPORTED:
        raise NotRepeatable
    protocol = registry.protocol(run.release.benchmark)
    tested = tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True))
    judges = [judge.name for judge in queries.judges_of(run)]
    published = next(
        (each for each in (protocol.judge_temperature, run.judge and run.judge.temperature) if each is not None), None
    )
    old: dict[str, Any] = {
        "release": f"{run.release.name}@{run.release.version}",
        "endpoints": list(tested),
        "datasets": []
        if len(queries.data_sets_of(run)) == len(queries.data_sets_in(run.release))
        else list(run.variants),
        "seed": run.seed,
        "judge": judges[0] if judges else None,
        "further_judges": judges[1:],
        "judge_temperature": None if run.judge_temperature == published else run.judge_temperature,
        "panel": run.panel or Run.Panel.MAJORITY.value,
        "answers": run.answers_each,
        "judgments": run.judgments_each,
        "judging": run.judging,
        "sampling": run.sampling,
        "transport": run.transport,
        "preset": run.plan.get("preset", ""),
        **changes_to_plan(run, protocol, tested),
    }
    resting = {"endpoints": ("comparisons",), "judge": ("further_judges", "judge_temperature")}
    left_out = {each for name, rest in resting.items() if name in given for each in rest}
    if given.get("preset", old["preset"]) != old["preset"]:
        left_out |= {"metric", "outcomes"}
    return {**{name: value for name, value in old.items() if value != "" and name not in left_out}, **given}


def last_settings(actor: User, release: Release | None) -> tuple[Run | None, dict[str, Any]]:
    """The run of this benchmark that a person launched last, and what a launch form would repeat of it: not the release."""
    if release is None:
        return None, {}
    runs = Run.objects.filter(created_by=actor, release__benchmark=release.benchmark, origin=Run.Origin.LAUNCHED)
    last = runs.select_related("judge", "release").order_by("-pk").first()
    if last is None:
        return None, {}
    old = repeated(last, {})
    return last, {
        **{name: value for name, value in old.items() if name != "release"},
        "comparisons": ", ".join(old["comparisons"]),
        "outcomes": ", ".join(old["outcomes"]),
    }


@transaction.atomic
def retry_failed(run_id: int) -> int:
    """Queue again what failed: responses that said nothing, and judgments that stayed unjudged; returns how many rows.

    Raises ImportedRun: what was answered elsewhere cannot be asked again.
    """
    if Run.objects.filter(pk=run_id, origin=Run.Origin.IMPORTED).exists():
        raise errors.ImportedRun
    failed: dict[str, Any] = {"run_id": run_id, "status": Status.FAILED}
    again = {"status": Status.QUEUED, "error": "", "detail": "", "tries": 0, "via": None, "live": False}
    # One list, looked at once: what a lane fails meanwhile keeps its judgments, and waits for the next retry.
    hopeful = Response.objects.filter(**failed).exclude(pk__in=Response.objects.filter(HOPELESS, **failed).values("pk"))
    locked = hopeful.select_for_update(of=("self",), no_key=True).order_by("pk")
    pks = iter(list(locked.values_list("pk", flat=True)))
    count = 0
    while chunk := list(islice(pks, CHUNK)):
        # Made anew with the response.
        Judgment.objects.filter(response__in=chunk, error=NO_RESPONSE, status=Status.FAILED).delete()
        count += Response.objects.filter(pk__in=chunk).update(**again, outcome="")
    count += _retry_votes(run_id)
    unjudged = Judgment.objects.filter(~Q(error=NO_RESPONSE) | Q(response__status=Status.DONE), **failed, run__panel="")
    unjudged = unjudged.exclude(error=NOT_JUDGED)
    tallies.forget(run_id)
    count += unjudged.update(**again)
    return count


def _retry_votes(run_id: int) -> int:
    """Queue again the failed votes of a panel, and open the judgments that they left undecided; returns how many votes.

    What all judges voted on and has no majority is left as it is: nothing failed there.
    """
    locked = Judgment.objects.filter(run=run_id, status=Status.FAILED, votes__status=Status.FAILED)
    pks = locked.select_for_update(of=("self",), no_key=True).order_by("pk").values_list("pk", flat=True)
    undecided = iter(dict.fromkeys(pks))
    count = 0
    while chunk := list(islice(undecided, CHUNK)):
        failed = Vote.objects.filter(judgment__in=chunk, status=Status.FAILED)
        count += failed.update(status=Status.QUEUED, error="", detail="", tries=0)
        Judgment.objects.filter(pk__in=chunk).update(status=Status.QUEUED, error="", detail="")
    return count


def let_go_of_others() -> None:
    """Let no run wait for a provider batch of another one that was stopped before it was submitted."""
    for batch in provider_batches.blocked_batches():
        for model in (Response, Judgment):
            waiting = model._default_manager.filter(via=batch, status=Status.QUEUED, live=False)
            waiting.exclude(run=batch.job_id).update(via=None)
