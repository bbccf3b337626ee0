"""Creates the rows of a run: the first chunk at launch, the others by a worker, each atomically.

A benchmark's code makes the questions, so they are made before the transaction that stores them.
"""

from collections.abc import Sequence

from django.db import transaction

from evaluation import errors, registry
from evaluation.models import Response, Run, RunEndpoint
from evaluation.protocol import Ask
from evaluation.runs import queries
from evaluation.runs.rows.queues import unfilled_endpoints
from generation.engine.watchdog import computing_for
from generation.models import Endpoint, ReleasedSample

CHUNK = 500  # rows created in one transaction


@transaction.atomic
def add_endpoints(run: Run, endpoints: Sequence[Endpoint]) -> None:
    """Add models under test to a run, with the expected totals. `fill` creates the responses."""
    RunEndpoint.objects.bulk_create([RunEndpoint(run=run, endpoint=endpoint, filled_to=0) for endpoint in endpoints])
    responses, rubrics = expected_rows(run)
    run.responses_total += responses * len(endpoints)
    run.rubrics_total += rubrics * len(endpoints)
    run.save(update_fields=["responses_total", "rubrics_total"])


def expected_rows(run: Run) -> tuple[int, int]:
    """The expected responses and judgments per model, if all samples of a task equal its first."""
    protocol, datasets = registry.protocol(run.release.benchmark), queries.data_sets_of(run)
    samples, rubrics = queries.counts_by_task(run.release)
    by_key = queries.rubrics_by_key(run.release, protocol)
    responses = judgments = 0
    for first in queries.first_samples(run.release, datasets):
        asks = queries.questions(protocol, first, run.seed, datasets)
        responses += len(asks) * run.answers_each * samples[first.task]
        for ask in asks:
            judged = rubrics.get(first.task, 0)
            for key, n in by_key.get(first.task, {}).items():
                if not protocol.rubric_applies(key, ask.variant):
                    judged -= n
            judgments += run.answers_each * judged
    return responses, judgments


def fill(run: Run) -> bool:
    """Create the next chunk of a run's responses; returns False if none is missing.

    If another worker creates one meanwhile, this creates nothing.
    """
    all_tested = list(unfilled_endpoints(run).select_related("endpoint"))
    if not all_tested:
        return False
    filled = {tested.pk: tested.filled_to or 0 for tested in all_tested}
    start, *later = sorted(set(filled.values()))
    stop = None
    if later:
        stop = later[0]
    current = [tested for tested in all_tested if tested.filled_to == start]
    protocol, datasets = registry.protocol(run.release.benchmark), queries.data_sets_of(run)
    tasks = {dataset.task for dataset in datasets}
    samples = ReleasedSample.objects.filter(release=run.release_id, position__gte=start, task__in=tasks)
    samples = samples.order_by("position")
    if stop is not None:
        samples = samples.filter(position__lt=stop)
    chunk = list(samples[: max(1, CHUNK // (len(current) * run.answers_each))])
    asks = []
    with computing_for(run):
        for sample in chunk:
            asks += [(sample, ask) for ask in queries.questions(protocol, sample, run.seed, datasets)]
    end = stop
    if chunk:
        end = chunk[-1].position + 1
    is_last = end is None or not samples.filter(position__gte=end).exists()
    if is_last:
        end = stop
    with transaction.atomic():
        # The lock keeps two workers from creating the same responses.
        locked = unfilled_endpoints(run).select_for_update(of=("self",)).values_list("pk", "filled_to")
        if dict(locked) != filled:
            return True
        _create(run, current, asks)
        RunEndpoint.objects.filter(pk__in=[tested.pk for tested in current]).update(filled_to=end)
        if is_last and stop is None:
            set_totals(run)
    return True


def _create(run: Run, tested: Sequence[RunEndpoint], pending: Sequence[tuple[ReleasedSample, Ask]]) -> None:
    """Create the responses of these models to questions, each after the one that it follows."""
    protocol = registry.protocol(run.release.benchmark)
    created: dict[tuple[int, int, str, int], Response] = {}
    while pending:
        rows: dict[tuple[int, int, str, int], Response] = {}
        waiting = []
        for sample, ask in pending:
            if ask.after and _key(tested[0], sample, ask.after, 0) not in created:
                waiting.append((sample, ask))
                continue
            for model in tested:
                about = dict(queries.asked_of(protocol, sample, ask, model.endpoint.model).about)
                for repeat in range(run.answers_each):
                    row = Response(run=run, endpoint=model.endpoint, sample=sample, variant=ask.variant, repeat=repeat)
                    row.about = about
                    if ask.after:
                        row.after = created[_key(model, sample, ask.after, repeat)]
                    rows[_key(model, sample, ask.variant, repeat)] = row
        if not rows:
            missing = {ask.after for _sample, ask in pending}
            raise errors.ChainWithoutStart(", ".join(sorted(missing)))
        Response.objects.bulk_create(rows.values())
        created |= rows
        pending = waiting


def set_totals(run: Run) -> None:
    """Set the totals of a run: its rows, and those expected of models that still lack some."""
    run.responses_total, run.rubrics_total = run.responses.count(), queries.count_rubrics(run)
    unfilled = list(unfilled_endpoints(run))
    if unfilled:
        responses, rubrics = expected_rows(run)
        for tested in unfilled:
            missing = max(0, responses - run.responses.filter(endpoint=tested.endpoint_id).count())
            run.responses_total += missing
            run.rubrics_total += rubrics * missing // max(1, responses)
    run.save(update_fields=["responses_total", "rubrics_total"])


def _key(tested: RunEndpoint, sample: ReleasedSample, variant: str, repeat: int) -> tuple[int, int, str, int]:
    return tested.endpoint_id, sample.pk, variant, repeat


def fill_all(run: Run) -> None:
    """Create all missing rows."""
    while fill(run):
        pass
