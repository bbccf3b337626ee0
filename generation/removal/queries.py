"""What can be archived or deleted, and what depends on it."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Model, Q, QuerySet
from django.http import Http404

from generation.models import Batch, Call, Draft, Import, ReleasedSample, Sample, SampleVersion, Source, SourceRecord
from generation.models.work import Work

SOURCE, RECORD, BATCH = "source", "record", "batch"
MODELS: dict[str, type[Model]] = {SOURCE: Source, RECORD: SourceRecord, BATCH: Batch}
Subject = Source | SourceRecord | Batch
UNDER_WAY = (Work.Status.QUEUED, Work.Status.RUNNING)


@dataclass(frozen=True, slots=True)
class Extent:
    """The number of rows of each kind that are deleted with something."""

    records: int
    drafts: int
    samples: int
    cases: int
    calls: int


def subject(kind: str, pk: int) -> Subject:
    """The source, record or batch with this number. Raises Http404."""
    model = MODELS.get(kind)
    row: Any = None
    if model:
        row = model._default_manager.filter(pk=pk).first()
    if row is None:
        raise Http404
    found: Subject = row
    return found


def records_of(row: Subject) -> QuerySet[SourceRecord]:
    """The records that are deleted with something, in all their revisions; none with a batch."""
    if isinstance(row, Source):
        return SourceRecord.objects.filter(source=row)
    if isinstance(row, SourceRecord):
        return SourceRecord.objects.filter(source=row.source_id, external_id=row.external_id)
    return SourceRecord.objects.none()


def drafts_of(row: Subject) -> QuerySet[Draft]:
    """The drafts that are deleted with something."""
    if isinstance(row, Batch):
        return Draft.objects.filter(batch=row)
    return Draft.objects.filter(record__in=records_of(row))


def versions_of(drafts: QuerySet[Draft]) -> QuerySet[SampleVersion]:
    """The versions of samples that were made of drafts."""
    return SampleVersion.objects.filter(draft__in=drafts)


def extent(row: Subject) -> Extent:
    """What is deleted with something."""
    drafts = drafts_of(row)
    versions = versions_of(drafts)
    subjects = [f"draft:{pk}" for pk in drafts.values_list("pk", flat=True)]
    return Extent(
        records=records_of(row).count(),
        drafts=len(subjects),
        samples=Sample.objects.filter(versions__in=versions).distinct().count(),
        cases=versions.count(),
        calls=Call.objects.filter(subject__in=subjects).count(),
    )


def is_in_progress(row: Subject) -> bool:
    """Whether an import adds to something, or a batch that is not over works on it."""
    open_batches = Batch.objects.filter(status__in=[Batch.Status.RUNNING, Batch.Status.PAUSED])
    if isinstance(row, Batch):
        return open_batches.filter(pk=row.pk).exists()
    if isinstance(row, SourceRecord):
        return Draft.objects.filter(record=row, status__in=UNDER_WAY, batch__in=open_batches).exists()
    importing = Import.objects.filter(source=row, status__in=UNDER_WAY).exists()
    return importing or open_batches.filter(source=row).exists()


def releases_of(versions: QuerySet[SampleVersion]) -> list[str]:
    """The releases that contain one of these versions, or another one of its sample."""
    released = ReleasedSample.objects.filter(
        Q(version__in=versions) | Q(version__sample__versions__in=versions)
    ).select_related("release")
    return sorted({str(sample.release) for sample in released.defer("exported")})
