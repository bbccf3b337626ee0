"""Notices: who was mentioned or answered where."""

from django.utils import timezone

from review import errors
from review.access import visibility
from review.discussion.remarks import is_sealed
from review.models import Assignment, Notice, User
from review.rules.permissions import Can, UserRole, allowed

SHOWN = 10  # notices at a time
BATCH = 2 * SHOWN  # notices asked about at once


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
        if not is_sealed(user, own):
            unsealed[own.case_id] = own
    shown = [
        visibility.reviews_shown_to(user, own.case, own).order_by().values_list("case", "physician")
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
