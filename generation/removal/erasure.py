"""Erases texts that should never have been imported or made, and all that was made of them.

Rows stay, empty: cases, reviews and the audit trail refer to them. The trail keeps the reason and
a SHA-256 of what was there.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.core.cache import cache
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from generation import errors
from generation.engine import ledger
from generation.images.files import delete_image
from generation.models import (
    Batch,
    Call,
    Draft,
    Erratum,
    Finding,
    Fingerprint,
    GateEvent,
    Import,
    ImportRefusal,
    Job,
    MergeEvent,
    NamedValues,
    NearMatch,
    ProbeWork,
    ProviderLine,
    Reference,
    Rubric,
    Sample,
    SampleVersion,
    Source,
    SourceRecord,
    StoredImage,
)
from generation.models.work import Work
from generation.removal import queries
from review.audit.chain_entries import digest
from review.audit.trail import record_person, recording_events
from review.cases import services as cases_services
from review.cases.erasure import ERASED, erase_cases
from review.models import CalibrationItem, Case, PersonEvent, User
from review.models.append_only import changeable
from review.rules.state_machine import FINAL

ERASED_NAME = "erased-"  # before the number of what had the name
CHUNK = 500  # records of a source that are erased in one transaction


@dataclass(frozen=True, slots=True)
class Erasure:
    """What was erased: the number of rows of each kind."""

    records: int = 0
    drafts: int = 0
    samples: int = 0
    cases: int = 0
    calls: int = 0

    def __add__(self, other: "Erasure") -> "Erasure":
        return Erasure(
            self.records + other.records,
            self.drafts + other.drafts,
            self.samples + other.samples,
            self.cases + other.cases,
            self.calls + other.calls,
        )


def erase_records(source: Source, external_ids: Collection[str], *, reason: str, actor: User | None = None) -> Erasure:
    """Erase records of a source from rows, ledger and queue; by the role that owns the tables.

    They are used by nothing any more. A value of a record that was drawn for a sample of another
    one is not erased.

    Raises UnknownRecords, and NotErasable while something depends on them: a release, a draft in
    progress, a merge with another record, a calibration case.
    """
    records = SourceRecord.objects.filter(source=source, external_id__in=external_ids)
    if missing := set(external_ids) - set(records.values_list("external_id", flat=True)):
        raise errors.UnknownRecords(", ".join(sorted(missing)))
    return _erase(records, Draft.objects.filter(record__in=records), source=source, reason=reason, actor=actor)


def erase_source(
    source: Source, *, reason: str, actor: User | None = None, tell: Callable[[int], None] = lambda _done: None
) -> Erasure:
    """Erase a source with all its records, as `erase_records` does; `tell`: how many are erased.

    A chunk of records is a transaction, so that it can be ended and begun again.
    """
    records, drafts = queries.records_of(source), queries.drafts_of(source)
    _check_erasable(drafts, within=drafts)
    if queries.is_in_progress(source):
        raise errors.InProgress(source.name)
    total = Erasure()
    left = records.exclude(external_id__startswith=ERASED_NAME, title=ERASED).order_by("pk")
    while chunk := set(left.values_list("external_id", flat=True)[:CHUNK]):
        chosen = records.filter(external_id__in=chunk)
        linked = Draft.objects.filter(record__in=chosen)
        total += _erase(chosen, linked, within=drafts, source=source, reason=reason, actor=actor)
        tell(total.records)
    _erase_terms(source, reason=reason, actor=actor)
    return total


def erase_batch(batch: Batch, *, reason: str, actor: User | None = None) -> Erasure:
    """Erase what a batch made, as `erase_records` does. Its records can be used again."""
    if queries.is_in_progress(batch):
        raise errors.InProgress(str(batch))
    drafts = queries.drafts_of(batch)
    with recording_events():
        erased = _erase(
            SourceRecord.objects.none(), drafts, source=batch.source, reason=reason, actor=actor, batch=batch
        )
        drafts.update(status=Work.Status.DROPPED, gate="", error=Draft.ERASED, detail=ERASED)
        ProbeWork.objects.filter(batch=batch).delete()
        Batch.objects.filter(pk=batch.pk).update(archived_at=timezone.now())
    return erased


@recording_events()
def _erase(
    records: QuerySet[SourceRecord],
    drafts: QuerySet[Draft],
    *,
    source: Source,
    reason: str,
    actor: User | None,
    within: QuerySet[Draft] | None = None,
    batch: Batch | None = None,
) -> Erasure:
    """Erase records and drafts. `within`: the drafts that are erased with them, by and by."""
    found = {record.pk: record for record in records.select_for_update().order_by("pk")}
    draft_pks = list(drafts.select_for_update().order_by("pk").values_list("pk", flat=True))
    chosen = Draft.objects.filter(pk__in=draft_pks)
    if within is None:
        within = chosen
    _check_erasable(chosen, within=within)
    versions = queries.versions_of(chosen)
    cases = list(versions.values_list("case", flat=True))
    cases += Case.objects.filter(repeats__case__in=cases).values_list("pk", flat=True)
    facts: dict[str, Any] = {"source": source.name, "reason": reason}
    if batch is None:
        facts["records"] = {str(pk): digest([record.content, record.private]) for pk, record in found.items()}
    else:
        drafts_digest = digest([list(pair) for pair in chosen.values_list("pk", "data")])
        facts |= {"batch": batch.pk, "drafts": drafts_digest}
    for case in Case.objects.filter(pk__in=cases).exclude(state__in=FINAL):
        cases_services.withdraw(case.pk, actor=actor, reason=ERASED)
    samples = Sample.objects.filter(versions__in=versions)
    sample_count = samples.distinct().count()
    samples.update(status=Sample.Status.WITHDRAWN)
    ProbeWork.objects.filter(Q(source__records__in=found) | Q(batch__drafts__in=draft_pks)).delete()
    if draft_pks:
        _erase_drafts(draft_pks)
    calls = _erase_calls(draft_pks)
    with changeable(Erratum):
        Erratum.objects.filter(sample__in=samples).update(reason=ERASED)
    _erase_records(found.values())
    digests = {}
    if cases:
        digests = erase_cases(cases)
    record_person(None, PersonEvent.Kind.ERASED, actor, **facts, reviews=digests)
    cache.clear()
    return Erasure(len(found), len(draft_pks), sample_count, len(cases), calls)


def _check_erasable(drafts: QuerySet[Draft], *, within: QuerySet[Draft]) -> None:
    versions = queries.versions_of(drafts)
    if released := queries.releases_of(versions):
        raise errors.NotErasable(f"Released in {', '.join(released)}.")
    if drafts.filter(status=Work.Status.RUNNING).exists():
        raise errors.NotErasable("A draft is in progress: pause its batch, and try again when it rests.")
    merged = Q(draft__in=drafts) & ~Q(into__in=within) | Q(into__in=drafts) & ~Q(draft__in=within)
    if MergeEvent.objects.filter(merged).exists():
        raise errors.NotErasable("A draft was merged with one that is not deleted.")
    lineages = Case.objects.filter(pk__in=versions.values("case")).values_list("lineage", flat=True)
    if CalibrationItem.objects.filter(spec__lineage__in=list(lineages)).exists():
        raise errors.NotErasable("A calibration case was made of it.")


def _erase_drafts(drafts: Collection[int]) -> None:
    """Erase drafts, versions and checks."""
    versions = SampleVersion.objects.filter(draft__in=drafts)
    Fingerprint.objects.filter(version__in=versions).delete()
    Rubric.objects.filter(version__in=versions).update(criterion=ERASED, approved="", traps=[])
    versions.update(
        title=ERASED,
        content={},
        reasons=[],
        citations=[],
        traps=[],
        provenance={},
        status=SampleVersion.Status.WITHDRAWN,
    )
    Finding.objects.filter(draft__in=drafts).update(detail=ERASED)
    with changeable(GateEvent, MergeEvent, NearMatch):
        GateEvent.objects.filter(draft__in=drafts).update(reason=ERASED)
        MergeEvent.objects.filter(Q(draft__in=drafts) | Q(into__in=drafts)).update(reason=ERASED)
        NearMatch.objects.filter(Q(draft__in=drafts) | Q(earlier__in=drafts)).update(reason=ERASED)
    rows = Draft.objects.filter(pk__in=drafts)
    rows.update(data={}, returned=[], preferred=[], detail="")
    rows.filter(gate=Draft.Gate.STOPPED).update(gate=Draft.Gate.DISCARDED)
    open_ends = (Work.Status.QUEUED, Work.Status.FAILED)  # a failed draft could be tried again
    rows.filter(status__in=open_ends).update(status=Work.Status.DROPPED, error="", detail=ERASED)


def _erase_calls(drafts: Collection[int]) -> int:
    """Erase what was sent and answered for drafts. Returns the number of their calls.

    And in all calls outside jobs: a check or the playground may have sent any record.
    """
    subjects = [f"draft:{pk}" for pk in drafts]
    ProviderLine.objects.filter(subject__in=subjects).update(sent={})
    batches = Draft.objects.filter(pk__in=drafts).values("batch")
    Job.objects.filter(pk__in=batches).update(model_checks={}, paused_detail="")
    of_drafts = Call.objects.filter(subject__in=subjects)
    count = of_drafts.count()
    tries = Call.objects.filter(job=None).exclude(**ledger.NO_CONTENT)
    ledger.erase_contents(of_drafts | tries)
    return count


def _erase_records(records: Iterable[SourceRecord]) -> None:
    found = {record.pk: record for record in records}
    for values in NamedValues.objects.filter(source__records__in=found).distinct():
        kept: list[Any] = []
        for record, text in zip(values.values[::2], values.values[1::2], strict=True):
            if record in found:
                text = ""
            kept += (record, text)
        if kept != values.values:
            NamedValues.objects.filter(pk=values.pk).update(values=kept)
    Reference.objects.filter(record__in=found).delete()
    images: set[str] = set()
    for row in found.values():
        images.update(row.content.get("images") or ())
        SourceRecord.objects.filter(pk=row.pk).update(
            external_id=_erased_name(row.pk),
            title=ERASED,
            content={"kind": row.content.get("kind", "")},
            private={},
            match="",
            shares="",
            latest=False,
        )
    if images:
        _delete_images(images)


def _erase_terms(source: Source, *, reason: str, actor: User | None) -> None:
    """Erase what a source says of itself and of its imports, once its records are erased."""
    with recording_events():
        facts: dict[str, Any] = {"source": source.name, "reason": reason, "records": {}, "reviews": {}}
        record_person(None, PersonEvent.Kind.ERASED, actor, **facts)
        imports = Import.objects.filter(source=source)
        ImportRefusal.objects.filter(run__in=imports).delete()
        imports.update(file_name=ERASED, path="", mapping={}, facets={}, joined={}, oddities=None, detail="")
        NamedValues.objects.filter(source=source).delete()
        ProbeWork.objects.filter(source=source).delete()
        Source.objects.filter(pk=source.pk).update(
            name=_erased_name(source.pk), label=ERASED, citation="", restrictions="", archived_at=timezone.now()
        )


def _delete_images(digests: Collection[str]) -> None:
    """Delete images that no record refers to any more."""
    kept: set[str] = set()
    with_images = SourceRecord.objects.filter(content__has_key="images")
    for images in with_images.values_list("content__images", flat=True).iterator():
        kept.update(images or ())
    for sha256 in sorted(set(digests) - kept):
        StoredImage.objects.filter(sha256=sha256).delete()
        transaction.on_commit(partial(delete_image, sha256))


def _erased_name(pk: int) -> str:
    return f"{ERASED_NAME}{pk}"
