"""Comments on a case and its passages, with mentions."""

import re

from django.db.models import Q, QuerySet
from django.utils import timezone

from review import errors
from review.access import visibility
from review.audit.trail import record, recording_events
from review.common import sql
from review.models import Assignment, Case, Event, Notice, Remark, User
from review.models.usernames import normal
from review.rules.blocks import passages
from review.rules.permissions import Can, UserRole, allowed
from review.rules.state_machine import State

LONGEST = 4_000  # characters of a remark or of a passage


def discussed_case(author: User, case_id: int) -> Case:
    """The case, for who has a part in it. Raises NotYours."""
    case = Case.objects.filter(pk=case_id).first()
    if case is None or not _takes_part(author, case):
        raise errors.NotYours
    return case


def remark(author: User, case_id: int, text: str, *, quote: str = "", passage: str = "") -> Remark:
    """Say something about a case, or about a passage of it.

    `quote` is the passage as it stands in the text, `passage` the key (`Passage.key`) of where it was selected, for words
    that stand more than once. People mentioned by ``@username`` who may know of the case get a notice.

    Raises:
        NotYours: the author has no part in this case. EmptyText.
        PassageUnknown: the quote does not stand in what the author may see of the text.
    """
    if not text.strip():
        raise errors.EmptyText
    words = quote.replace("\r\n", "\n").strip()  # browsers post the ends of lines so
    with recording_events():
        case = discussed_case(author, case_id)
        anchor = _anchor(author, case, words, passage) if words else None
        made = Remark.objects.create(
            case=case, author=author, anchor=anchor, text=text.strip()[:LONGEST], at=timezone.now()
        )
        Notice.objects.bulk_create(
            Notice(user=user, kind=Notice.Kind.MENTION, case=case, remark=made, at=made.at) for user in _mentioned(made)
        )
        record(case, Event.Kind.REMARKED, author, remark=made.pk)
    return made


def _mentioned(made: Remark) -> list[User]:
    """Who is named in a remark among those who may know of its case, the author aside.

    The names are looked for in the text, not the other way round: what stands around a name may be its punctuation, or
    Chinese without a space. Of two names that begin alike the longer one counts.
    """
    if "@" not in made.text:
        return []
    may_know = User.objects.filter(Q(role=UserRole.ADMIN) | Q(assignments__case=made.case_id), is_active=True)
    by_name = {user.username: user for user in may_know.exclude(pk=made.author_id).distinct()}
    if not by_name:
        return []
    names = "|".join(re.escape(name) for name in sorted(by_name, key=len, reverse=True))
    found = re.findall(rf"(?<![A-Za-z0-9_@])@({names})(?![.+@-]*[A-Za-z0-9_])", normal(made.text))
    return [by_name[name] for name in dict.fromkeys(found)]


def _takes_part(user: User, case: Case) -> bool:
    return allowed(user, Can.OVERSEE) or Assignment.objects.filter(case=case, physician=user).exists()


def _anchor(author: User, case: Case, quote: str, passage: str) -> dict[str, object]:
    """Where the quote stands: block, turn, `source` (the text before it was changed), and from which character to which.

    Looked for in what the author may see: whether words stand in a hidden part is hidden, too.
    """
    own = visibility.part_in(case, author)
    spec = case.frozen
    if own is not None:
        own.case = case
        spec = visibility.case_shown_to(author, own)
    found = [each for each in passages(spec.blocks) if quote in each.text]
    if not found or len(quote) > LONGEST:
        raise errors.PassageUnknown
    here = next((each for each in found if each.key == passage), found[0])
    start = here.text.index(quote)
    place = {"block": here.block, "turn": here.turn, "start": start, "end": start + len(quote), "quote": quote}
    return place | ({"source": True} if here.source else {})


def remarks_shown_to(user: User, case: Case) -> QuerySet[Remark]:
    """The discussion of a case as far as `user` may read it, in order."""
    everything = Remark.objects.filter(case=case).select_related("author")
    if allowed(user, Can.OVERSEE):
        return everything
    if sql.first_row("SELECT 1 FROM review_remark WHERE case_id = %s LIMIT 1", case.pk) is None:  # so of most cases
        return everything.none()
    own = visibility.part_in(case, user)
    if own is None:
        return everything.none()
    own.case = case
    seen = Q(author=user)
    if not is_sealed(user, own):
        seen |= Q(author__role=UserRole.ADMIN)
        seen |= Q(author__in=visibility.reviews_shown_to(user, case, own).values("physician"))
    return everything.filter(seen)


def is_sealed(user: User, own: Assignment) -> bool:
    """Whether nothing that others say of the case may be read yet: it may name the traps."""
    return not State(own.case.state).final and not visibility.is_revealed(user, own)


def discussion_opened(assignment: Assignment) -> None:
    """Tell an adjudicator that the two votes differ and the case is to be discussed; once, until it is read."""
    Notice.objects.get_or_create(
        user=assignment.physician,
        kind=Notice.Kind.DISCUSSION,
        case=assignment.case,
        read_at=None,
        defaults={"at": timezone.now()},
    )
