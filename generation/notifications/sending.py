"""Sends the messages that are due: e-mails, and signed requests to webhooks."""

import hashlib
import hmac
import json
import smtplib
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core import mail
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from generation.jobs.kinds import kind_of
from generation.jobs.life_cycle import advice
from generation.llm.errors import LLMError
from generation.llm.http.webhook_post import post
from generation.models import Job
from review.common import notifications
from review.common.site_pause import not_paused
from review.labels import with_label
from review.models import Delivery, Occasion, User, Webhook

LEASE = timedelta(minutes=2)  # longer than one attempt can take
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=30), timedelta(hours=1)
GIVEN_UP_AFTER = timedelta(days=1)
MOST = 100  # messages in one task
Status = Delivery.Status


def is_due() -> bool:
    """Whether a message waits to be sent now."""
    return _due().exists()


def send_due() -> int:
    """Send what is due, one after the other; returns how many were tried."""
    count = 0
    while count < MOST and (row := _take()) is not None:
        send(row)
        count += 1
    return count


def _due() -> QuerySet[Delivery]:
    now, usable = timezone.now(), Q(webhook=None) | Q(webhook__active=True)
    return Delivery.objects.filter(usable, not_paused(), status=Status.WAITING, next_at__lte=now)


@transaction.atomic
def _take() -> Delivery | None:
    """Take one message: it is not due again before this attempt has ended."""
    row = _due().select_for_update(skip_locked=True, of=("self",)).order_by("pk").first()
    if row is not None:
        Delivery.objects.filter(pk=row.pk).update(next_at=timezone.now() + LEASE, tries=F("tries") + 1)
        row.refresh_from_db()
    return row


def send(row: Delivery) -> bool:
    """Try to send one message and store how it went. A killed attempt is repeated.

    Somebody who has left meanwhile, or has switched these off, is sent nothing.
    """
    if row.person is not None and not notifications.wants(row.person, Occasion(row.occasion)):
        Delivery.objects.filter(pk=row.pk).update(status=Status.GIVEN_UP)
        return False
    try:
        if row.webhook is not None:
            _post(row, row.webhook)
        elif row.person is not None:
            _mail(row, row.person)
    except (smtplib.SMTPRecipientsRefused, ValueError) as error:  # a name of a host that is none
        _failed(row, type(error).__name__, others=False)
    except (OSError, smtplib.SMTPException) as error:
        _failed(row, type(error).__name__)
    except LLMError as error:
        _failed(row, str(error))
    else:
        Delivery.objects.filter(pk=row.pk).update(status=Status.SENT, error="")
        return True
    return False


def _failed(row: Delivery, error: str, *, others: bool = True) -> None:
    """Wait longer each time, up to a day; what else goes the same way waits as long."""
    now, old = timezone.now(), Q(created_at__lte=timezone.now() - GIVEN_UP_AFTER)
    again = now + min(LONGEST_WAIT, FIRST_WAIT * 4 ** min(max(0, row.tries - 1), 5))
    waiting = Delivery.objects.filter(status=Status.WAITING)
    waiting.filter(pk=row.pk).update(error=error, next_at=again)
    if others:
        alike = waiting.filter(webhook=row.webhook)
    else:
        alike = waiting.filter(pk=row.pk)
    alike.filter(next_at__lt=again).update(next_at=again)
    alike.filter(old).update(status=Status.GIVEN_UP)


def content(row: Delivery) -> dict[str, Any]:
    """A message as webhooks get it."""
    facts = dict(row.facts)
    path = str(facts.pop("path", ""))
    case = facts.pop("case", None)  # its number may tell which are copies
    if case is not None and row.webhook is not None:
        path = ""  # a channel may have readers who judge this case without knowing of others
    if "job" in facts:
        job = Job.objects.get(pk=facts["job"])
        facts["job"], path = job.name, kind_of(job).address("", job.pk)
    url = ""
    if path:
        url = settings.MHB_SITE_URL.rstrip("/") + path
    return {"id": str(row.key), "event": row.occasion, "at": row.created_at.isoformat(), "url": url, **facts}


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """The value of X-MHB-Signature: over the timestamp, a full stop, and the body."""
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


def _post(row: Delivery, hook: Webhook) -> None:
    access = settings.MHB_ENDPOINT_ACCESS
    secret = access.key(hook.secret_env, hook.url)
    body, timestamp = json.dumps(content(row)).encode(), str(int(timezone.now().timestamp()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "MHB",
        "X-MHB-Delivery": str(row.key),
        "X-MHB-Timestamp": timestamp,
        "X-MHB-Signature": signature(secret, timestamp, body),
    }
    post(hook.url, body, headers, secret, access)


def _mail(row: Delivery, person: User) -> None:
    with translation.override(notifications.language_of(person)):
        subject, text = email_of(row)
    mail.send_mail(subject, text, None, [person.email])


def email_of(row: Delivery) -> tuple[str, str]:
    """The subject and the text of a message, in the language that is active."""
    facts = content(row)
    label = str(Occasion(row.occasion).label)
    if row.occasion == Occasion.DIGEST:
        lines = [
            _("Cases that you hold: %(count)s") % {"count": facts["held"]},
            _("Cases that you could take: %(count)s") % {"count": facts["open"]},
            _("Unread notifications: %(count)s") % {"count": facts["unread"]},
        ]
    else:
        happened = label[:1].upper() + label[1:]
        if about := facts.get("job") or facts.get("release"):
            happened = with_label(happened, about)
        lines = [happened]
    if row.occasion == Occasion.PAUSED:
        lines += filter(None, [advice(Job.objects.get(pk=row.facts["job"]))])
    off = settings.MHB_SITE_URL.rstrip("/") + reverse("review:notices")
    lines += [str(facts["url"]), "", _("Choose what you are e-mailed: %(link)s") % {"link": off}]
    return f"MHB: {label}", "\n".join(lines)
