"""Wordings put to primary reviewers: what waits for whom, and what each would change."""

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
from review.rules.questions import RubricAnswer
from review.rules.state_machine import Role


@dataclass(frozen=True, slots=True)
class RewordedRubric:
    """A rubric that would be approved in another wording than the primary's. `before`: the primary's, empty where the secondary
    added it; `after`: empty where the secondary left it out; `note`: the secondary's."""

    key: str
    tags: tuple[str, ...]
    before: str
    after: str
    note: str
    spans: tuple[Span, ...]


def pending() -> QuerySet[Rewording]:
    """Those that nobody has answered, of open cases; the first to lapse comes first."""
    rows = Rewording.objects.filter(outcome__isnull=True, case__closed_at__isnull=True)
    return rows.select_related("case").order_by("due_at", "id")


def waiting_for(physician: User) -> QuerySet[Rewording]:
    """Those that the physician may still answer."""
    return pending().filter(physician=physician, due_at__gt=timezone.now())


def rewording_of(physician: User, rewording_id: int) -> Rewording:
    """A wording that was put to the physician. Raises NotYours for any other, whether it exists or not."""
    rows = Rewording.objects.select_related("case", "outcome", "review")
    found = rows.filter(pk=rewording_id, physician=physician).first()
    if found is None:
        raise errors.NotYours
    return found


def reworded_rubrics(rewording: Rewording) -> list[RewordedRubric]:
    """What the primary has not approved of what would be approved: the rubrics alone, and no other answer of the secondary."""
    case = rewording.case
    form, policy = case.frozen.form, case.frozen.policy
    primary = visibility.counted_reviews().filter(case=case, role=Role.PRIMARY).get()
    own, other = answers_from_json(primary.answers), answers_from_json(rewording.review.answers)
    before = _by_text(consolidation.rubrics(form, [own]))
    after = _by_text(consolidation.rubrics(form, [other] if policy.secondary_confirms else [own, other]))
    found = []
    for key in dict.fromkeys([*before, *after]):
        one, two = before.get(key), after.get(key)
        old, new = one.criterion if one else "", two.criterion if two else ""
        if " ".join(old.split()) == " ".join(new.split()):
            continue
        shown = two or one
        note = other.rubrics.get(key, RubricAnswer()).note
        found.append(RewordedRubric(shown.key, shown.tags, old, new, note, diff_words(old, new)) if shown else None)
    return [each for each in found if each is not None]


def _by_text(rubrics: Sequence[SettledRubric]) -> dict[str, SettledRubric]:
    """Standing rubrics by key; those that physicians added by their text, as their numbers say nothing."""
    return {
        f"+{' '.join(each.criterion.split())}" if each.added_by_physician else each.key: each
        for each in rubrics
        if not each.removed
    }
