"""Archives and deletes sources, records and batches."""

from django.db import ProgrammingError
from django.utils import timezone

from generation import errors
from generation.models import Source, SourceRecord
from generation.removal import erasure, queries
from generation.removal.erasure import Erasure
from generation.removal.queries import Subject
from review.audit import acts
from review.audit.trail import recording_events
from review.models import User

MOST_HERE = 500  # records and drafts that are deleted while somebody waits; more on the server


def archive(kind: str, pk: int, *, actor: User | None) -> Subject:
    """Have lists and choices leave something out. It stays readable, and can be restored.

    Raises Http404; InProgress while an import or a batch works on it.
    """
    row = queries.subject(kind, pk)
    if queries.is_in_progress(row):
        raise errors.InProgress
    return _set_archived(row, actor, "archived")


def restore(kind: str, pk: int, *, actor: User | None) -> Subject:
    """Take something out of the archive. Raises Http404."""
    return _set_archived(queries.subject(kind, pk), actor, "restored")


def delete(kind: str, pk: int, *, reason: str, actor: User | None) -> Erasure:
    """Erase the texts of something and of all that was made of it. There is no way back.

    Raises Http404; what `erasure` raises; NeedsOperator with the command if it is too much for a
    request, or the site's database role may not.
    """
    row = queries.subject(kind, pk)
    extent = queries.extent(row)
    if extent.records + extent.drafts > MOST_HERE:
        raise errors.NeedsOperator(command(row))
    try:
        if isinstance(row, Source):
            return erasure.erase_source(row, reason=reason, actor=actor)
        if isinstance(row, SourceRecord):
            return erasure.erase_records(row.source, [row.external_id], reason=reason, actor=actor)
        return erasure.erase_batch(row, reason=reason, actor=actor)
    except ProgrammingError:  # PostgreSQL, with a second role
        raise errors.NeedsOperator(command(row)) from None


def command(row: Subject) -> str:
    """The command with which the operator deletes something."""
    if isinstance(row, Source):
        what = f"{row.name} --all"
    elif isinstance(row, SourceRecord):
        what = f"{row.source.name} {row.external_id}"
    else:
        what = f"--batch {row.pk}"
    return f'manage.py erase {what} --reason "…"'


def _set_archived(row: Subject, actor: User | None, what: str) -> Subject:
    with recording_events():
        if what == "archived":
            row.archived_at = timezone.now()
        else:
            row.archived_at = None
        row.save(update_fields=["archived_at"])
        # A record's id may tell of a patient.
        if isinstance(row, Source):
            name = row.name
        else:
            name = str(row.pk)
        acts.record_act(acts.Kind.ARCHIVED, what, name, actor, of=str(row._meta.model_name))
    return row
