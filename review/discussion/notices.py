"""Notices: mentions, reported problems and opened discussions."""

from django.utils import timezone

from review import errors
from review.discussion.remarks import is_sealed, said_by_admins
from review.models import Notice, Remark, User
from review.rules.permissions import Can, may_read
from review.turns.turn import turns_in

MAX_SHOWN = 10  # notices shown at a time
BATCH = 2 * MAX_SHOWN  # notices checked at a time


def notices_for(user: User) -> list[Notice]:
    """The newest unread notices of `user`, at most `MAX_SHOWN`.

    A mention in a remark that is still sealed from the user is shown once the seal is removed.
    """
    unread = Notice.objects.filter(user=user, read_at__isnull=True)
    if not unread.exists():  # every page asks, and mostly there is none
        return []
    unread = unread.prefetch_related("case", "remark__author").order_by("-pk")
    shown: list[Notice] = []
    start, batch = 0, list(unread[:BATCH])
    while batch:
        shown += readable_notices(user, batch)
        start += BATCH
        if len(batch) == BATCH and len(shown) < MAX_SHOWN:
            batch = list(unread[start : start + BATCH])
        else:
            batch = []
    return shown[:MAX_SHOWN]


def readable_notices(user: User, notices: list[Notice]) -> list[Notice]:
    """The notices whose remark `user` may read (as in `remarks_shown_to`), in few queries.

    A problem was reported to admins: not to those of them who are physicians now.
    """
    if may_read(user, Can.OVERSEE):
        return notices
    notices = [notice for notice in notices if notice.kind != Notice.Kind.PROBLEM]
    cases = {notice.case_id: notice.case for notice in notices if notice.remark_id is not None}
    if not cases:
        return notices
    unsealed: set[int] = set()
    visible_authors: set[tuple[int, int]] = set()
    for turn in turns_in(user, cases):
        if not is_sealed(turn):
            unsealed.add(turn.case.pk)
            visible_authors |= {(turn.case.pk, review.physician_id) for review in turn.reviews}
    mentions = Remark.objects.filter(pk__in=[notice.remark_id for notice in notices])
    by_admins = set(mentions.filter(said_by_admins()).values_list("pk", flat=True))
    readable = []
    for notice in notices:
        if notice.remark is not None:
            by_admin = notice.remark_id in by_admins
            by_visible = (notice.case_id, notice.remark.author_id) in visible_authors
            if notice.case_id not in unsealed or not (by_admin or by_visible):
                continue
        readable.append(notice)
    return readable


def mark_read(user: User, notice_id: int) -> Notice:
    """Mark a notice of `user` as read. Raises NotAssigned, also while its remark is sealed."""
    notice = Notice.objects.filter(pk=notice_id, user=user).select_related("case", "remark__author").first()
    if notice is None or not readable_notices(user, [notice]):
        raise errors.NotAssigned
    Notice.objects.filter(pk=notice.pk, read_at__isnull=True).update(read_at=timezone.now())
    return notice
