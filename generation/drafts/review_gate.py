"""The gate before physicians: stopped drafts wait visibly for an admin's decision.

Each finding of a check is a row. Part of the services: called by them, within their transactions.
"""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from generation import errors
from generation.common.reasons import checked_reason
from generation.models import Band, Batch, Draft, Finding, Fingerprint, GateEvent, Sample, SampleVersion, TextIndex
from generation.recipes import registry, text_similarity
from generation.recipes.recipe import CheckFinding as CheckFinding
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import NewSample
from review.models import User

STOPPED = "Stopped"  # stored in place of an error name
_CURRENT = [SampleVersion.Status.IN_REVIEW, SampleVersion.Status.APPROVED]


def fingerprint_of(batch: Batch, new_sample: NewSample) -> text_similarity.TextFingerprint | None:
    """The fingerprint of a new sample's text; None if the benchmark's samples may repeat."""
    compared = registry.recipe(batch.benchmark).compared
    if compared is None:
        return None
    return text_similarity.fingerprint(compared(new_sample))


def findings_of(batch: Batch, value: DraftValue) -> list[CheckFinding]:
    """What the batch's checks find in a finished draft."""
    results = [check.run(value) for check in registry.recipe(batch.benchmark).checks if check.name in batch.checks]
    return [finding for finding in results if finding]


def stops(
    row: Draft, batch: Batch, findings: Sequence[CheckFinding], fingerprint: text_similarity.TextFingerprint | None
) -> bool:
    """Store findings of a finished draft, with that of a similar sample; whether they stop it."""
    stored = []
    now = timezone.now()
    for finding in findings:
        stored.append(
            Finding(draft=row, created_at=now, check_name=finding.check, stops=finding.stops, detail=finding.detail)
        )
    if fingerprint is not None and {text_similarity.IDENTICAL, text_similarity.NEARLY_IDENTICAL} & set(batch.checks):
        for values in _find_similar_sample(row, batch, fingerprint):
            stored.append(Finding(draft=row, created_at=now, **values))
    Finding.objects.bulk_create(stored)
    return any(finding.stops for finding in stored)


def _find_similar_sample(
    row: Draft, batch: Batch, fingerprint: text_similarity.TextFingerprint
) -> list[dict[str, Any]]:
    """Whether another current sample has the same or nearly the same text: at most one finding.

    The index stays locked until the transaction ends, so that of two similar texts arriving at the
    same time one sees the other.
    """
    index = _locked_index(batch.benchmark)
    other_texts = _other_fingerprints(row, batch).filter(index=index)
    identical = other_texts.filter(digest=fingerprint.digest).select_related("version__sample").order_by("pk").first()
    if identical is not None:
        if text_similarity.IDENTICAL not in batch.checks:
            return []
        return [_similarity_finding(text_similarity.IDENTICAL, identical.version.sample, 1.0)]
    if text_similarity.NEARLY_IDENTICAL not in batch.checks:
        return []
    sharing = Band.objects.filter(value__in=fingerprint.bands).order_by().values("fingerprint").distinct()
    candidates = other_texts.filter(pk__in=sharing).order_by("pk").values_list("pk", "signature")
    best, nearest = 0.0, 0
    for pk, raw in candidates.iterator():  # of equally near ones, the first
        likeness = text_similarity.likeness(fingerprint.signature, bytes(raw))
        if likeness > best:
            best, nearest = likeness, pk
    if best < text_similarity.LIKENESS_THRESHOLD:
        return []
    sample = Sample.objects.get(versions__fingerprint=nearest)
    return [_similarity_finding(text_similarity.NEARLY_IDENTICAL, sample, best)]


def _locked_index(benchmark: str) -> TextIndex:
    """The benchmark's index, created if absent, locked."""
    TextIndex.objects.bulk_create([TextIndex(benchmark=benchmark)], ignore_conflicts=True)
    return TextIndex.objects.select_for_update().get(benchmark=benchmark)


def _other_fingerprints(row: Draft, batch: Batch) -> QuerySet[Fingerprint]:
    """Fingerprints of other current samples.

    Not those of the other batch of a comparison over the same record, which are alike by design.
    """
    fingerprints = Fingerprint.objects.filter(version__status__in=_CURRENT)
    if row.sample_id:
        fingerprints = fingerprints.exclude(version__sample=row.sample_id)
    if batch.comparison_id:
        fingerprints = fingerprints.exclude(
            version__sample__record=row.record_id, version__sample__batch__comparison=batch.comparison_id
        )
    return fingerprints


def _similarity_finding(name: str, other: Sample, likeness: float) -> dict[str, Any]:
    return {"check_name": name, "stops": True, "detail": other.key, "other": other, "likeness": round(likeness, 4)}


def stop_draft(row: Draft) -> None:
    """Mark a finished draft as stopped, with the findings as its reason."""
    reasons = list(row.findings.filter(stops=True).order_by("pk").values_list("check_name", "detail"))
    reason = "; ".join(f"{name}: {detail}" for name, detail in reasons)
    Draft.objects.filter(pk=row.pk).update(
        status=Draft.Status.DROPPED, gate=Draft.Gate.STOPPED, error=STOPPED, detail=reason
    )
    GateEvent.objects.create(draft=row, kind=Draft.Gate.STOPPED, reason=reason, at=timezone.now())


def may_return(row: Draft, batch: Batch) -> bool:
    """Whether a stopped draft goes back to the generator: it can mend all findings, and may try."""
    mendable = {check.name for check in registry.recipe(batch.benchmark).checks if check.returns}
    stopping = set(row.findings.filter(stops=True).values_list("check_name", flat=True))
    return stopping <= mendable and len(row.returned) < int(batch.settings.get("returns", 0))


def reasons_for_generator(row: Draft, batch: Batch) -> list[str]:
    """What stopped a draft, in sentences for the generator."""
    labels = {check.name: check.label for check in registry.recipe(batch.benchmark).checks}
    found = row.findings.filter(stops=True).order_by("pk").values_list("check_name", "detail")
    return [f"{labels[name]}: {detail}" for name, detail in found]


def index_text(version: SampleVersion, fingerprint: text_similarity.TextFingerprint | None) -> None:
    """Add a version's text to the index of texts that must not occur again."""
    if fingerprint is None:
        return
    index = _locked_index(version.sample.benchmark)
    row = Fingerprint.objects.create(
        index=index, version=version, digest=fingerprint.digest, signature=fingerprint.signature
    )
    Band.objects.bulk_create(Band(fingerprint=row, value=value) for value in fingerprint.bands)


def stopped_draft(draft_id: int, reason: str) -> Draft:
    """The stopped draft, locked. Raises NotStopped; ReasonMissing, TooLong for the reason."""
    checked_reason(reason)
    row = (
        Draft.objects.select_for_update(of=("self",))
        .select_related("batch", "sample")
        .filter(pk=draft_id, gate=Draft.Gate.STOPPED)
        .first()
    )
    if row is None:
        raise errors.NotStopped
    return row


def record_decision(row: Draft, kind: Draft.Gate, actor: User | None, reason: str) -> None:
    """Record the decision on a stopped draft: an admin's, or that it goes back to the generator."""
    row.gate = kind
    if kind == Draft.Gate.SENT_TO_REVIEW:
        row.status = Draft.Status.DONE
    else:
        row.status = Draft.Status.DROPPED
    if kind == Draft.Gate.SENT_TO_REVIEW:
        row.error = row.detail = ""
    row.save(update_fields=["gate", "status", "error", "detail"])
    GateEvent.objects.create(draft=row, kind=kind, actor=actor, reason=reason.strip(), at=timezone.now())
