"""The gate before the physicians: every check's finding is a row, what is stopped waits visibly for an admin's word.

Part of the services: called by them, within their transactions.
"""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from generation import errors
from generation.models import Band, Batch, Draft, Finding, Fingerprint, GateEvent, Sample, SampleVersion, TextIndex
from generation.recipes import registry, text_similarity
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import NewSample
from review.models import User

STOPPED = "Stopped"  # stands where the name of an error does
_STANDING = [SampleVersion.Status.IN_REVIEW, SampleVersion.Status.APPROVED]


def fingerprint_of(batch: Batch, made: NewSample) -> text_similarity.Fingerprint | None:
    """The fingerprint of a new sample's text; None where the benchmark's samples may repeat."""
    compared = registry.recipe(batch.benchmark).compared
    return None if compared is None else text_similarity.fingerprint(compared(made))


def run_checks(row: Draft, batch: Batch, value: DraftValue, print_: text_similarity.Fingerprint | None) -> bool:
    """Make the batch's checks of a finished draft and write down what they find; whether it is to be stopped."""
    made = [check.run(value) for check in registry.recipe(batch.benchmark).checks if check.name in batch.checks]
    found: list[dict[str, Any]] = [
        {"check_name": finding.check, "stops": finding.stops, "detail": finding.detail} for finding in made if finding
    ]
    if print_ is not None and {text_similarity.IDENTICAL, text_similarity.ALIKE} & set(batch.checks):
        found += _likenesses(row, batch, print_)
    now = timezone.now()
    Finding.objects.bulk_create(Finding(draft=row, created_at=now, **one) for one in found)
    return any(one["stops"] for one in found)


def _likenesses(row: Draft, batch: Batch, print_: text_similarity.Fingerprint) -> list[dict[str, Any]]:
    """Whether another standing sample has the same text, or nearly the same: one finding at most.

    The index stays locked until the transaction ends: of two like texts that arrive at once, one sees the other.
    """
    index = _locked_index(batch.benchmark)
    others = _others(row, batch).filter(index=index)
    same = others.filter(digest=print_.digest).select_related("version__sample").order_by("pk").first()
    if same is not None:
        if text_similarity.IDENTICAL not in batch.checks:
            return []
        return [_like(text_similarity.IDENTICAL, same.version.sample, 1.0)]
    if text_similarity.ALIKE not in batch.checks:
        return []
    sharing = Band.objects.filter(value__in=print_.bands).order_by().values("fingerprint").distinct()
    candidates = others.filter(pk__in=sharing).order_by("pk").values_list("pk", "signature")
    likenesses = [(text_similarity.likeness(print_.signature, bytes(raw)), pk) for pk, raw in candidates.iterator()]
    best, pk = max(likenesses, default=(0.0, 0), key=lambda pair: (pair[0], -pair[1]))
    if best < text_similarity.ALIKE_FROM:
        return []
    return [_like(text_similarity.ALIKE, Sample.objects.get(versions__fingerprint=pk), best)]


def _locked_index(benchmark: str) -> TextIndex:
    TextIndex.objects.bulk_create([TextIndex(benchmark=benchmark)], ignore_conflicts=True)
    return TextIndex.objects.select_for_update().get(benchmark=benchmark)


def _others(row: Draft, batch: Batch) -> QuerySet[Fingerprint]:
    """Fingerprints of other samples that stand. The other half of a comparison is over the same record, and alike by design."""
    found = Fingerprint.objects.filter(version__status__in=_STANDING)
    if row.sample_id:
        found = found.exclude(version__sample=row.sample_id)
    if batch.comparison_id:
        found = found.exclude(
            version__sample__record=row.record_id, version__sample__batch__comparison=batch.comparison_id
        )
    return found


def _like(name: str, other: Sample, likeness: float) -> dict[str, Any]:
    return {"check_name": name, "stops": True, "detail": other.key, "other": other, "likeness": round(likeness, 4)}


def stop(row: Draft) -> None:
    """Mark a finished draft as stopped, with the findings as its reason."""
    reasons = list(row.findings.filter(stops=True).order_by("pk").values_list("check_name", "detail"))
    said = "; ".join(f"{name}: {detail}" for name, detail in reasons)
    Draft.objects.filter(pk=row.pk).update(
        status=Draft.Status.DROPPED, gate=Draft.Gate.STOPPED, error=STOPPED, detail=said
    )
    GateEvent.objects.create(draft=row, kind=Draft.Gate.STOPPED, reason=said, at=timezone.now())


def remember(version: SampleVersion, print_: text_similarity.Fingerprint | None) -> None:
    """Add a version's text to those that are not to occur again."""
    if print_ is None:
        return
    index = _locked_index(version.sample.benchmark)
    kept = Fingerprint.objects.create(index=index, version=version, digest=print_.digest, signature=print_.signature)
    Band.objects.bulk_create(Band(fingerprint=kept, value=value) for value in print_.bands)


def stopped_draft(draft_id: int, reason: str) -> Draft:
    """The stopped draft, locked. Raises NotStopped, and ReasonMissing for an empty reason."""
    if not reason.strip():
        raise errors.ReasonMissing
    row = (
        Draft.objects.select_for_update(of=("self",))
        .select_related("batch", "sample")
        .filter(pk=draft_id, gate=Draft.Gate.STOPPED)
        .first()
    )
    if row is None:
        raise errors.NotStopped
    return row


def decide(row: Draft, kind: Draft.Gate, actor: User | None, reason: str) -> None:
    """Write down what an admin decided about a stopped draft."""
    row.gate = kind
    row.status = Draft.Status.DONE if kind == Draft.Gate.LET_THROUGH else Draft.Status.DROPPED
    if kind == Draft.Gate.LET_THROUGH:
        row.error = row.detail = ""
    row.save(update_fields=["gate", "status", "error", "detail"])
    GateEvent.objects.create(draft=row, kind=kind, actor=actor, reason=reason.strip(), at=timezone.now())
