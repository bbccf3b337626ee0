"""What is forgotten, and when: sign-ins, ended sessions, ledger texts, uploads left behind."""

import logging
import time
from datetime import UTC, datetime, timedelta

from allauth.usersessions.models import UserSession
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.files.storage import Storage
from django.db.models import Min, Q
from django.utils import timezone

from evaluation.models import ResultsImport
from generation.common.storage import UPLOADS, store
from generation.engine.ledger import NO_CONTENT
from generation.jobs.kinds import OPEN
from generation.models import Call, Import, SentText
from generation.models.jobs import Job
from review.common import notifications
from review.discussion import remarks

log = logging.getLogger(__name__)
DAY = 24 * 3600.0
ORPHAN_AGE = timedelta(days=1)  # until then, somebody may still choose the columns of an upload
CHUNK = 500  # calls in one statement
ENDED = (Job.Status.FINISHED, Job.Status.CANCELLED)

_next_round = 0.0


def forget_daily() -> None:
    """`forget` and `mark_discussed`, at the start of a process and once a day; for the sweeper."""
    global _next_round
    if time.monotonic() >= _next_round:
        forget()
        remarks.mark_discussed()
        _next_round = time.monotonic() + DAY


def forget() -> dict[str, int]:
    """Delete what is older than the settings allow. Returns counts by kind."""
    now = timezone.now()
    return {
        "sign_ins": _sign_ins(now, settings.MHB_KEEP_SIGN_INS_DAYS),
        "sessions": _sessions(now),
        "messages": notifications.forget(),
        "call_texts": _call_texts(now, settings.MHB_KEEP_CALL_TEXTS_DAYS),
        "uploads": _shared_uploads(now),
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
    """What was sent and answered in jobs that are over. Costs, tokens and errors stay."""
    if not days:
        return 0
    old = Call.objects.filter(Q(job=None) | Q(job__status__in=ENDED), started_at__lt=now - timedelta(days=days))
    full = old.exclude(request=b"", text="", reasoning="", detail="")
    count = 0
    while chunk := list(full.order_by("pk").values_list("pk", flat=True)[:CHUNK]):
        count += Call.objects.filter(pk__in=chunk).update(**NO_CONTENT)
    if count:
        _unused_sent_texts(now)
    return count


def _unused_sent_texts(now: datetime) -> None:
    """Those of requests that are all forgotten. Hosts may differ in the day."""
    oldest = Call.objects.exclude(request=b"").aggregate(at=Min("started_at", default=now))["at"]
    SentText.objects.filter(used_on__lt=oldest.astimezone(UTC).date() - timedelta(days=1)).delete()


def _shared_uploads(now: datetime) -> int:
    """Those in S3 that no import waits for; in a folder, every sweep finds them."""
    if not settings.MHB_S3:
        return 0
    from botocore.exceptions import BotoCoreError, ClientError  # only sites with S3 need it

    try:
        return _remove_orphans(store(UPLOADS), now)
    except (BotoCoreError, ClientError) as error:  # the sweeper has other work, which does not need S3
        log.warning("uploads in S3 cannot be looked through: %s", error)
        return 0


def _remove_orphans(shared: Storage, now: datetime) -> int:
    count = 0
    needed = {row.file.name for row in Import.objects.filter(status__in=OPEN)}
    needed |= {row.file.name for row in ResultsImport.objects.filter(status__in=OPEN)}
    for prefix in ("", f"{ResultsImport.FOLDER}/"):
        for name in shared.listdir(prefix)[1]:
            if name not in needed and shared.get_modified_time(prefix + name) < now - ORPHAN_AGE:
                shared.delete(prefix + name)
                count += 1
    return count
