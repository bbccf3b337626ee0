"""Makes the rows of a run: the first with its launch, the others by the worker, in chunks that a kill cannot halve."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Count

from evaluation import registry
from evaluation.models import Response, Run, RunEndpoint
from evaluation.runs import queries
from generation.models import Endpoint, Release, ReleasedRubric, ReleasedSample

CHUNK = 500  # rows made in one transaction


@transaction.atomic
def begin(run: Run, endpoints: Sequence[Endpoint]) -> None:
    """Add models under test to a run: its totals as expected, and the first chunk of their responses."""
    RunEndpoint.objects.bulk_create(RunEndpoint(run=run, endpoint=each, filled_to=0) for each in endpoints)
    responses, rubrics = expected_rows(run)
    run.responses_total += responses * len(endpoints)
    run.rubrics_total += rubrics * len(endpoints)
    run.save(update_fields=["responses_total", "rubrics_total"])
    fill(run)


def expected_rows(run: Run) -> tuple[int, int]:
    """How many responses and judgments each model comes to, if all samples of a task are asked as often as its first."""
    protocol, datasets = registry.protocol(run.release.benchmark), queries.data_sets_of(run)
    samples, rubrics = _counts_by_task(run.release)
    responses = judgments = 0
    for task in sorted({one.task for one in datasets}):
        first = ReleasedSample.objects.filter(release=run.release, task=task).order_by("position").first()
        asks = len(queries.questions(protocol, first, run.seed, datasets)) * run.answers_each if first else 0
        responses += asks * samples.get(task, 0)
        judgments += asks * rubrics.get(task, 0)
    return responses, judgments


def _counts_by_task(release: Release) -> tuple[dict[str, int], dict[str, int]]:
    """The samples and rubrics of each task: as counted when the release was frozen, where that adds up."""
    told = release.counts.get("task", {})
    samples, rubrics = ({task: int(each[what]) for task, each in told.items()} for what in ("samples", "rubrics"))
    if sum(samples.values()) == release.samples_count and sum(rubrics.values()) == release.rubrics_count:
        return samples, rubrics
    by_task = ReleasedSample.objects.filter(release=release).order_by().values_list("task")
    in_task = ReleasedRubric.objects.filter(sample__release=release).order_by().values_list("sample__task")
    return dict(by_task.annotate(n=Count("pk"))), dict(in_task.annotate(n=Count("pk")))


@transaction.atomic
def fill(run: Run) -> bool:
    """Make the next chunk of a run's responses; False where there was none to make. Two workers never make the same."""
    waiting = RunEndpoint.objects.filter(run=run, filled_to__isnull=False)
    places = list(waiting.select_for_update(of=("self",)).select_related("endpoint").order_by("pk"))
    if not places:
        return False
    start = min(each.filled_to or 0 for each in places)
    here = [each for each in places if each.filled_to == start]
    upto = min((each.filled_to or 0 for each in places if each.filled_to != start), default=None)
    protocol, datasets = registry.protocol(run.release.benchmark), queries.data_sets_of(run)
    samples = ReleasedSample.objects.filter(
        release=run.release_id, position__gte=start, task__in={one.task for one in datasets}
    ).order_by("position")
    if upto is not None:
        samples = samples.filter(position__lt=upto)
    chunk = list(samples[: max(1, CHUNK // (len(here) * run.answers_each))])
    Response.objects.bulk_create(
        Response(
            run=run, endpoint=place.endpoint, sample=sample, variant=ask.variant, repeat=repeat, about=dict(ask.about)
        )
        for sample in chunk
        for ask in queries.questions(protocol, sample, run.seed, datasets)
        for place in here
        for repeat in range(run.answers_each)
    )
    end = chunk[-1].position + 1 if chunk else upto
    last = end is None or not samples.filter(position__gte=end).exists()
    RunEndpoint.objects.filter(pk__in=[each.pk for each in here]).update(filled_to=upto if last else end)
    if last and upto is None:
        run.responses_total, run.rubrics_total = run.responses.count(), queries.count_rubrics(run)
        run.save(update_fields=["responses_total", "rubrics_total"])
    return True


def fill_all(run: Run) -> None:
    """Make all rows that are missing."""
    while fill(run):
        pass
