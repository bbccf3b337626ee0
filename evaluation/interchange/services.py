"""Imports of results as work: a worker reads the file, and an interrupted import starts over."""

from functools import partial
from pathlib import Path

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db import DataError, transaction
from django.utils import timezone

from evaluation import errors
from evaluation.interchange import importing, rows
from evaluation.models import ResultsImport, ResultsRefusal
from generation.common.storage import discard, fetch, share
from generation.engine.task_queue import check_tries, finish, keep, renew, requeue_expired, take
from generation.llm.errors import GivenUp
from generation.models import Release
from generation.models.work import Work
from generation.sources import uploads
from review.common.waking import wake_after_commit
from review.models import User

IMPORT_TRIES = 3
OPEN = (Work.Status.QUEUED, Work.Status.RUNNING)


class _LeaseLost(Exception):
    """Another worker has taken over the import."""


def start_import(
    upload: "UploadedFile[bytes]", *, release: Release, study: str, sha256: str = "", models: str = "", actor: User
) -> ResultsImport:
    """Store an uploaded file under a generated name and queue its import, which a worker then does.

    `models`: lines for `importing.model_names`.
    Raises OtherRelease, NoCriteria, WrongResults; nothing is stored then.
    """
    study, names = importing.check_study(release, study, sha256), importing.model_names(models.splitlines())
    path = uploads.store_file(upload, Path(settings.MEDIA_ROOT) / ResultsImport.FOLDER)
    try:
        share(path)
        row = ResultsImport.objects.create(
            release=release,
            study=study,
            sha256=sha256.lower(),
            model_names=names,
            file_name=(upload.name or "")[:300],
            path=str(path.resolve()),
            created_by=actor,
            created_at=timezone.now(),
        )
        wake_after_commit("evaluation.tasks.import_results", row.pk)
        return row
    except BaseException:
        discard(path)
        raise


def run_import(pk: int) -> ResultsImport:
    """Read the file of an import, unless another worker does, and return the updated row."""
    for row in take(ResultsImport.objects.filter(pk=pk).order_by("pk"), 1):
        _read(row)
    return ResultsImport.objects.get(pk=pk)


def _read(row: ResultsImport) -> None:
    def store_progress(progress: importing.ImportResult) -> None:
        # Verdicts that an earlier worker added before it was killed are known now.
        added, known = progress.added + row.added, max(0, progress.known - row.added)
        counts = {"rows": progress.rows, "added": added, "known": known, "refused": progress.refused}
        if not keep(row, **counts):
            raise _LeaseLost

    path, ended = row.file, False
    try:
        check_tries(row, IMPORT_TRIES)
        fetch(path)
        result = importing.import_results(
            rows.read(path, while_silent=partial(renew, ResultsImport, [row.token])),
            release=row.release,
            study=row.study,
            sha256=row.sha256,
            models=row.model_names,
            actor=row.created_by,
            on_chunk=store_progress,
        )
    except _LeaseLost:
        return
    except errors.EvaluationError as error:
        ended = _fail(row, type(error).__name__, error.detail)
    except (OSError, GivenUp, MemoryError, DataError) as error:
        ended = _fail(row, type(error).__name__, str(error) or "The worker ran out of memory.")
    else:
        with transaction.atomic():
            values = {
                "run": result.run,
                "without_verdict": result.without_verdict,
                "remarks": result.remarks,
                "finished_at": timezone.now(),
            }
            if ended := finish(row, Work.Status.DONE, **values):
                ResultsRefusal.objects.bulk_create(
                    ResultsRefusal(of=row, where=refusal.where[:400], reason=refusal.reason)
                    for refusal in result.refusals
                )
    if ended:
        discard(path)


def _fail(row: ResultsImport, error: str, detail: str) -> bool:
    return finish(row, Work.Status.FAILED, error=error, detail=detail, finished_at=timezone.now())


def sweep() -> list[int]:
    """Requeue imports whose worker is gone, and remove files that belong to no open import.

    Returns the primary keys of all queued imports.
    """
    requeue_expired(ResultsImport)
    open_imports = ResultsImport.objects.filter(status__in=OPEN)
    uploads.remove_unneeded(Path(settings.MEDIA_ROOT) / ResultsImport.FOLDER, open_imports)
    return list(ResultsImport.objects.filter(status=Work.Status.QUEUED).values_list("pk", flat=True))
