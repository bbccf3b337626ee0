"""Makes the rows of a run: the first with its launch, the others by the worker, in chunks that a kill cannot halve."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Count

from evaluation import errors, registry
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
    by_key = queries.rubrics_by_key(run.release, protocol)
    responses = judgments = 0
    for task in sorted({one.task for one in datasets}):
        first = ReleasedSample.objects.filter(release=run.release, task=task).order_by("position").first()
        asks = queries.questions(protocol, first, run.seed, datasets) if first else []
        responses += len(asks) * run.answers_each * samples.get(task, 0)
        for ask in asks:
            left_out = sum(
                n for key, n in by_key.get(task, {}).items() if not protocol.rubric_applies(key, ask.variant)
            )
            judgments += run.answers_each * (rubrics.get(task, 0) - left_out)
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
    asked = [(sample, ask) for sample in chunk for ask in queries.questions(protocol, sample, run.seed, datasets)]
    made: dict[tuple[int, int, str, int], Response] = {}
    while asked:
        ready = [each for each in asked if not each[1].after or _key(here[0], each[0], each[1].after, 0) in made]
        if not ready:
            raise errors.ChainWithoutStart(", ".join(sorted({ask.after for _sample, ask in asked})))
        rows = {
            _key(place, sample, ask.variant, repeat): Response(
                run=run,
                endpoint=place.endpoint,
                sample=sample,
                variant=ask.variant,
                repeat=repeat,
                about=dict(ask.about),
                after=made[_key(place, sample, ask.after, repeat)] if ask.after else None,
            )
            for sample, ask in ready
            for place in here
            for repeat in range(run.answers_each)
        }
        Response.objects.bulk_create(rows.values())
        made |= rows
        asked = [each for each in asked if _key(here[0], each[0], each[1].variant, 0) not in made]
    end = chunk[-1].position + 1 if chunk else upto
    last = end is None or not samples.filter(position__gte=end).exists()
    RunEndpoint.objects.filter(pk__in=[each.pk for each in here]).update(filled_to=upto if last else end)
    if last and upto is None:
        run.responses_total, run.rubrics_total = run.responses.count(), queries.count_rubrics(run)
        run.save(update_fields=["responses_total", "rubrics_total"])
    return True


def _key(place: RunEndpoint, sample: ReleasedSample, variant: str, repeat: int) -> tuple[int, int, str, int]:
    return place.endpoint_id, sample.pk, variant, repeat


def fill_all(run: Run) -> None:
    """Make all rows that are missing."""
    while fill(run):
        pass
