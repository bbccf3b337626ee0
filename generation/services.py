"""Everything that changes sources, endpoints, batches and samples."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from generation import benchmarks, errors, formats, importers, jobs, lanes, queries
from generation.importers.base import Refusal, Row, WrongFormat
from generation.lanes import AtWork, BoundModels
from generation.llm.errors import GivenUp, LLMError
from generation.models import (
    Batch,
    BatchRole,
    Draft,
    Endpoint,
    Import,
    ImportRefusal,
    Rubric,
    Sample,
    SampleVersion,
    Source,
    SourceRecord,
    WorkerBeat,
)
from generation.recipe import Draft as DraftValue
from generation.recipe import Dropped, NewSample
from generation.work import Work, check_tries, finish, give_back_expired, lease, take
from review import queries as review_queries
from review import services as review_services
from review.machine import State
from review.models import User
from review.settling import SettledRubric
from review.trail import recorded

log = logging.getLogger(__name__)
Status = Work.Status

CHUNK = 500  # rows per transaction of an import: one commit a row would take minutes, one for all would hold the writer
REFUSALS_KEPT = 1000  # of one import; beyond that only their number is kept

# ---------------------------------------------------------------------------------------------------------- sources


def start_import(
    path: Path, *, format_name: str, name: str, file_name: str = "", uploaded: bool = False, actor: User | None = None
) -> Import:
    """Register a file to be read into the source `name`; a worker (or `run_import`) reads it.

    Raises:
        WrongFile: unknown format, or the file is of another kind; nothing was stored. SourceExists: `name` is a source of
        another format. ValidationError: `name` is no name for a source.
    """
    try:
        importer = importers.load(format_name)
        layout = importer.sniff(path)
    except (WrongFormat, formats.UnknownFormat, OSError) as error:
        raise errors.WrongFile(f"{file_name or path.name}: {error}") from error
    about = {
        "format": format_name,
        "label": importer.label,
        "licence": importer.licence,
        "citation": importer.citation,
        "restrictions": importer.restrictions,
        "created_at": timezone.now(),
    }
    Source(name=name, **about).full_clean(validate_unique=False, validate_constraints=False)
    with transaction.atomic():
        source, _created = Source.objects.get_or_create(name=name, defaults=about)
        if source.format != format_name:
            raise errors.SourceExists(f"{name} is {source.format}")
        return Import.objects.create(
            source=source,
            file_name=file_name or path.name,
            path=str(path.resolve()),
            uploaded=uploaded,
            layout=layout.name,
            created_by=actor,
            created_at=timezone.now(),
        )


def run_import(import_id: int) -> Import:
    """Read the file of an import, if nobody else does, and return it as it stands afterwards.

    Killed half-way, it is read again from its beginning: what is known already is counted as known and not added.
    """
    for run in take(Import.objects.filter(pk=import_id).order_by("pk"), 1):
        _read(run)
    return Import.objects.get(pk=import_id)


def _read(run: Import) -> None:
    importer = importers.load(run.source.format)
    path = Path(run.path)
    ImportRefusal.objects.filter(run=run).delete()
    rows = added = refused = 0
    try:
        check_tries(run)
        entries = importer.rows(path, importer.sniff(path))
        while chunk := list(islice(entries, CHUNK)):
            good = [entry for entry in chunk if isinstance(entry, Row)]
            bad = [entry for entry in chunk if isinstance(entry, Refusal)]
            with transaction.atomic():
                ours = Import.objects.filter(pk=run.pk, token=run.token, status=Status.RUNNING)
                if not ours.update(lease_until=timezone.now() + lease()):
                    return  # the lease ran out and somebody else reads the file now
                added += _add_records(run.source, good)
                ImportRefusal.objects.bulk_create(
                    ImportRefusal(run=run, where=entry.where[:100], reason=entry.reason)
                    for entry in bad[: max(0, REFUSALS_KEPT - refused)]
                )
                rows, refused = rows + len(chunk), refused + len(bad)
                ours.update(rows=rows, added=added, refused=refused, known=rows - added - refused)
    except (WrongFormat, OSError, GivenUp) as error:
        said = {"error": type(error).__name__, "detail": str(error)}
        ended = finish(run, Status.FAILED, finished_at=timezone.now(), **said)
    else:
        ended = finish(run, Status.DONE, finished_at=timezone.now())
    if ended and run.uploaded:  # a failed import is not taken up again
        path.unlink(missing_ok=True)


def _add_records(source: Source, rows: list[Row]) -> int:
    unique: dict[str, Row] = {}
    for row in rows:
        unique.setdefault(row.external_id, row)  # the first one counts, as it does across chunks and imports
    known = set(
        SourceRecord.objects.filter(source=source, external_id__in=unique).values_list("external_id", flat=True)
    )
    new = [
        SourceRecord(
            source=source,
            external_id=row.external_id,
            title=row.title[:300],
            language=row.language,
            content=row.content,
            private=row.private,
        )
        for row in unique.values()
        if row.external_id not in known
    ]
    SourceRecord.objects.bulk_create(new, ignore_conflicts=True)
    return len(new)


# -------------------------------------------------------------------------------------------------------- endpoints


def add_endpoint(*, actor: User | None = None, **fields: Any) -> Endpoint:  # noqa: ARG001
    """Make an endpoint. Raises ValidationError with one message per wrong field."""
    endpoint = Endpoint(**{"simulated": str(fields.get("model", "")).startswith("sim-"), **fields})
    endpoint.full_clean()
    endpoint.save()
    return endpoint


def change_endpoint(endpoint: Endpoint, **fields: Any) -> Endpoint:
    """Change an endpoint's settings. Raises ValidationError with one message per wrong field.

    Once it has answered, its address and model stay as they are: results name them. (Not once it was merely called: after a
    slip in the address, the batch and its records would be tied to an endpoint that nobody can mend.) Simulated stays
    simulated, so that no result loses its banner.
    """
    called = queries.has_answered(endpoint)
    changed = {name: value for name, value in fields.items() if not (called and name in ("url", "model"))}
    for name, value in changed.items():
        setattr(endpoint, name, value)
    endpoint.simulated = endpoint.simulated or endpoint.model.startswith("sim-")
    endpoint.full_clean()
    endpoint.save(update_fields=[*changed, "simulated"])
    return endpoint


# ---------------------------------------------------------------------------------------------------------- batches


@transaction.atomic
def launch_batch(
    *,
    benchmark: str,
    source: Source,
    roles: Mapping[str, Endpoint],
    limit: int | None = None,
    budget_money: Decimal | None = None,
    budget_calls: int | None = None,
    fresh: bool = False,
    actor: User | None = None,
) -> Batch:
    """Queue a draft for up to `limit` records that have no draft of this benchmark yet, oldest first.

    `budget_money`, `budget_calls`: what its calls may cost, and how many there may be; None: no limit. `fresh`: ask
    anew what has been paid for already.

    Raises:
        RolesUnbound: a role of the recipe has no endpoint. NothingToDo: no record is left that the recipe takes.
    """
    recipe = benchmarks.recipe(benchmark)
    missing = [role.name for role in recipe.roles if role.name not in roles]
    if missing:
        raise errors.RolesUnbound(", ".join(missing))
    if limit is not None and limit < 1:
        raise errors.NothingToDo
    now = timezone.now()
    Source.objects.select_for_update(no_key=True).get(pk=source.pk)  # two launches at once would use a record twice
    records = queries.records_without_draft(source, benchmark, recipe.kinds)
    batch = Batch.objects.create(
        benchmark=benchmark,
        source=source,
        budget_money=budget_money,
        budget_calls=budget_calls,
        fresh=fresh,
        created_by=actor,
        created_at=now,
    )
    BatchRole.objects.bulk_create(
        BatchRole(batch=batch, role=role.name, endpoint=roles[role.name]) for role in recipe.roles
    )
    chosen = records.values_list("pk", flat=True)
    drafts = (Draft(batch=batch, record_id=pk) for pk in chosen[:limit].iterator(chunk_size=CHUNK))
    made = 0
    for chunk in _chunks(drafts):
        made += len(Draft.objects.bulk_create(chunk))
    if not made:
        raise errors.NothingToDo
    return batch


def _chunks(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while chunk := list(islice(rows, CHUNK)):
        yield chunk


def work_on_batch(batch_id: int) -> int:
    """Work on a batch's drafts in a lane until none is queued or its time is up; returns how many were worked on."""
    batch = Batch.objects.get(pk=batch_id)
    roles = BatchRole.objects.filter(batch=batch).select_related("endpoint")
    bound = {role.role: role.endpoint for role in roles}
    drafts = Draft.objects.filter(batch=batch)

    def take_rows(lane: AtWork, count: int) -> lanes.Rows:
        stopped = not Batch.objects.filter(pk=batch.pk, status=Batch.Status.RUNNING).exists()
        if stopped or any(lane.away(endpoint) for endpoint in bound.values()):
            return []
        return [
            (row, partial(_work_on_draft, row, batch, lane.models(bound, row)))
            for row in take(drafts.order_by("pk"), count)
        ]

    done = lanes.work(batch, bound.values(), take_rows, drafts.filter(status=Status.QUEUED).exists)
    settle_batch(batch_id)
    return done


async def _work_on_draft(row: Draft, batch: Batch, models: BoundModels) -> None:
    recipe = benchmarks.recipe(batch.benchmark)
    try:
        check_tries(row)
        value = await sync_to_async(queries.draft_value)(row)
        outputs = await recipe.steps[row.step].run(value, models)
    except Dropped as reason:
        await sync_to_async(_drop)(row, str(reason))
    except lanes.NOT_ITS_FAULT:
        raise
    except LLMError as error:
        await sync_to_async(finish)(row, Status.FAILED, error=error.kind, detail=str(error))
    else:
        await sync_to_async(_keep)(row, batch, list(outputs))


@recorded()  # opening a case is an event
def _keep(row: Draft, batch: Batch, outputs: list[DraftValue]) -> None:
    """Store what a step made of a draft: the next step of the same row, children where it became several, or samples."""
    recipe = benchmarks.recipe(batch.benchmark)
    if not outputs:
        _drop(row, recipe.steps[row.step].name)
        return
    last = row.step + 1 == len(recipe.steps)
    if last:
        if finish(row, Status.DONE, data=outputs[0].data):
            for output in outputs:
                _make_version(row, batch, recipe.sample(output))
    elif len(outputs) == 1:
        finish(row, Status.QUEUED, data=outputs[0].data, step=F("step") + 1, tries=0)
    elif finish(row, Status.DONE):
        Draft.objects.bulk_create(
            Draft(
                batch=batch,
                record_id=row.record_id,
                parent=row,
                sample_id=row.sample_id,
                version=row.version,
                step=row.step + 1,
                data=output.data,
            )
            for output in outputs
        )


@transaction.atomic
def _drop(row: Draft, reason: str) -> None:
    """Give a draft up. The sample whose next version it was to be cannot come back to physicians: it is discarded."""
    if finish(row, Status.DROPPED, error="Dropped", detail=reason):
        Sample.objects.filter(drafts=row).update(status=Sample.Status.DISCARDED)


def _make_version(row: Draft, batch: Batch, made: NewSample) -> SampleVersion:
    now = timezone.now()
    simulated = Endpoint.objects.filter(pk__in=batch.roles.values("endpoint"), simulated=True).exists()
    sample = row.sample or Sample.objects.create(
        benchmark=batch.benchmark, task=made.task, batch=batch, record_id=row.record_id, created_at=now
    )
    spec = benchmarks.case_spec(batch.benchmark, made, sample.key, row.version)
    previous = SampleVersion.objects.filter(sample=sample).order_by("-number").first()
    case = review_services.open_case(
        spec.with_history(asked_for=tuple(previous.reasons) if previous else (), simulated=simulated)
    )
    version = SampleVersion.objects.create(
        sample=sample,
        number=row.version,
        draft=row,
        case=case,
        title=made.title[:300],
        content=dict(made.content),
        simulated=simulated,
        created_at=now,
    )
    Rubric.objects.bulk_create(
        Rubric(version=version, key=rubric.key, criterion=rubric.criterion, traps=list(rubric.traps))
        for rubric in made.rubrics
    )
    Sample.objects.filter(pk=sample.pk).update(status=Sample.Status.IN_REVIEW)
    return version


@transaction.atomic
def settle_batch(batch_id: int) -> None:
    """Mark a batch finished when no draft of it is open any more, and running again when one is; a pause stays a pause."""
    batch = Batch.objects.select_for_update(no_key=True).get(pk=batch_id)
    is_open = Draft.objects.filter(batch=batch, status__in=[Status.QUEUED, Status.RUNNING]).exists()
    jobs.settle(batch, is_open=is_open)


def pause_batch(batch_id: int) -> Batch:
    """Start no further call of a batch; what is in flight is kept. Raises JobOver."""
    return jobs.pause(Batch, batch_id)


def resume_batch(batch_id: int) -> Batch:
    """Go on with a paused batch, its endpoints included. Raises JobOver, BudgetTooSmall."""
    batch = jobs.resume(Batch, batch_id)
    lanes.open_again(Endpoint.objects.filter(pk__in=batch.roles.values("endpoint")))
    return batch


def set_batch_budget(batch_id: int, *, money: Decimal | None, calls: int | None) -> Batch:
    """Give a batch another budget; one that had paused for want of it goes on. Raises JobOver, BudgetTooSmall."""
    return jobs.set_budget(Batch, batch_id, money=money, calls=calls)


@transaction.atomic
def cancel_batch(batch_id: int) -> Batch:
    """Take no further draft of this batch; what was made stays, and what waited to be made again is discarded.

    Records that it had not come to are free for another batch. Raises BatchOver when it is finished.
    """
    batch = Batch.objects.select_for_update(no_key=True).get(pk=batch_id)
    if batch.status == Batch.Status.FINISHED:
        raise errors.BatchOver
    if jobs.cancel(batch):
        Sample.objects.filter(batch=batch, status=Sample.Status.REGENERATING).update(status=Sample.Status.DISCARDED)
    return batch


@transaction.atomic
def retry_failed(batch_id: int) -> int:
    """Queue the failed drafts of a batch again; returns how many. Raises BatchOver for a cancelled batch."""
    if Batch.objects.filter(pk=batch_id, status=Batch.Status.CANCELLED).exists():
        raise errors.BatchOver
    count = Draft.objects.filter(batch_id=batch_id, status=Status.FAILED).update(
        status=Status.QUEUED, error="", detail="", tries=0
    )
    settle_batch(batch_id)
    return count


# ------------------------------------------------------------------------------------------------ what physicians said


def handle_outcomes() -> int:
    """Carry what physicians decided over to the samples; returns how many versions were handled.

    Approved: the rubrics get the wording and the severity settled on. Rejected: the next version is queued with the reasons;
    where no version can mend them, past the recipe's limit, or where the batch was cancelled, the sample is discarded. The
    version's own status says whether it was handled, so that this can be killed and repeated at any point.
    """
    waiting = SampleVersion.objects.filter(status=SampleVersion.Status.IN_REVIEW, case__closed_at__isnull=False)
    handled = 0
    for pk in list(waiting.order_by("pk").values_list("pk", flat=True)):
        with transaction.atomic():
            version = (
                waiting.select_for_update(of=("self",), skip_locked=True)
                .select_related("sample", "case")
                .filter(pk=pk)
                .first()
            )
            if version is not None:
                _handle(version)
                handled += 1
    return handled


def _handle(version: SampleVersion) -> None:
    sample, case = version.sample, version.case
    outcome = review_queries.settled(case)
    if outcome.state is State.APPROVED:
        version.status, sample.status = SampleVersion.Status.APPROVED, Sample.Status.APPROVED
        version.citations = [asdict(citation) for citation in outcome.citations]
        _settle_rubrics(version, outcome.rubrics)
    elif outcome.state is State.WITHDRAWN:
        version.status, sample.status = SampleVersion.Status.WITHDRAWN, Sample.Status.WITHDRAWN
    else:
        version.status, version.reasons = SampleVersion.Status.REJECTED, list(outcome.reasons)
        again = outcome.reducible and _queue_next(version)
        sample.status = Sample.Status.REGENERATING if again else Sample.Status.DISCARDED
    version.save(update_fields=["status", "reasons", "citations"])
    sample.save(update_fields=["status"])


def _settle_rubrics(version: SampleVersion, settled: Sequence[SettledRubric]) -> None:
    known = {rubric.key: rubric for rubric in version.rubrics.all()}
    for each in settled:
        rubric = known.get(each.key) or Rubric(
            version=version, key=each.key, criterion=each.criterion, traps=list(each.tags), added=True
        )
        rubric.approved, rubric.severity, rubric.removed = each.criterion, each.severity, each.removed
        rubric.save()


def _queue_next(version: SampleVersion) -> bool:
    """Queue the next version of a rejected one; False where there may be none."""
    sample = version.sample
    if version.number >= benchmarks.recipe(sample.benchmark).max_versions:
        return False
    batch = Batch.objects.select_for_update(no_key=True).get(pk=sample.batch_id)
    if batch.status == Batch.Status.CANCELLED:
        return False
    jobs.settle(batch, is_open=True)
    Draft.objects.create(
        batch_id=sample.batch_id, record_id=sample.record_id, sample=sample, version=version.number + 1
    )
    return True


# ---------------------------------------------------------------------------------------------------------- sweeping


@dataclass(frozen=True, slots=True)
class Due:
    """What waits for a worker; a batch once for each lane that it may have."""

    imports: list[int]
    batches: list[int]


def sweep() -> Due:
    """Give back what died with its holder, carry outcomes over, and say what no worker is on."""
    give_back_expired(Import)
    give_back_expired(Draft)
    handle_outcomes()
    for batch_id in queries.batches_to_settle():
        settle_batch(batch_id)
    queued = Draft.objects.filter(batch=OuterRef("pk"), status=Status.QUEUED)
    return Due(
        imports=list(Import.objects.filter(status=Status.QUEUED).values_list("pk", flat=True)),
        batches=lanes.due(Batch.objects.filter(Exists(queued))),
    )


def batch_waits(batch_id: int) -> bool:
    """Whether a running batch has queued drafts and may have another lane now."""
    queued = Draft.objects.filter(batch=OuterRef("pk"), status=Status.QUEUED)
    return bool(lanes.due(Batch.objects.filter(Exists(queued), pk=batch_id)))


BEAT = timedelta(seconds=5)


def worker_alive(name: str) -> None:
    """A worker says that it lives; every `BEAT`."""
    WorkerBeat.objects.update_or_create(name=name, defaults={"seen_at": timezone.now()})


def worker_gone(name: str) -> None:
    """A worker says good-bye."""
    WorkerBeat.objects.filter(name=name).delete()
