"""Imports files into sources."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from django.db import DataError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from generation import errors
from generation.common import chunks, formats
from generation.common.storage import discard, fetch
from generation.engine.task_queue import check_tries, finish, lease, renew, requeue_expired, take
from generation.images.checks import CleanImage
from generation.images.files import store_clean_image
from generation.llm.errors import GivenUp
from generation.models import Import, ImportRefusal, ImportStatus, Reference, Source, SourceRecord
from generation.models.work import Work
from generation.sources import importers, other_values, own_tables, queries, reading, translated_reasons
from generation.sources.importers.base import Importer, Layout, LimitsExceeded, Refusal, Row, WrongFormat, digest_of
from generation.sources.oddities import Oddities
from generation.sources.own_tables import OwnTable
from review.audit import acts
from review.audit.trail import recording_events
from review.models import User
from review.rules import limits
from review.rules.text import one_line

Status = Work.Status

# Characters in memory at once: 500 rows of the maximum length would be gigabytes.
CHUNK_SIZE = 6 * 2**20
# Fewer than for other work: what kills the worker is the file itself, not another row in flight.
IMPORT_TRIES = 3
FACET_VALUES, OTHER = 200, "other"  # counted apart, of each facet; the value of all further ones
REFUSALS_KEPT = 1000  # per import; beyond that, refusals are only counted


def start_import(
    path: Path,
    *,
    format_name: str,
    name: str,
    file_name: str = "",
    uploaded: bool = False,
    updates: bool = False,
    table: OwnTable | None = None,
    actor: User | None = None,
) -> Import:
    """Queue the import of a file into the source `name`; a worker (or `run_import`) reads it.

    `table`: of the format `table`, which column is which field.

    Raises:
        WrongFile: unknown format, or the file has another format or is too large to read; nothing
            was stored.
        WrongMapping: a table without a mapping, or with one that does not fit.
        SourceExists: `name` is a source of another format.
        ValidationError: `name` is not a valid source name.
    """
    try:
        importer = importers.load(format_name)
        layout = None
        if format_name == own_tables.FORMAT:
            layout = own_tables.check(path, table)
        else:
            layout = _recognise(path, importer, uploaded=uploaded)
    except (WrongFormat, LimitsExceeded, formats.UnknownFormat, OSError) as error:
        reason = translated_reasons.translated(str(error))
        raise errors.WrongFile(f"{file_name or path.name}: {reason}{_format_hint(path, error)}") from error
    terms = {
        "format": format_name,
        "label": importer.label,
        "licence": importer.licence,
        "citation": importer.citation,
        "restrictions": importer.restrictions,
        "created_at": timezone.now(),
    }
    layout_name, mapping = "", {}
    if layout:
        layout_name = layout.name
    if table:
        terms |= table.terms
        mapping = table.mapping.model_dump(mode="json")
    Source(name=name, **terms).full_clean(validate_unique=False, validate_constraints=False)
    with recording_events():
        acts.record_act(acts.Kind.IMPORT, "started", name, actor, file=(file_name or path.name)[:300])
        source, _created = Source.objects.get_or_create(name=name, defaults=terms)
        if source.archived_at is not None:
            raise errors.Archived(name)
        if source.format != format_name:
            check_format(name, format_name)
            # Nothing could be read when it was first named, because its format was a mistake.
            Source.objects.filter(pk=source.pk).update(**terms)
        return Import.objects.create(
            source=source,
            file_name=file_name or path.name,
            path=str(path.resolve()),
            uploaded=uploaded,
            updates=updates,
            layout=layout_name,
            mapping=mapping,
            created_by=actor,
            created_at=timezone.now(),
        )


def check_format(name: str, format_name: str) -> None:
    """Raise SourceExists if there is a source of this name with records of another format."""
    for source in Source.objects.filter(name=name).exclude(format=format_name):
        if source.records.exists() or source.imports.exclude(status=Status.FAILED).exists():
            raise errors.SourceExists(f"{name} is {source.format}")


def _recognise(path: Path, importer: Importer, *, uploaded: bool) -> Layout | None:
    """The layout of a file; None if only its import will show it.

    Of an upload, only the first kilobytes are looked at, because a request waits.
    """
    try:
        layout = reading.recognise(path, importer)
    except WrongFormat:
        if uploaded:
            raise
        layout = None  # parts of it may lie beside it
    if layout or uploaded:
        return layout
    return reading.recognise_whole(path, importer.name)


def _format_hint(path: Path, error: Exception) -> str:
    """A hint, after a space, at the one format that fits the file; "" if several or none fit."""
    if not isinstance(error, WrongFormat | formats.UnknownFormat):
        return ""
    fitting = reading.looks_like(path)
    if len(fitting) != 1:
        return ""
    label = importers.load(fitting[0]).label
    hint = gettext("This looks like %(label)s: choose format %(name)s.") % {"label": label, "name": fitting[0]}
    return f" {hint}"


def run_import(import_id: int) -> Import:
    """Read the file of an import unless another worker does, and return the refreshed import.

    If the worker is killed, the file is read again from its beginning. The counts are those of an
    undisturbed import.
    """
    for run in take(Import.objects.filter(pk=import_id).order_by("pk"), 1):
        _read_file(run)
    return Import.objects.get(pk=import_id)


@recording_events()
def cancel_import(import_id: int) -> Import:
    """Stop an import; the records that were added stay. Its worker notices at its next records.

    May be repeated. Raises UnknownImport, ImportOver.
    """
    open_imports = Import.objects.filter(pk=import_id, status__in=(ImportStatus.QUEUED, ImportStatus.RUNNING))
    cancelled = open_imports.update(
        status=ImportStatus.CANCELLED, token=None, lease_until=None, finished_at=timezone.now()
    )
    run = queries.imports().filter(pk=import_id).first()
    if run is None:
        raise errors.UnknownImport
    if not cancelled and run.status != ImportStatus.CANCELLED:
        raise errors.ImportOver
    if cancelled:
        acts.record_act(acts.Kind.IMPORT, "cancelled", run.source.name, file=run.file_name)
    if cancelled and run.uploaded:
        transaction.on_commit(partial(discard, run.file))
    return run


def _read_file(run: Import) -> None:
    path = run.file
    imported = _FileImport(run)
    try:
        check_tries(run, IMPORT_TRIES)
        # The lease is renewed once a chunk, and while the reader is silent.
        seconds = lease().total_seconds() / 3
        keep = partial(renew, Import, [run.token])
        if run.uploaded:
            fetch(path)
        layout, entries = reading.open_file(path, run.source.format, run.file_name, run.mapping, keep)
        for chunk in _import_chunks(_store_images(entries), seconds):
            if not imported.store(chunk, layout.name):
                return
    except (WrongFormat, LimitsExceeded, OSError, GivenUp, MemoryError, DataError, UnicodeEncodeError) as error:
        failure = {"error": type(error).__name__, "detail": f"{run.file_name}: {_import_failure(error)}"}
        ended = finish(run, Status.FAILED, finished_at=timezone.now(), **failure)
    else:
        status, failure = Status.DONE, {}
        if imported.unread:
            status = Status.FAILED
            failure = {"error": "NotReadToTheEnd", "detail": f"{run.file_name}: {imported.unread}"}
        oddities = imported.oddities.found(run)
        ended = finish(run, status, finished_at=timezone.now(), oddities=oddities, **failure)
    chunks.analyze_tables(SourceRecord)
    if ended and run.uploaded:  # a failed import is not retried
        discard(path)


class _FileImport:
    """What has been read of an import's file. `unread`: where reading had to stop, and why."""

    def __init__(self, run: Import) -> None:
        self._run = run
        self._counts = Counter(rows=0, refused=0, added=run.added, differs=run.differs)
        self._facets: dict[str, Counter[str]] = {}
        self._joined: Counter[str] = Counter()
        self.unread = ""
        self.oddities = Oddities()
        # With `updates`, a row that differed equals a revision now, and is not found again.
        refusals_so_far = ImportRefusal.objects.filter(run=run)
        outdated = refusals_so_far
        if run.updates:
            outdated = refusals_so_far.filter(differs=False)
        else:
            self._counts["differs"] = 0
        outdated.delete()
        self._listed = refusals_so_far.count()

    def store(self, chunk: Sequence[Row | Refusal], layout: str) -> bool:
        """Store a chunk of the file; False if the import is no longer ours."""
        run = self._run
        good_rows, refusals = list[Row](), list[Refusal]()
        for entry in chunk:
            if isinstance(entry, Row):
                good_rows.append(entry)
            else:
                refusals.append(entry)
        with transaction.atomic():
            our_import = Import.objects.filter(pk=run.pk, token=run.token, status=Status.RUNNING)
            if not our_import.update(lease_until=timezone.now() + lease()):
                # It was cancelled, or the lease expired and another worker reads the file now.
                return False
            new, differences = _add_records(run.source, good_rows, updates=run.updates)
            if any(row.match or row.references for row in good_rows):
                ids = [row.external_id for row in good_rows]
                self._joined.update(queries.count_partners(run.source, ids))
            self._list(refusals, differences)
            for row in good_rows:
                self.oddities.add(row)
            for entry in chunk:
                self._count_facets(entry.facets)
            counts = self._counts
            counts.update(rows=len(chunk), refused=len(refusals), added=new, differs=len(differences))
            same = max(0, counts["rows"] - counts["added"] - counts["refused"] - counts["differs"])
            our_import.update(**counts, same=same, layout=layout, facets=self._facets, joined=self._joined)
        return True

    def _list(self, refusals: Sequence[Refusal], differences: Sequence[Refusal]) -> None:
        """List what was refused and what differs, as long as there is room."""
        kept = [*refusals, *differences][: max(0, REFUSALS_KEPT - self._listed)]
        rows = []
        for place, refusal in enumerate(kept):
            where, differs = refusal.where[:100], place >= len(refusals)
            rows.append(ImportRefusal(run=self._run, where=where, reason=refusal.reason, differs=differs))
        ImportRefusal.objects.bulk_create(rows)
        self._listed += len(kept)
        for refusal in refusals:
            if refusal.is_end:
                self.unread = f"{refusal.where}: {refusal.reason}"
                break

    def _count_facets(self, values: Mapping[str, str]) -> None:
        for facet, value in values.items():
            counter = self._facets.setdefault(facet, Counter())
            if value not in counter and len(counter) >= FACET_VALUES:
                value = OTHER
            counter[value] += 1


def _store_images(entries: Iterator[CleanImage | Row | Refusal]) -> Iterator[Row | Refusal]:
    """Store the images among the entries of a file, and return the others."""
    for entry in entries:
        if isinstance(entry, CleanImage):
            store_clean_image(entry)
        else:
            yield entry


def _import_failure(error: Exception) -> str:
    """The reason for a failed import, without text of any record."""
    match error:
        case MemoryError():
            return "The worker ran out of memory."
        case DataError() | UnicodeEncodeError():
            return "The database cannot store one of its records."
    return str(error)


def _import_chunks(entries: Iterator[Row | Refusal], seconds: float) -> Iterator[list[Row | Refusal]]:
    """The entries of each transaction. A chunk ends early once reading it has taken `seconds`."""
    chunk: list[Row | Refusal] = []
    size, started = 0, time.monotonic()
    failure: Exception | None = None
    try:
        for entry in entries:
            chunk.append(entry)
            if isinstance(entry, Row):
                size += entry.size
            if len(chunk) >= chunks.CHUNK or size >= CHUNK_SIZE or time.monotonic() - started >= seconds:
                yield chunk
                chunk, size, started = [], 0, time.monotonic()
    except (LimitsExceeded, OSError) as error:  # the good rows before it are kept
        failure = error
    if chunk:
        yield chunk
    if failure:
        raise failure


def _add_records(source: Source, rows: list[Row], *, updates: bool) -> tuple[int, list[Refusal]]:
    """Store the records that are new; the number of new ids, and the rows that differ.

    A row that equals any revision of its record is the same: a file can be read again. Of those
    that differ, the first one stays the record, or each becomes its next revision if `updates`.
    """
    ids = {row.external_id for row in rows}
    stored = SourceRecord.objects.filter(source=source, external_id__in=ids).order_by("revision")
    known: dict[str, list[tuple[Any, Any]]] = {}
    for external_id, content, private in stored.values_list("external_id", "content", "private"):
        known.setdefault(external_id, []).append((content, private))
    was_known = set(known)
    made: dict[str, list[Row]] = {}
    differences = []
    for row in rows:
        revisions = known.setdefault(row.external_id, [])
        value = (row.content, row.private)
        if value in revisions:
            continue
        if revisions:
            revision = None
            if updates:
                revision = len(revisions) + 1
            reason = _difference(revisions[-1], value, revision)
            differences.append(Refusal(row.where, reason))
            if not updates:
                continue
        revisions.append(value)
        made.setdefault(row.external_id, []).append(row)
    SourceRecord.objects.filter(source=source, external_id__in=was_known & made.keys()).update(latest=False)
    new = []
    for external_id, entries in made.items():
        first = len(known[external_id]) - len(entries) + 1
        for revision, row in enumerate(entries, first):
            match = ""
            if row.match:
                match = digest_of(row.match)
            record = SourceRecord(
                source=source,
                external_id=external_id,
                revision=revision,
                latest=revision == len(known[external_id]),
                title=one_line(row.title, limits.TITLE),
                language=row.language,
                language_confidence=row.language_confidence,
                content=row.content,
                private=row.private,
                match=match,
                shares=_shared(row),
            )
            new.append(record)
    SourceRecord.objects.bulk_create(new, ignore_conflicts=True)
    by_id = {external_id: entries[-1] for external_id, entries in made.items()}
    records = SourceRecord.objects.filter(source=source, external_id__in=by_id, latest=True).order_by("pk")
    latest = [(pk, by_id[external_id]) for pk, external_id in records.values_list("pk", "external_id")]

    for chunk in chunks.chunked(_references(latest)):
        Reference.objects.bulk_create(chunk, ignore_conflicts=True)
    other_values.store_values(source, ((pk, row.values) for pk, row in latest))
    return len(made.keys() - was_known), differences


def _references(records: Iterable[tuple[int, Row]]) -> Iterator[Reference]:
    for pk, row in records:
        for name, texts in row.references.items():
            for digest in dict.fromkeys(digest_of(text) for text in texts):
                yield Reference(record_id=pk, format=name, digest=digest)


def _shared(row: Row) -> str:
    """What the record may have in common with others, as `SourceRecord.shares` has it."""
    named = [f"{kind}:{digest_of(text)[:48]}" for kind, text in row.shares]
    images = [f"image:{image[:48]}" for image in row.content.get("images", ())]
    return " ".join(dict.fromkeys([*named, *images]))


def _difference(old: tuple[Any, Any], new: tuple[Any, Any], revision: int | None) -> str:
    """Which fields of a row differ from its record, and what becomes of it."""
    fields = [str(key) for key in {**old[0], **new[0]} if old[0].get(key) != new[0].get(key)]
    named = ", ".join(fields) or "its private part"
    if revision:
        return f"It differs from the record with its id in: {named}. It is now revision {revision}."
    return f"It differs from the record with its id in: {named}. That one stays, unless you import with 'update'."


def sweep() -> list[int]:
    """Requeue imports with an expired lease; returns the ids of all queued imports."""
    requeue_expired(Import)
    return list(Import.objects.filter(status=Status.QUEUED).values_list("pk", flat=True))
