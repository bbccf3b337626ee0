"""Comments on a case and its passages, with mentions."""

import re
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from review import errors
from review.access.visibility import CLAIMS
from review.audit.trail import lock_own_account, record, recording_events
from review.common import notifications
from review.labels import ANONYMOUS_ROLES
from review.models import Assignment, Case, Event, Notice, Occasion, Remark, User
from review.models.usernames import normalize_username
from review.rules import limits
from review.rules.blocks import passages
from review.rules.permissions import Can, UserRole, allowed
from review.turns.turn import Moment, ReviewTurn, turn_in

_MENTION = re.compile(r"(?<![A-Za-z0-9_@])@([A-Za-z0-9_.+-]*[A-Za-z0-9_])")

AUTHORS: dict[str, Promise] = {"you": _("You"), "admin": _("Admin"), "physician": _("A physician"), **ANONYMOUS_ROLES}


def discussed_case(author: User, case_id: int) -> Case:
    """The case, if `author` takes part in it. Raises NotAssigned."""
    case = Case.objects.filter(pk=case_id).first()
    takes_part = allowed(author, Can.OVERSEE)
    if allowed(author, Can.REVIEW):
        takes_part = Assignment.objects.filter(case=case_id, physician=author).exists()
    if case is None or not takes_part:
        raise errors.NotAssigned
    return case


def remark(author: User, case_id: int, text: str, *, quote: str = "", passage: str = "") -> Remark:
    """Comment on a case, or on a passage of it.

    `quote` is the exact passage; `passage` is the key (`Passage.key`) of the text in which it was
    selected, for words that occur more than once. People mentioned by ``@username`` who may know of
    the case get a notice.

    Raises:
        NotAssigned: the author takes no part in this case. EmptyText, TooLong, TooManyComments.
        PassageUnknown: the quote is not in the text that the author may see.
    """
    if not text.strip():
        raise errors.EmptyText
    if len(text.strip()) > limits.COMMENT:
        raise errors.TooLong
    words = quote.replace("\r\n", "\n").strip()  # browsers post CRLF
    with recording_events():
        case = discussed_case(author, case_id)
        check_rate(author)
        anchor = None
        if words:
            anchor = _anchor(author, case, words, passage)
        new = Remark.objects.create(case=case, author=author, anchor=anchor, text=text.strip(), at=timezone.now())
        if not case.discussed:
            case.discussed = True
            case.save(update_fields=["discussed"])
        if mentioned := _mentioned_users(new):
            Notice.objects.bulk_create(
                Notice(user=user, kind=Notice.Kind.MENTION, case=case, remark=new, at=new.at) for user in mentioned
            )
            # From whom it is still sealed learns of it on the site, once it is not.
            readers = [user for user in mentioned if remarks_shown_to(user, case).filter(pk=new.pk).exists()]
            if readers:
                notifications.tell(Occasion.MENTIONED, readers, case=case.pk, path=reverse("review:notices"))
        record(case, Event.Kind.REMARKED, author, remark=new.pk)
    return new


def mark_discussed() -> int:
    """Mark the cases on which somebody has commented in a process of an older version.

    During an upgrade such processes go on, and know nothing of `Case.discussed`. Returns how many.
    """
    commented = Remark.objects.order_by().values("case")
    return Case.objects.filter(discussed=False, pk__in=commented).update(discussed=True)


def unknown_mentions(author: User, case: Case, text: str) -> list[str]:
    """The names after an @ that reach nobody, as far as the author may know.

    Only those who oversee cases may know who works on one; others learn of names that nobody has.
    """
    names = set(_MENTION.findall(normalize_username(text)))
    people = User.objects.filter(username__in=names, is_active=True)
    if allowed(author, Can.OVERSEE):
        people = people.filter(Q(role=UserRole.ADMIN) | Q(assignments__case=case))
    return sorted(names - set(people.values_list("username", flat=True)))


def sealed_mentions(author: User, text: str) -> list[str]:
    """The names after an @ of colleagues; the author may not know whether they work on the case."""
    if allowed(author, Can.OVERSEE):
        return []
    names = _MENTION.findall(normalize_username(text))
    colleagues = User.objects.filter(username__in=names, is_active=True).exclude(role=UserRole.ADMIN)
    return sorted(colleagues.exclude(pk=author.pk).values_list("username", flat=True))


def reachable(author: User, case: Case) -> list[User]:
    """The people who can be notified by an @, as far as the author may know.

    Admins, and for those who oversee cases also the physicians on this one.
    """
    people = Q(role=UserRole.ADMIN)
    if allowed(author, Can.OVERSEE):
        people |= Q(assignments__case=case)
    return list(User.objects.filter(people, is_active=True).exclude(pk=author.pk).distinct().order_by("username"))


def check_rate(author: User) -> None:
    """Raise TooManyComments if a person has commented and reported too often within a minute.

    Needs a transaction, which holds up the person's others: two at once must not both be the last.
    """
    lock_own_account(author)
    recent = Event.objects.filter(
        actor=author, kind__in=(Event.Kind.REMARKED, Event.Kind.PROBLEM), at__gte=timezone.now() - timedelta(minutes=1)
    )
    if recent.count() >= limits.COMMENTS:
        raise errors.TooManyComments


def _mentioned_users(remark: Remark) -> list[User]:
    """The people mentioned in a remark who may know of its case, except the author.

    Searches the text for known names rather than parsing names out of it, because a name may be
    followed by punctuation or by Chinese without a space. The longer of two names with the same
    beginning wins.
    """
    if "@" not in remark.text:
        return []
    participants = User.objects.filter(Q(role=UserRole.ADMIN) | Q(assignments__case=remark.case_id), is_active=True)
    by_name = {user.username: user for user in participants.exclude(pk=remark.author_id).distinct()}
    if not by_name:
        return []
    names = "|".join(re.escape(name) for name in sorted(by_name, key=len, reverse=True))
    mentions = re.findall(rf"(?<![A-Za-z0-9_@])@({names})(?![.+@-]*[A-Za-z0-9_])", normalize_username(remark.text))
    return [by_name[name] for name in dict.fromkeys(mentions)]


def _anchor(author: User, case: Case, quote: str, passage: str) -> dict[str, object]:
    """The location of a quote: block, turn, `source` (the original text), start and end.

    Searches only what the author may see, so as not to reveal whether words occur in a hidden part.
    """
    turn = turn_in(author, case)
    if turn:
        spec = turn.shows
    else:
        spec = case.frozen
    matches = [candidate for candidate in passages(spec.blocks) if quote in candidate.text]
    if not matches or len(quote) > limits.COMMENT:
        raise errors.PassageUnknown
    match = next((candidate for candidate in matches if candidate.key == passage), matches[0])
    start = match.text.index(quote)
    anchor = {"block": match.block, "turn": match.turn, "start": start, "end": start + len(quote), "quote": quote}
    return anchor | ({"source": True} if match.source else {})


@dataclass(frozen=True, slots=True)
class ShownRemark:
    """A remark, and its author as its reader may know them."""

    remark: Remark
    author: str | Promise


def discussion(reader: User, case: Case, turn: ReviewTurn | None = None) -> list[ShownRemark]:
    """The remarks that `reader` may read, with authors: real names only for who oversees cases.

    Pass the `turn` of `reader` if it is at hand.
    """
    if not case.discussed:
        return []
    remarks = remarks_shown_to(reader, case, turn)
    if allowed(reader, Can.OVERSEE):
        return [ShownRemark(remark, str(remark.author)) for remark in remarks]
    roles = Assignment.objects.filter(case=case, physician__isnull=False).values_list("physician", "role")
    names = {**dict(roles), reader.pk: "you"}
    shown = []
    for remark in remarks:
        others = "physician"
        if remark.author.role == UserRole.ADMIN:
            others = "admin"
        shown.append(ShownRemark(remark, AUTHORS[names.get(remark.author_id, others)]))
    return shown


def remarks_shown_to(user: User, case: Case, turn: ReviewTurn | None = None) -> QuerySet[Remark]:
    """The part of a case's discussion that `user` may read, oldest first.

    Pass the `turn` of `user` if it is at hand.
    """
    remarks = Remark.objects.filter(case=case).select_related("author")
    if allowed(user, Can.OVERSEE):
        return remarks
    turn = turn or turn_in(user, case)
    if turn is None:
        return remarks.none()
    readable = Q(author=user)
    if not is_sealed(turn):
        authors = {review.physician_id for review in turn.reviews}
        readable |= said_by_admins() | Q(author__in=authors)
    return remarks.filter(readable)


def said_by_admins() -> Q:
    """Condition on a remark: an admin wrote it, who has had no role in its case as a physician."""
    claims = Event.objects.filter(case=OuterRef("case"), actor=OuterRef("author"), kind__in=CLAIMS)
    return ~Exists(claims) & Q(author__role=UserRole.ADMIN)


def is_sealed(turn: ReviewTurn) -> bool:
    """Whether a physician may not read other people's remarks yet, as they may name the traps."""
    return turn.moment is Moment.FIRST_LOOK


def notify_of_discussion(assignment: Assignment) -> None:
    """Notify an adjudicator that the votes differ and the case is open for discussion.

    Does nothing while an earlier notice is unread.
    """
    _notice, is_new = Notice.objects.get_or_create(
        user=assignment.physician,
        kind=Notice.Kind.DISCUSSION,
        case=assignment.case,
        read_at=None,
        defaults={"at": timezone.now()},
    )
    if is_new:
        notifications.tell(
            Occasion.DISSENT, [assignment.physician], case=assignment.case_id, path=reverse("review:notices")
        )
