"""Imports sources."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from django.db import DataError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from generation import errors
from generation.common import chunks, formats
from generation.engine.task_queue import check_tries, finish, give_back_expired, lease, take
from generation.images.checks import BadImage
from generation.images.services import take_in
from generation.llm.errors import GivenUp
from generation.models import Import, ImportRefusal, Reference, Source, SourceRecord
from generation.models.work import Work
from generation.sources import importers, other_values, queries
from generation.sources.importers.base import Exhausting, Malformed, Refusal, Row, WrongFormat, digest_of
from review.common import bulk_rows
from review.models import User

Status = Work.Status

CHUNK_SIZE = 6 * 2**20  # characters, in memory at once: 500 rows as long as a row may be would be gigabytes
IMPORT_TRIES = 3  # fewer than of other work: what kills its worker is the file, which no other row flies with
REFUSALS_KEPT = 1000  # of one import; beyond that only their number is kept


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
        raise errors.WrongFile(f"{file_name or path.name}: {error}{_suggested(path, error)}") from error
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


def _suggested(path: Path, error: Exception) -> str:
    """Which format to choose in place of a wrong one, where exactly one fits the file; else "", with the space before it."""
    if not isinstance(error, WrongFormat | formats.UnknownFormat):
        return ""
    fitting = importers.formats_of(path)
    if len(fitting) != 1:
        return ""
    label = importers.load(fitting[0]).label
    told = gettext("This looks like %(label)s: choose format %(name)s.") % {"label": label, "name": fitting[0]}
    return f" {told}"


def run_import(import_id: int) -> Import:
    """Read the file of an import, if nobody else does, and return it as it stands afterwards.

    Killed half-way, it is read again from its beginning: what is known already is counted as known and not added.
    """
    for run in take(Import.objects.filter(pk=import_id).order_by("pk"), 1):
        with bulk_rows.quick_commits():
            _read(run)
    return Import.objects.get(pk=import_id)


def _read(run: Import) -> None:
    importer = importers.load(run.source.format)
    path = Path(run.path)
    ImportRefusal.objects.filter(run=run).delete()
    rows = added = refused = 0
    count_at = bulk_rows.MANY
    facets: dict[str, Counter[str]] = {}
    joined: Counter[str] = Counter()
    try:
        check_tries(run, IMPORT_TRIES)
        seconds = lease().total_seconds() / 3  # a chunk renews the lease, and the next rows may be slow as well
        layout = replace(importer.sniff(path), file=run.file_name)
        for chunk, good in _import_chunks(_with_images(importer.rows(path, layout)), seconds):
            bad = [entry for entry in chunk if isinstance(entry, Refusal)]
            with transaction.atomic():
                ours = Import.objects.filter(pk=run.pk, token=run.token, status=Status.RUNNING)
                if not ours.update(lease_until=timezone.now() + lease()):
                    return  # it was cancelled, or the lease ran out and somebody else reads the file now
                added += _add_records(run.source, good)
                if any(row.match or row.refers for row, _json in good):
                    joined.update(queries.count_partners(run.source, [row.external_id for row, _json in good]))
                ImportRefusal.objects.bulk_create(
                    ImportRefusal(run=run, where=entry.where[:100], reason=entry.reason)
                    for entry in bad[: max(0, REFUSALS_KEPT - refused)]
                )
                rows, refused = rows + len(chunk), refused + len(bad)
                for entry in chunk:
                    for facet, value in entry.facets.items():
                        facets.setdefault(facet, Counter())[value] += 1
                came_to = {"rows": rows, "added": added, "refused": refused, "known": rows - added - refused}
                ours.update(**came_to, facets=facets, joined=joined)
            if added >= count_at:
                bulk_rows.counted([SourceRecord])
                count_at = 10 * added
    except (WrongFormat, Exhausting, OSError, GivenUp, MemoryError, DataError, UnicodeEncodeError) as error:
        said = {"error": type(error).__name__, "detail": f"{run.file_name}: {_import_failure(error)}"}
        ended = finish(run, Status.FAILED, finished_at=timezone.now(), **said)
    else:
        ended = finish(run, Status.DONE, finished_at=timezone.now())
    if ended and run.uploaded:  # a failed import is not taken up again
        path.unlink(missing_ok=True)


def _with_images(entries: Iterator[Row | Refusal]) -> Iterator[Row | Refusal]:
    """The same, with the images of each row kept and named in its content; a row whose image cannot be kept is refused."""
    for entry in entries:
        if isinstance(entry, Refusal) or not entry.images:
            yield entry
            continue
        kept: list[str] = []
        for picture in entry.images:
            try:
                kept.append(take_in(picture.read()).sha256)
            except (Malformed, BadImage) as error:
                yield Refusal(entry.where, f"Image {picture.name}: {error}", {"left out": "image"})
                break
        else:
            yield replace(entry, content={**entry.content, "images": kept}, images=(), written=None)


def _import_failure(error: Exception) -> str:
    """What ended an import, without the text of a record."""
    match error:
        case MemoryError():
            return "The worker ran out of memory."
        case DataError() | UnicodeEncodeError():
            return "The database cannot store one of its records."
    return str(error)


Written = tuple[str, str]  # what a record may show and what it keeps, as JSON


def _import_chunks(
    entries: Iterator[Row | Refusal], seconds: float
) -> Iterator[tuple[list[Row | Refusal], list[tuple[Row, Written]]]]:
    """The entries of each transaction, and the rows among them. A chunk ends early once reading it has taken `seconds`."""
    chunk: list[Row | Refusal] = []
    good: list[tuple[Row, Written]] = []
    size, began = 0, time.monotonic()
    for entry in entries:
        chunk.append(entry)
        if isinstance(entry, Row):
            written = entry.written or (json.dumps(entry.content), json.dumps(entry.private))
            good.append((entry, written))
            size += sum(map(len, written))
        if len(chunk) >= chunks.CHUNK or size >= CHUNK_SIZE or time.monotonic() - began >= seconds:
            yield chunk, good
            chunk, good, size, began = [], [], 0, time.monotonic()
    if chunk:
        yield chunk, good


_COLUMNS = ("source_id", "external_id", "title", "language", "language_confidence", "content", "private", "match")


def _add_records(source: Source, rows: list[tuple[Row, Written]]) -> int:
    unique: dict[str, tuple[Row, Written]] = {}
    for row, written in rows:
        unique.setdefault(row.external_id, (row, written))  # the first one counts, as it does across chunks and imports
    stored = SourceRecord.objects.filter(source=source, external_id__in=unique)
    known = dict(stored.values_list("external_id", "match"))
    new = [
        (source.pk, row.external_id, row.title[:300], row.language, row.language_confidence, *written, _match_of(row))
        for row, written in unique.values()
        if row.external_id not in known
    ]
    bulk_rows.insert_new(SourceRecord, _COLUMNS, new)
    all_rows = [row for row, _written in unique.values()]
    _match_old(source, [row for row in all_rows if row.match and known.get(row.external_id) == ""])
    # Those without a match are new, or from before there was any.
    _refer(source, [row for row in all_rows if row.refers and not known.get(row.external_id)])
    _keep_values(source, [row for row in all_rows if row.values and row.external_id not in known])
    return len(new)


def _match_of(row: Row) -> str:
    return digest_of(row.match) if row.match else ""


def _match_old(source: Source, rows: list[Row]) -> None:
    """Keep by what records from before there was any match are referred to."""
    if not rows:
        return
    by_id = {row.external_id: row for row in rows}
    records = list(SourceRecord.objects.filter(source=source, external_id__in=by_id).only("external_id", "match"))
    for record in records:
        record.match = _match_of(by_id[record.external_id])
    SourceRecord.objects.bulk_update(records, ["match"], batch_size=chunks.CHUNK)


def _refer(source: Source, rows: list[Row]) -> None:
    """Keep whom the stored records of these rows refer to."""
    references = (
        Reference(record_id=pk, format=name, digest=digest)
        for pk, row in _stored(source, rows)
        for name, texts in row.refers.items()
        for digest in dict.fromkeys(map(digest_of, texts))
    )
    for chunk in chunks.chunked(references):
        Reference.objects.bulk_create(chunk, ignore_conflicts=True)


def _keep_values(source: Source, rows: list[Row]) -> None:
    """Keep what these records say under names that others have too."""
    other_values.keep(source, ((pk, row.values) for pk, row in _stored(source, rows)))


def _stored(source: Source, rows: list[Row]) -> Iterator[tuple[int, Row]]:
    """The primary key of the record of each of these rows."""
    if rows:
        by_id = {row.external_id: row for row in rows}
        there = SourceRecord.objects.filter(source=source, external_id__in=by_id).order_by("pk")
        for pk, external_id in there.values_list("pk", "external_id"):
            yield pk, by_id[external_id]


def sweep() -> list[int]:
    """Give back imports whose reader is gone, and say which wait for one."""
    give_back_expired(Import)
    return list(Import.objects.filter(status=Status.QUEUED).values_list("pk", flat=True))
