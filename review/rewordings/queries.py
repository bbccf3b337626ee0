"""Rewordings shown to primary reviewers: which are pending for whom, and what they would change."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils import timezone

from review import errors
from review.access import visibility
from review.models import Rewording, User
from review.rules import consolidation
from review.rules.case_spec import answers_from_json
from review.rules.consolidation import SettledRubric
from review.rules.diffing import Span, diff_words
from review.rules.shown_fields import Hidden
from review.rules.state_machine import Role


@dataclass(frozen=True, slots=True)
class RewordedRubric:
    """A rubric that would be approved in another wording than the primary's.

    before: the primary's wording; empty if the secondary added the rubric.
    after: the secondary's wording; empty if the secondary dropped the rubric.
    note: the secondary's note.
    """

    key: str
    tags: tuple[str, ...]
    before: str
    after: str
    note: str
    spans: Hidden[tuple[Span, ...]]


def pending() -> QuerySet[Rewording]:
    """The unanswered rewordings of open cases, in the order in which they lapse."""
    rows = Rewording.objects.filter(outcome__isnull=True, case__closed_at__isnull=True)
    return rows.select_related("case").order_by("due_at", "id")


def waiting_for(physician: User) -> QuerySet[Rewording]:
    """The rewordings that the physician may still answer."""
    return pending().filter(physician=physician, due_at__gt=timezone.now())


def rewording_of(physician: User, rewording_id: int) -> Rewording:
    """A rewording shown to the physician.

    Raises NotAssigned for any other, whether it exists or not.
    """
    rows = Rewording.objects.select_related("case", "outcome", "review")
    rewording = rows.filter(pk=rewording_id, physician=physician).first()
    if rewording is None:
        raise errors.NotAssigned
    return rewording


def reworded_rubrics(rewording: Rewording) -> list[RewordedRubric]:
    """The rubrics to be approved that differ from the primary's.

    Contains no other answers of the secondary.
    """
    case = rewording.case
    form, policy = case.frozen.form, case.frozen.policy
    primary = visibility.counted_reviews().filter(case=case, role=Role.PRIMARY).get()
    first_answers, second_answers = answers_from_json(primary.answers), answers_from_json(rewording.review.answers)
    before = _rubrics_by_key(consolidation.settled_rubrics(form, [first_answers]))
    if policy.secondary_confirms:
        deciding = [second_answers]
    else:
        deciding = [first_answers, second_answers]
    after = _rubrics_by_key(consolidation.settled_rubrics(form, deciding))
    reworded = []
    for key in dict.fromkeys([*before, *after]):
        old_rubric, new_rubric = before.get(key), after.get(key)
        old = ""
        if old_rubric:
            old = old_rubric.criterion
        new = ""
        if new_rubric:
            new = new_rubric.criterion
        rubric = new_rubric or old_rubric
        if rubric is None or " ".join(old.split()) == " ".join(new.split()):
            continue
        note = second_answers.finding(key).note
        reworded.append(RewordedRubric(rubric.key, rubric.tags, old, new, note, diff_words(old, new)))
    return reworded


def _rubrics_by_key(rubrics: Sequence[SettledRubric]) -> dict[str, SettledRubric]:
    """The retained rubrics by key, and added ones by text, as their keys are not comparable."""
    by_key = {}
    for rubric in rubrics:
        if rubric.removed:
            continue
        key = rubric.key
        if rubric.added_by_physician:
            key = f"+{' '.join(rubric.criterion.split())}"
        by_key[key] = rubric
    return by_key
