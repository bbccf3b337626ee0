"""What is forgotten, and when: sign-ins, ended sessions, texts of the ledger."""

import time
from datetime import datetime, timedelta

from allauth.usersessions.models import UserSession
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Q
from django.utils import timezone

from generation.models import Call
from generation.models.jobs import Job

DAY = 24 * 3600.0
CHUNK = 500  # calls in one statement
ENDED = (Job.Status.FINISHED, Job.Status.CANCELLED)

_next_round = 0.0


def forget_daily() -> None:
    """`forget`, at the start of a process and once a day; for the sweeper."""
    global _next_round
    if time.monotonic() >= _next_round:
        forget()
        _next_round = time.monotonic() + DAY


def forget() -> dict[str, int]:
    """Delete what is older than the settings allow. Returns counts by kind."""
    now = timezone.now()
    return {
        "sign_ins": _sign_ins(now, settings.MHB_KEEP_SIGN_INS_DAYS),
        "sessions": _sessions(now),
        "call_texts": _call_texts(now, settings.MHB_KEEP_CALL_TEXTS_DAYS),
    }


def _sign_ins(now: datetime, days: int) -> int:
    if not days:
        return 0
    before = now - timedelta(days=days)
    logs = (AccessLog, AccessAttempt, AccessFailureLog)
    return sum(int(log.objects.filter(attempt_time__lt=before).delete()[0]) for log in logs)


def _sessions(now: datetime) -> int:
    """Those that have expired, with the addresses and browsers that were noted for them."""
    ended = int(Session.objects.filter(expire_date__lt=now).delete()[0])
    UserSession.objects.exclude(session_key__in=Session.objects.values("session_key")).delete()
    return ended


def _call_texts(now: datetime, days: int) -> int:
    """What was sent and answered in jobs that are over. Costs, tokens and errors stay.

    Without its identity a call's reply is not used again.
    """
    if not days:
        return 0
    old = Call.objects.filter(Q(job=None) | Q(job__status__in=ENDED), started_at__lt=now - timedelta(days=days))
    full = old.exclude(sent={}, text="", reasoning="", detail="")
    count = 0
    while chunk := list(full.order_by("pk").values_list("pk", flat=True)[:CHUNK]):
        count += Call.objects.filter(pk__in=chunk).update(sent={}, text="", reasoning="", detail="", identity="")
    return count
