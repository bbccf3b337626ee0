"""Has samples reviewed again that a careless physician helped to approve."""

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from generation.models import ReleasedSample, Sample, SampleVersion
from review.access import visibility
from review.assignments import retraction
from review.audit.trail import recording_events
from review.errors import NotUndoable
from review.models import User
from review.rules.permissions import Can, Operator, require

SHOWN = 50  # released samples on the page


@dataclass(frozen=True, slots=True)
class Reopened:
    """What became of the approved samples that a physician reviewed.

    Attributes:
        cases: cases that others review again.
        kept: left as they are, as the first reviewer was asked about their wording.
        released: ids of samples in releases, which never change: withdraw those that are wrong.
    """

    cases: int
    kept: int
    released: tuple[int, ...]


def approved(person_id: int, *, released: bool) -> QuerySet[SampleVersion]:
    """The approved versions that a physician reviewed, those in a release or the others."""
    reviews = visibility.counted_reviews().filter(physician=person_id, case=OuterRef("case"))
    in_release: Q = Q(Exists(ReleasedSample.objects.filter(version=OuterRef("pk"))))
    if not released:
        in_release = ~in_release
    rows = SampleVersion.objects.filter(Exists(reviews), in_release, status=SampleVersion.Status.APPROVED)
    return rows.select_related("sample").order_by("pk")


def reopen(person_id: int, *, actor: User | Operator, reason: str) -> Reopened:
    """Have approved samples that are in no release reviewed again without a physician's reviews.

    Each sample is a transaction of its own. Samples in releases stay as they are.
    """
    require(actor, Can.OVERSEE)
    done = kept = 0
    for pk in list(approved(person_id, released=False).values_list("pk", flat=True)):
        try:
            done += _reopen(pk, person_id, actor, reason)
        except NotUndoable:
            kept += 1
    released = approved(person_id, released=True).values_list("sample", flat=True)
    return Reopened(done, kept, tuple(dict.fromkeys(released)))


@recording_events()
def _reopen(pk: int, person_id: int, actor: User | Operator, reason: str) -> bool:
    """Reopen one; False if it was released or withdrawn in the meantime."""
    SampleVersion.objects.select_for_update().get(pk=pk)  # a freeze cannot release it meanwhile
    version = approved(person_id, released=False).filter(pk=pk).first()
    if version is None:
        return False
    retraction.reopen(version.case_id, person_id, actor=actor, reason=reason)
    version.rubrics.filter(added=True).delete()
    version.rubrics.update(approved="", severity="", severities=[], removed=False)
    version.status, version.citations = SampleVersion.Status.IN_REVIEW, []
    version.save(update_fields=["status", "citations"])
    Sample.objects.filter(pk=version.sample_id).update(status=Sample.Status.IN_REVIEW)
    return True


def reviewer_context(person: User) -> dict[str, object]:
    """Context for the page of a physician: approved samples they reviewed."""
    return {
        "reopenable": approved(person.pk, released=False).count(),
        "released": approved(person.pk, released=True)[:SHOWN],
        "released_total": approved(person.pk, released=True).count(),
    }
