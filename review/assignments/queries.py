"""Queries on assignments and their drafts."""

from dataclasses import replace

from django.db.models import Exists, OuterRef, Q, QuerySet

from review.access import visibility
from review.models import Assignment, Draft, Review, Rewording, User
from review.rules.case_spec import answers_from_json
from review.rules.citations import Citation, identity
from review.turns.turn import counted_reviews, turn_rows


def held_assignment(physician: User, *, locked: bool = False) -> Assignment | None:
    """The assignment that the physician holds, the oldest of several; None if there is none.

    Args:
        locked: lock its row.
    """
    rows = turn_rows(physician).filter(physician=physician, hold=Assignment.Hold.HELD).order_by("pk")
    assignment = (rows.select_for_update(of=("self",)) if locked else rows).first()
    if assignment is not None:
        assignment.physician = physician
    return assignment


def retractable_review(physician: User) -> Review | None:
    """The physician's last review if it seems retractable; `retraction.retract` decides."""
    last = _with_later_work(visibility.reviews_by(physician)).first()
    if last is not None and _is_open(last):
        return last
    return None


def is_retractable(review: Review) -> bool:
    """Whether one of the physician's reviews seems retractable, as above."""
    found = _with_later_work(visibility.reviews_by(review.physician)).filter(pk=review.pk).first()
    return found is not None and _is_open(found)


def _with_later_work(reviews: QuerySet[Review]) -> QuerySet[Review]:
    """The reviews with `built_on`: whether others have worked on the case since."""
    later = counted_reviews().filter(case=OuterRef("case"), pk__gt=OuterRef("pk"))
    held = Assignment.objects.filter(~Q(pk=OuterRef("assignment")), case=OuterRef("case"), hold=Assignment.Hold.HELD)
    shown = ("phase", "assignment__phase", "case__title", "case__kind", "case__closed_at")
    rows = reviews.select_related("assignment").only(*shown)
    return rows.annotate(
        built_on=Exists(later) | Exists(held) | Exists(Rewording.objects.filter(review=OuterRef("pk")))
    )


def _is_open(review: Review) -> bool:
    if review.built_on or review.assignment.phase != review.phase:  # type: ignore[attr-defined]
        return False
    return review.case.closed_at is None or review.case.is_copy


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
