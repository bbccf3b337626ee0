"""Erases records that should never have been imported, and all that was made of them."""

from collections.abc import Collection
from dataclasses import dataclass

from django.core.cache import cache
from django.db.models import Q

from generation import errors
from generation.engine import ledger
from generation.models import (
    Call,
    Draft,
    Finding,
    Fingerprint,
    GateEvent,
    MergeEvent,
    NamedValues,
    NearMatch,
    ProviderLine,
    Reference,
    ReleasedSample,
    Rubric,
    Sample,
    SampleVersion,
    Source,
    SourceRecord,
)
from generation.models.work import Work
from review.audit.chain_entries import digest
from review.audit.trail import record_person, recording_events
from review.cases import services as cases_services
from review.cases.erasure import ERASED, erase_cases
from review.models import CalibrationItem, Case, PersonEvent
from review.models.append_only import changeable
from review.rules.state_machine import FINAL


@dataclass(frozen=True, slots=True)
class Erasure:
    """What was erased: the number of rows of each kind."""

    records: int
    drafts: int
    samples: int
    cases: int
    calls: int


@recording_events()
def erase_records(source: Source, external_ids: Collection[str], *, reason: str) -> Erasure:
    """Erase records of a source from rows, ledger and queue; by the role that owns the tables.

    Their rows stay, empty, and are used by nothing any more. The audit trail keeps the reason and
    the SHA-256 of each record. Images of the records are not erased, nor is a value of a record
    that was drawn for a sample of another one.

    Raises UnknownRecords, and NotErasable while something depends on them: a release, a draft in
    progress, a merge with another record, a calibration case.
    """
    records = SourceRecord.objects.select_for_update().filter(source=source, external_id__in=external_ids)
    found = {record.pk: record for record in records.order_by("pk")}
    if missing := set(external_ids) - {record.external_id for record in found.values()}:
        raise errors.UnknownRecords(", ".join(sorted(missing)))
    drafts = Draft.objects.filter(record__in=found)
    draft_pks = list(drafts.select_for_update().values_list("pk", flat=True))
    versions = SampleVersion.objects.filter(draft__in=draft_pks)
    cases = list(versions.values_list("case", flat=True))
    cases += Case.objects.filter(repeats__case__in=cases).values_list("pk", flat=True)
    _check_erasable(found, draft_pks, cases)
    facts = {
        "source": source.name,
        "reason": reason,
        "records": {str(pk): digest([record.content, record.private]) for pk, record in found.items()},
    }
    for case in Case.objects.filter(pk__in=cases).exclude(state__in=FINAL):
        cases_services.withdraw(case.pk, actor=None, reason=ERASED)
    samples = Sample.objects.filter(versions__in=versions)
    sample_count = samples.distinct().count()
    samples.update(status=Sample.Status.WITHDRAWN)
    calls = _erase_drafts(draft_pks)
    _erase_records(found)
    digests = erase_cases(cases)
    record_person(None, PersonEvent.Kind.ERASED, None, **facts, reviews=digests)
    cache.clear()
    return Erasure(len(found), len(draft_pks), sample_count, len(cases), calls)


def _check_erasable(records: Collection[int], drafts: Collection[int], cases: Collection[int]) -> None:
    released = ReleasedSample.objects.filter(version__sample__record__in=records).select_related("release")
    if sample := released.first():
        raise errors.NotErasable(f"Released in {sample.release}.")
    if Draft.objects.filter(pk__in=drafts, status=Work.Status.RUNNING).exists():
        raise errors.NotErasable("A draft is in progress: pause its batch, and try again when it rests.")
    merged = Q(draft__in=drafts) | Q(into__in=drafts)
    near = Q(draft__in=drafts) | Q(earlier__in=drafts)
    if MergeEvent.objects.filter(merged).exists() or NearMatch.objects.filter(near).exists():
        raise errors.NotErasable("A draft was compared or merged with that of another record.")
    lineages = Case.objects.filter(pk__in=cases).values_list("lineage", flat=True)
    if CalibrationItem.objects.filter(spec__lineage__in=list(lineages)).exists():
        raise errors.NotErasable("A calibration case was made of it.")


def _erase_drafts(drafts: Collection[int]) -> int:
    """Erase drafts, versions, checks and the ledger's texts. Returns the number of calls."""
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
    with changeable(GateEvent):
        GateEvent.objects.filter(draft__in=drafts).update(reason=ERASED)
    rows = Draft.objects.filter(pk__in=drafts)
    rows.update(data={}, returned=[], preferred=[], detail="")
    rows.filter(gate=Draft.Gate.STOPPED).update(gate=Draft.Gate.DISCARDED)
    rows.filter(status=Work.Status.QUEUED).update(status=Work.Status.DROPPED, detail=ERASED)
    subjects = [f"draft:{pk}" for pk in drafts]
    ProviderLine.objects.filter(subject__in=subjects).update(sent={})
    return ledger.erase_contents(Call.objects.filter(subject__in=subjects))


def _erase_records(records: Collection[int]) -> None:
    rows = SourceRecord.objects.filter(pk__in=records)
    for values in NamedValues.objects.filter(source__records__in=records).distinct():
        pairs = zip(values.values[::2], values.values[1::2], strict=True)
        kept = [part for record, text in pairs for part in (record, "" if record in records else text)]
        if kept != values.values:
            NamedValues.objects.filter(pk=values.pk).update(values=kept)
    Reference.objects.filter(record__in=records).delete()
    for row in rows:
        kind = row.content.get("kind", "")
        rows.filter(pk=row.pk).update(
            external_id=f"erased-{row.pk}",
            title=ERASED,
            content={"kind": kind},
            private={},
            match="",
            shares="",
            latest=False,
        )
