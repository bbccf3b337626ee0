"""Everything that changes sources, endpoints, batches and samples."""

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.db import DataError, InterfaceError, OperationalError, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from generation import benchmarks, errors, formats, gate, importers, jobs, lanes, planning, queries
from generation.importers.base import Exhausting, Refusal, Row, WrongFormat, digest_of
from generation.lanes import AtWork, BoundModels
from generation.llm.errors import GivenUp, LLMError
from generation.models import (
    Batch,
    BatchRole,
    Comparison,
    Draft,
    Endpoint,
    Import,
    ImportRefusal,
    ImportStatus,
    Reference,
    Rubric,
    Sample,
    SampleVersion,
    Source,
    SourceRecord,
    TaxonomyTerm,
    WorkerBeat,
)
from generation.recipe import Draft as DraftValue
from generation.recipe import Dropped, NewSample, TrapPlan
from generation.work import Work, check_tries, finish, give_back_expired, lease, take
from review import queries as review_queries
from review import services as review_services
from review.machine import Ground, State
from review.models import PersonEvent, User
from review.permissions import Can, require
from review.settling import SettledRubric
from review.trail import record_person, recorded

log = logging.getLogger(__name__)
Status = Work.Status

CHUNK = 500  # rows per transaction of an import: one commit a row would take minutes, one for all would hold the writer
CHUNK_SIZE = 16 * 2**20  # characters, in memory at once: 500 rows as long as a row may be would be gigabytes
IMPORT_TRIES = 3  # fewer than of other work: what kills its worker is the file, which no other row flies with
REFUSALS_KEPT = 1000  # of one import; beyond that only their number is kept

# ---------------------------------------------------------------------------------------------------------- sources


def start_import(
    path: Path, *, format_name: str, name: str, file_name: str = "", uploaded: bool = False, actor: User | None = None
) -> Import:
    """Register a file to be read into the source `name`; a worker (or `run_import`) reads it.

    Raises:
        WrongFile: unknown format, or the file is of another kind or too much to read; nothing was stored.
        SourceExists: `name` is a source of another format. ValidationError: `name` is no name for a source.
    """
    try:
        importer = importers.load(format_name)
        layout = importer.sniff(path)
    except (WrongFormat, Exhausting, formats.UnknownFormat, OSError) as error:
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
    facets: dict[str, Counter[str]] = {}
    joined: Counter[str] = Counter()
    try:
        check_tries(run, IMPORT_TRIES)
        seconds = (
            lease().total_seconds() / 3
        )  # each chunk prolongs the lease, and the next rows may take their time, too
        for chunk in _import_chunks(importer.rows(path, importer.sniff(path)), seconds):
            good = [entry for entry in chunk if isinstance(entry, Row)]
            bad = [entry for entry in chunk if isinstance(entry, Refusal)]
            with transaction.atomic():
                ours = Import.objects.filter(pk=run.pk, token=run.token, status=Status.RUNNING)
                if not ours.update(lease_until=timezone.now() + lease()):
                    return  # it was cancelled, or the lease ran out and somebody else reads the file now
                added += _add_records(run.source, good)
                if any(row.match or row.refers for row in good):
                    joined.update(queries.partners_found(run.source, [row.external_id for row in good]))
                ImportRefusal.objects.bulk_create(
                    ImportRefusal(run=run, where=entry.where[:100], reason=entry.reason)
                    for entry in bad[: max(0, REFUSALS_KEPT - refused)]
                )
                rows, refused = rows + len(chunk), refused + len(bad)
                for row in good:
                    for facet, value in row.facets.items():
                        facets.setdefault(facet, Counter())[value] += 1
                came_to = {"rows": rows, "added": added, "refused": refused, "known": rows - added - refused}
                ours.update(**came_to, facets=facets, joined=joined)
    except (WrongFormat, Exhausting, OSError, GivenUp, MemoryError, DataError, UnicodeEncodeError) as error:
        said = {"error": type(error).__name__, "detail": f"{run.file_name}: {_import_failure(error)}"}
        ended = finish(run, Status.FAILED, finished_at=timezone.now(), **said)
    else:
        ended = finish(run, Status.DONE, finished_at=timezone.now())
    if ended and run.uploaded:  # a failed import is not taken up again
        path.unlink(missing_ok=True)


def _import_failure(error: Exception) -> str:
    """What ended an import, without the text of a record."""
    match error:
        case MemoryError():
            return "The worker ran out of memory."
        case DataError() | UnicodeEncodeError():
            return "The database cannot store one of its records."
    return str(error)


def _import_chunks(entries: Iterator[Row | Refusal], seconds: float) -> Iterator[list[Row | Refusal]]:
    """The entries in what goes into one transaction each; what took `seconds` to read goes in as it is."""
    chunk: list[Row | Refusal] = []
    size, began = 0, time.monotonic()
    for entry in entries:
        chunk.append(entry)
        if isinstance(entry, Row):
            size += len(json.dumps([entry.content, entry.private]))
        if len(chunk) >= CHUNK or size >= CHUNK_SIZE or time.monotonic() - began >= seconds:
            yield chunk
            chunk, size, began = [], 0, time.monotonic()
    if chunk:
        yield chunk


def cancel_import(import_id: int) -> Import:
    """Read no further; the records that were added stay. Whoever reads the file notices at its next records.

    May be said twice. Raises UnknownImport, ImportOver.
    """
    open_now = Import.objects.filter(pk=import_id, status__in=(ImportStatus.QUEUED, ImportStatus.RUNNING))
    cancelled = open_now.update(status=ImportStatus.CANCELLED, token=None, lease_until=None, finished_at=timezone.now())
    run = queries.imports().filter(pk=import_id).first()
    if run is None:
        raise errors.UnknownImport
    if not cancelled and run.status != ImportStatus.CANCELLED:
        raise errors.ImportOver
    if cancelled and run.uploaded:
        transaction.on_commit(partial(Path(run.path).unlink, missing_ok=True))
    return run


def _add_records(source: Source, rows: list[Row]) -> int:
    unique: dict[str, Row] = {}
    for row in rows:
        unique.setdefault(row.external_id, row)  # the first one counts, as it does across chunks and imports
    stored = SourceRecord.objects.filter(source=source, external_id__in=unique)
    known = dict(stored.values_list("external_id", "match"))
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
    # Those without a match are new, or from before there was any.
    _refer(source, [row for row in unique.values() if (row.match or row.refers) and not known.get(row.external_id)])
    return len(new)


def _refer(source: Source, rows: list[Row]) -> None:
    """Keep by what the stored records of these rows are referred to, and whom they refer to."""
    if not rows:
        return
    by_id = {row.external_id: row for row in rows}
    records = list(SourceRecord.objects.filter(source=source, external_id__in=by_id).only("external_id", "match"))
    for record in records:
        match = by_id[record.external_id].match
        record.match = digest_of(match) if match else ""
    SourceRecord.objects.bulk_update(records, ["match"], batch_size=CHUNK)
    references = (
        Reference(record=record, format=name, digest=digest)
        for record in records
        for name, texts in by_id[record.external_id].refers.items()
        for digest in dict.fromkeys(map(digest_of, texts))
    )
    for chunk in _chunks(references):
        Reference.objects.bulk_create(chunk, ignore_conflicts=True)


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


def save_term(term: TaxonomyTerm, *, actor: User) -> None:
    """Add a taxonomy term to those that a benchmark ships, or change one, with its event. Raises NotAllowed."""
    require(actor, Can.PRODUCE)
    with recorded():
        term.save()
        values = {name: getattr(term, name) for name in ("benchmark", "code", "parent", "label", "definition")}
        record_person(actor, PersonEvent.Kind.TERM, actor, **values)


# ---------------------------------------------------------------------------------------------------------- batches


@dataclass(frozen=True, slots=True)
class Setting:
    """How a batch is to be made, besides its models.

    `plan`: which traps are wanted how often. `prompts`: the set of prompt files. `preset`: the recipe's, "" for the usual one;
    `changes`: values of it that are to be others (`benchmarks.settings_of`).
    `checks`: None stands for all there are.
    `budget_money`, `budget_calls`: what its calls may cost, and how many there may be; None: no limit. `fresh`: ask anew what
    has been paid for already.
    """

    plan: TrapPlan | None = None
    prompts: str = ""
    preset: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    checks: Sequence[str] | None = None
    budget_money: Decimal | None = None
    budget_calls: int | None = None
    fresh: bool = False


def launch_batch(
    *,
    benchmark: str,
    source: Source,
    roles: Mapping[str, Endpoint],
    limit: int | None = None,
    setting: Setting = Setting(),
    actor: User | None = None,
    key: str = "",
) -> Batch:
    """Queue a draft for up to `limit` records that have no draft of this benchmark yet, oldest first.

    `key`: what the same person launched under it before is returned, and nothing launched.

    Raises:
        KeyReused: something else was launched under this key.
        RolesUnbound: a role that these records need has no endpoint. NothingToDo: no record is left that the recipe takes.
        UnknownRole, WrongPlan, UnknownPrompts, UnknownPreset, WrongSetting, UnknownCheck: what was chosen does not fit the
        recipe.
    """

    def make() -> Batch:
        chosen = _choose_records(benchmark, source, limit)
        batch = _new_batch(benchmark, source, queries.bound(benchmark, roles, _kinds(chosen)), setting, actor)
        _queue_drafts(batch, chosen, setting.plan)
        return batch

    asked = {"benchmark": benchmark, "source": source, "roles": roles, "limit": limit, "setting": setting}
    return jobs.once(Batch, key, make, actor=actor, asked=asked)


def launch_comparison(
    *,
    benchmark: str,
    source: Source,
    roles: Mapping[str, Endpoint],
    prompts: tuple[str, str],
    limit: int | None = None,
    setting: Setting = Setting(),
    actor: User | None = None,
    key: str = "",
) -> Comparison:
    """Queue two batches over the same records with the same plan, each with its own set of prompts.

    `key`: as with `launch_batch`. Raises SamePrompts, and what `launch_batch` raises.
    """
    if len({benchmarks.prompts_of(benchmark, name, setting.preset) for name in prompts}) == 1:
        raise errors.SamePrompts

    def make() -> Batch:
        chosen = _choose_records(benchmark, source, limit)
        bound = queries.bound(benchmark, roles, _kinds(chosen))
        comparison = Comparison.objects.create(
            benchmark=benchmark, source=source, created_by=actor, created_at=timezone.now()
        )
        made = []
        for arm, name in zip("AB", prompts, strict=True):
            batch = _new_batch(benchmark, source, bound, replace(setting, prompts=name), actor, comparison, arm)
            _queue_drafts(batch, chosen, setting.plan)
            made.append(batch)
        return made[0]

    asked = {
        "benchmark": benchmark,
        "source": source,
        "roles": roles,
        "limit": limit,
        "setting": setting,
        "prompts": prompts,
    }
    return Comparison.objects.get(batches=jobs.once(Batch, key, make, actor=actor, asked=asked, what="comparison"))


def _choose_records(benchmark: str, source: Source, limit: int | None) -> list[tuple[int, str]]:
    """The records of a launch with their kinds. Two launches at once would use a record twice: the source is locked."""
    recipe = benchmarks.recipe(benchmark)
    if limit is not None and limit < 1:
        raise errors.NothingToDo
    Source.objects.select_for_update(no_key=True).get(pk=source.pk)
    records = queries.records_without_draft(source, benchmark, recipe.kinds)
    chosen = list(records.values_list("pk", "content__kind")[:limit])
    if not chosen:
        raise errors.NothingToDo
    return chosen


def _kinds(chosen: Sequence[tuple[int, str]]) -> set[str]:
    return {kind for _pk, kind in chosen}


def _new_batch(
    benchmark: str,
    source: Source,
    roles: Mapping[str, Endpoint],
    setting: Setting,
    actor: User | None,
    comparison: Comparison | None = None,
    arm: str = "",
) -> Batch:
    recipe = benchmarks.recipe(benchmark)
    if setting.prompts and setting.prompts not in recipe.prompt_sets:
        raise errors.UnknownPrompts(f"{setting.prompts!r}; known: {', '.join(recipe.prompt_sets) or '-'}")
    preset = benchmarks.preset(benchmark, setting.preset)
    settings = benchmarks.settings_of(benchmark, setting.preset, setting.changes)
    known = benchmarks.check_names(benchmark)
    wanted = known if setting.checks is None else setting.checks
    if unknown := [name for name in wanted if name not in known]:
        raise errors.UnknownCheck(f"{', '.join(unknown)}; known: {', '.join(known) or '-'}")
    batch = Batch.objects.create(
        benchmark=benchmark,
        source=source,
        checks=[name for name in known if name in wanted],
        prompts=benchmarks.prompts_of(benchmark, setting.prompts, setting.preset),
        preset=preset.name if preset else "",
        settings=settings,
        changed=[name for name in settings if preset and settings[name] != preset.values[name]],
        budget_money=setting.budget_money,
        budget_calls=setting.budget_calls,
        fresh=setting.fresh,
        comparison=comparison,
        arm=arm,
        created_by=actor,
        created_at=timezone.now(),
    )
    BatchRole.objects.bulk_create(
        BatchRole(batch=batch, role=name, endpoint=endpoint) for name, endpoint in roles.items()
    )
    return batch


def _queue_drafts(batch: Batch, records: Sequence[tuple[int, str]], plan: TrapPlan | None) -> None:
    hands = _deal(batch, records, plan)
    drafts = (
        Draft(batch=batch, record_id=pk, preferred=hand) for (pk, _kind), hand in zip(records, hands, strict=True)
    )
    for chunk in _chunks(drafts):
        Draft.objects.bulk_create(chunk)


def _deal(batch: Batch, records: Sequence[tuple[int, str]], plan: TrapPlan | None) -> list[list[str]]:
    """What each record is asked for; the plan, scaled to the batch, is kept with it.

    The seed is of the plan and its records: the same launch anywhere gives the same prompts, and so does a batch beside it.
    """
    hands: list[list[str]] = [[] for _ in records]
    if plan is None:
        return hands
    terms = queries.terms(batch.benchmark)
    kept: dict[str, Any] = {"name": plan.name, "targets": {}, "clusters": {}}
    try:
        for task in dict.fromkeys(kind for _pk, kind in records):
            places = [at for at, (_pk, kind) in enumerate(records) if kind == task]
            targets = planning.targets_for(plan, task, len(places), terms)
            seed = json.dumps([batch.benchmark, batch.source.name, task, targets])
            dealt = planning.deal(targets, len(places), terms, seed=seed)
            for at, hand in zip(places, dealt, strict=True):
                hands[at] = list(hand)
            if targets:
                kept["targets"][task] = targets
                kept["clusters"][task] = planning.clusters_of(dealt, terms)
    except planning.PlanMistake as mistake:
        raise errors.WrongPlan(str(mistake)) from mistake
    if not kept["targets"]:
        raise errors.WrongPlan(", ".join(plan.targets))
    batch.plan = kept
    batch.save(update_fields=["plan"])
    return hands


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
            for row in take(drafts.order_by("pk"), count, lane.claim)
        ]

    done = lanes.work(batch, bound.values(), take_rows, drafts.filter(status=Status.QUEUED).exists)
    jobs.pause_if_spent(Batch, batch_id)
    settle_batch(batch_id)
    return done


async def _work_on_draft(row: Draft, batch: Batch, models: BoundModels) -> None:
    recipe = benchmarks.recipe(batch.benchmark)
    try:
        check_tries(row)
        value = await sync_to_async(queries.draft_value)(row)
        step = recipe.steps[row.step]
        outputs = await step.run(value, models) if step.applies(value) else [value]
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
    following = row.step + 1
    while following < len(recipe.steps) and not any(map(recipe.steps[following].applies, outputs)):
        following += 1
    if following == len(recipe.steps):
        if finish(row, Status.DONE, data=outputs[0].data):
            for output in outputs:
                _admit(row, batch, output)
    elif len(outputs) == 1:
        finish(row, Status.QUEUED, data=outputs[0].data, step=following, tries=0)
    elif finish(row, Status.DONE):
        Draft.objects.bulk_create(
            Draft(
                batch=batch,
                record_id=row.record_id,
                parent=row,
                sample_id=row.sample_id,
                version=row.version,
                step=following,
                data=output.data,
                preferred=row.preferred,
            )
            for output in outputs
        )


def _admit(row: Draft, batch: Batch, value: DraftValue) -> None:
    """Put what was made before physicians, unless a check stops it, or the batch was cancelled while a model answered."""
    if row.sample_id is not None:
        sample = Sample.objects.select_for_update(no_key=True).get(pk=row.sample_id)
        if sample.status != Sample.Status.REGENERATING:
            said = {"error": "Dropped", "detail": f"The sample is {sample.status} by now."}
            Draft.objects.filter(pk=row.pk).update(status=Status.DROPPED, **said)
            return
    made = benchmarks.recipe(batch.benchmark).sample(value)
    print_ = gate.print_of(batch, made)
    if gate.examine(row, batch, value, print_):
        gate.stop(row)
    else:
        gate.remember(_make_version(row, batch, made), print_)


@transaction.atomic
def _drop(row: Draft, reason: str) -> None:
    """Give a draft up. The sample whose next version it was to be cannot come back to physicians: it is discarded."""
    if finish(row, Status.DROPPED, error="Dropped", detail=reason):
        Sample.objects.filter(drafts=row).update(status=Sample.Status.DISCARDED)


def _make_version(row: Draft, batch: Batch, made: NewSample) -> SampleVersion:
    now = timezone.now()
    simulated = queries.endpoints_of(batch).filter(simulated=True).exists()
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
        prompt=made.prompt[:100],
        generator=_generator(batch),
        traps=list(dict.fromkeys(trap for rubric in made.rubrics for trap in rubric.traps)),
        made=dict(made.made),
        created_at=now,
    )
    Rubric.objects.bulk_create(
        Rubric(version=version, key=rubric.key, criterion=rubric.criterion, traps=list(rubric.traps))
        for rubric in made.rubrics
    )
    Sample.objects.filter(pk=sample.pk).update(status=Sample.Status.IN_REVIEW)
    return version


def _generator(batch: Batch) -> str:
    """The name of the endpoint that writes the samples; empty where none was asked for these records."""
    roles = benchmarks.recipe(batch.benchmark).roles
    bound = BatchRole.objects.filter(batch=batch, role=roles[0].name) if roles else BatchRole.objects.none()
    return bound.values_list("endpoint__name", flat=True).first() or ""


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
    lanes.open_again(queries.endpoints_of(batch))
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

    Approved: the rubrics get the wording and the severity settled on; those of a case that nobody was to review stay as they
    are. Rejected: the next version is queued with the reasons;
    where no version can mend them, past the recipe's limit, or where the batch was cancelled, the sample is discarded. The
    version's own status says whether it was handled, so that this can be killed and repeated at any point. One that cannot be
    handled (a fault of ours, a benchmark that is gone) is logged and left as it is, and keeps no other from being handled.
    """
    waiting = SampleVersion.objects.filter(status=SampleVersion.Status.IN_REVIEW, case__closed_at__isnull=False)
    handled = 0
    for pk in list(waiting.order_by("pk").values_list("pk", flat=True)):
        try:
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
        except (OperationalError, InterfaceError):  # the database is away
            raise
        except Exception:
            log.exception("what physicians decided on version %s cannot be carried over", pk)
    return handled


def _handle(version: SampleVersion) -> None:
    sample, case = version.sample, version.case
    outcome = review_queries.settled(case)
    if outcome.state is State.APPROVED:
        version.status, sample.status = SampleVersion.Status.APPROVED, Sample.Status.APPROVED
        version.citations = [asdict(citation) for citation in outcome.citations]
        if outcome.ground != Ground.UNREVIEWED:
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
        batch_id=sample.batch_id,
        record_id=sample.record_id,
        sample=sample,
        version=version.number + 1,
        preferred=version.draft.preferred,
    )
    return True


# ---------------------------------------------------------------------------------------------- what a check stopped


@recorded()  # opening a case is an event
def let_through(draft_id: int, *, actor: User | None, reason: str) -> SampleVersion:
    """Put before physicians what a check had stopped. Raises NotStopped, ReasonMissing, BatchOver (a cancelled one's)."""
    row = gate.held(draft_id, reason)
    if row.sample is not None and row.sample.status != Sample.Status.REGENERATING:
        raise errors.BatchOver
    value = queries.draft_value(row)
    made = benchmarks.recipe(row.batch.benchmark).sample(value)
    gate.decide(row, Draft.Gate.LET_THROUGH, actor, reason)
    version = _make_version(row, row.batch, made)
    gate.remember(version, gate.print_of(row.batch, made))
    return version


@transaction.atomic
def discard_stopped(draft_id: int, *, actor: User | None, reason: str) -> Draft:
    """Give up for good what a check had stopped; a sample that it was to be the next version of is discarded with it.

    Raises NotStopped, ReasonMissing.
    """
    row = gate.held(draft_id, reason)
    gate.decide(row, Draft.Gate.DISCARDED, actor, reason)
    Sample.objects.filter(drafts=row, status=Sample.Status.REGENERATING).update(status=Sample.Status.DISCARDED)
    return row


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
