"""What people say around a case: guidelines, the discussion, comments on passages, mentions. Services and their queries.

Blindness holds here as for reviews: a physician reads the remarks of those whose reviews the physician may read, and of
admins; before the traps are revealed, only the own ones.
"""

import re

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from review import errors, queries, sql
from review.machine import State
from review.models import Assignment, Case, ChainHead, Event, Guideline, Notice, Remark, User
from review.names import normal
from review.permissions import Can, UserRole, allowed, require
from review.trail import EVENTS, record, recorded

LONGEST = 4_000  # characters of a remark or of a passage
SHOWN = 10  # notices at a time
BATCH = 2 * SHOWN  # notices asked about at once
STAGES = (State.PRIMARY, State.SECONDARY, State.ADJUDICATION)

# ------------------------------------------------------------------------------------------------------- guidelines


def guideline(benchmark: str, stage: State) -> Guideline | None:
    """The guideline in force; None where admins have written none and the built-in text stands."""
    return Guideline.objects.filter(benchmark=benchmark, stage=stage).order_by("-version").first()


def guideline_versions(benchmark: str, stage: State) -> QuerySet[Guideline]:
    """All that was ever in force, newest first."""
    return Guideline.objects.filter(benchmark=benchmark, stage=stage).select_related("author").order_by("-version")


@transaction.atomic
def write_guideline(actor: User, *, benchmark: str, stage: State, text: str, base: int | None = None) -> Guideline:
    """Put a new version in force; a text equal to the one in force changes nothing.

    `base` is the version that the writer has seen (0: none; None: whichever is in force).

    Raises:
        NotAllowed, EmptyText. StaleGuideline: another version than `base` is in force; nothing was written.
    """
    require(actor, Can.OVERSEE)
    if not text.strip():
        raise errors.EmptyText
    # One lock for all guidelines: before the first version there is no row that two writers could both lock.
    ChainHead.objects.select_for_update().get(pk=EVENTS)
    current = guideline(benchmark, stage)
    if current is not None and current.text == text:
        return current
    latest = current.version if current is not None else 0
    if base is not None and base != latest:
        raise errors.StaleGuideline
    return Guideline.objects.create(
        benchmark=benchmark, stage=stage, version=latest + 1, text=text, author=actor, at=timezone.now()
    )


# ---------------------------------------------------------------------------------------------------------- remarks


def case_spoken_of(author: User, case_id: int) -> Case:
    """The case, for who has a part in it. Raises NotYours."""
    case = Case.objects.filter(pk=case_id).first()
    if case is None or not _takes_part(author, case):
        raise errors.NotYours
    return case


def remark(author: User, case_id: int, text: str, *, quote: str = "", passage: str = "") -> Remark:
    """Say something about a case, or about a passage of it.

    `quote` is the passage as it stands in the text, `passage` the key (`Passage.key`) of where it was selected, for words
    that stand more than once. Whoever is mentioned by ``@username`` and may know of the case gets a notice.

    Raises:
        NotYours: the author has no part in this case. EmptyText.
        PassageUnknown: the quote does not stand in what the author may see of the text.
    """
    if not text.strip():
        raise errors.EmptyText
    words = quote.replace("\r\n", "\n").strip()  # browsers post the ends of lines so
    with recorded():
        case = case_spoken_of(author, case_id)
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
    own = Assignment.objects.filter(case=case, physician=author).prefetch_related("first_looks").first()
    spec = case.frozen
    if own is not None:
        own.case = case
        spec = queries.case_shown_to(author, own)
    found = [each for each in queries.passages(spec) if quote in each.text]
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
    if sql.first("SELECT 1 FROM review_remark WHERE case_id = %s LIMIT 1", case.pk) is None:  # so of most cases
        return everything.none()
    own = Assignment.objects.filter(case=case, physician=user).prefetch_related("first_looks").first()
    if own is None:
        return everything.none()
    own.case = case
    seen = Q(author=user)
    if not _sealed(user, own):
        seen |= Q(author__role=UserRole.ADMIN)
        seen |= Q(author__in=queries.reviews_shown_to(user, case, own).values("physician"))
    return everything.filter(seen)


def _sealed(user: User, own: Assignment) -> bool:
    """Whether nothing that others say of the case may be read yet: it may name the traps."""
    return not State(own.case.state).final and not queries.is_revealed(user, own)


# ---------------------------------------------------------------------------------------------------------- notices


def discussion_opened(assignment: Assignment) -> None:
    """Tell an adjudicator that the two votes differ and the case is to be discussed; once, until it is read."""
    Notice.objects.get_or_create(
        user=assignment.physician,
        kind=Notice.Kind.DISCUSSION,
        case=assignment.case,
        read_at=None,
        defaults={"at": timezone.now()},
    )


def notices_for(user: User) -> list[Notice]:
    """The newest notices that wait to be read by `user`, at most `SHOWN`.

    A mention in a remark that is still sealed from the reader is held back, not lost: it shows once the seal is off.
    """
    waiting = (
        Notice.objects.filter(user=user, read_at__isnull=True).select_related("case", "remark__author").order_by("-pk")
    )
    shown: list[Notice] = []
    begin, batch = 0, list(waiting[:BATCH])
    while batch:
        shown += _open(user, batch)
        begin += BATCH
        batch = list(waiting[begin : begin + BATCH]) if len(batch) == BATCH and len(shown) < SHOWN else []
    return shown[:SHOWN]


def _open(user: User, notices: list[Notice]) -> list[Notice]:
    """Those whose remark `user` may read (`remarks_shown_to`), in as many statements however many there are."""
    cases = {notice.case_id: notice.case for notice in notices if notice.remark_id is not None}
    if not cases or allowed(user, Can.OVERSEE):
        return notices
    unsealed: dict[int, Assignment] = {}
    for own in Assignment.objects.filter(case__in=cases, physician=user).prefetch_related("first_looks"):
        own.case = cases[own.case_id]
        if not _sealed(user, own):
            unsealed[own.case_id] = own
    shown = [
        queries.reviews_shown_to(user, own.case, own).order_by().values_list("case", "physician")
        for own in unsealed.values()
    ]
    heard = set(shown[0].union(*shown[1:])) if shown else set()
    return [
        notice
        for notice in notices
        if notice.remark is None
        or (
            notice.case_id in unsealed
            and (notice.remark.author.role == UserRole.ADMIN or (notice.case_id, notice.remark.author_id) in heard)
        )
    ]


def mark_read(user: User, notice_id: int) -> Notice:
    """Raises NotYours."""
    found = Notice.objects.filter(pk=notice_id, user=user).select_related("case").first()
    if found is None:
        raise errors.NotYours
    Notice.objects.filter(pk=found.pk, read_at__isnull=True).update(read_at=timezone.now())
    return found
