"""Queries on assignments and their drafts."""

from dataclasses import replace

from django.db.models import Exists, OuterRef, Q, QuerySet

from review import errors
from review.access import visibility
from review.models import Assignment, Draft, Review, Rewording, User
from review.rules.case_spec import answers_from_json
from review.rules.citations import Citation, identity


def assignment_of(physician: User, assignment_id: int) -> Assignment:
    """The physician's own assignment. Raises NotAssigned for any other."""
    assignment = _with_case().filter(pk=assignment_id, physician=physician).first()
    if assignment is None:
        raise errors.NotAssigned
    assignment.physician = physician
    return assignment


def held_assignment(physician: User, *, locked: bool = False) -> Assignment | None:
    """The assignment that the physician holds, the oldest of several; None if there is none.

    Args:
        locked: lock its row.
    """
    rows = _with_case().filter(physician=physician, hold=Assignment.Hold.HELD).order_by("pk")
    assignment = (rows.select_for_update(of=("self",)) if locked else rows).first()
    if assignment is not None:
        assignment.physician = physician
    return assignment


def _with_case() -> QuerySet[Assignment]:
    """Assignments with their case and first looks, which a page looks up many times."""
    return Assignment.objects.select_related("case").prefetch_related("first_looks")


def retractable_review(physician: User) -> Review | None:
    """The physician's last review if it seems retractable; `retraction.retract` decides."""
    later = visibility.counted_reviews().filter(case=OuterRef("case"), pk__gt=OuterRef("pk"))
    held = Assignment.objects.filter(~Q(pk=OuterRef("assignment")), case=OuterRef("case"), hold=Assignment.Hold.HELD)
    shown = ("phase", "assignment__phase", "case__title", "case__kind", "case__closed_at")
    rows = visibility.reviews_by(physician).select_related("assignment").only(*shown)
    last = rows.annotate(
        built_on=Exists(later) | Exists(held) | Exists(Rewording.objects.filter(review=OuterRef("pk")))
    ).first()
    if last is None or last.built_on or last.assignment.phase != last.phase:
        return None
    return last if last.case.closed_at is None or last.case.is_copy else None


def draft_of(assignment: Assignment, physician: User) -> Draft | None:
    """The physician's draft for the current phase."""
    return Draft.objects.filter(assignment=assignment, physician=physician, phase=assignment.phase).first()


def last_draft(physician: User, assignment_id: int) -> Draft | None:
    """The physician's latest draft of an assignment, which somebody else may hold now."""
    return Draft.objects.filter(assignment=assignment_id, physician=physician).order_by("-saved_at", "-id").first()


MAX_RECENT_SOURCES = 5
RECENT_REVIEWS = 20  # reviews searched for recent sources


def recent_sources(physician: User) -> list[Citation]:
    """The distinct sources that the physician cited last, without passages, newest first."""
    sources: dict[tuple[str, str, str], Citation] = {}
    for answers in visibility.reviews_by(physician).values_list("answers", flat=True)[:RECENT_REVIEWS]:
        for citation in reversed(answers_from_json(answers).citations):
            if citation.kind != "case":  # a passage of one case does not occur in another
                sources.setdefault(identity(citation), replace(citation, passage=""))
    return list(sources.values())[:MAX_RECENT_SOURCES]


def assignment_for_post(assignment_id: int) -> Assignment:
    """Any assignment with its case, for reading a posted form.

    Does not check access: the services decide who may act on it, and nothing of it may be shown.
    """
    assignment = _with_case().filter(pk=assignment_id).first()
    if assignment is None:
        raise errors.NotAssigned
    return assignment
