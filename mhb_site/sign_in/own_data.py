"""The page with which people download what the site knows about them."""

from typing import Any

from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from axes.models import AccessLog
from django.contrib.auth.decorators import login_required
from django.db.models import F, QuerySet
from django.http import HttpRequest, JsonResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_POST
from knox.models import AuthToken

from review.access.visibility import reviews_by
from review.audit.trail import record_own_act, recording_events
from review.common.decorators import signed_in_account
from review.discussion.notices import readable_notices
from review.models import (
    ActiveInterval,
    Declined,
    Delivery,
    Draft,
    FirstLook,
    Notice,
    PersonEvent,
    Remark,
    RewordingOutcome,
    User,
)

ACCOUNT = (
    *("username", "first_name", "last_name", "email", "role", "institution", "hospital", "specialty", "languages"),
    *("stages", "senior", "daily_cap", "paused_at", "date_joined", "last_login", "keys", "keys_off"),
    *("site_language", "emails_paused", "emails_off"),
)


@login_required
@require_POST
def own_data(request: HttpRequest) -> JsonResponse:
    """All that is stored about you and was written by you, as JSON."""
    me = signed_in_account(request)
    with recording_events():
        record_own_act(me, PersonEvent.Kind.COPIED)
    response = JsonResponse(collect(me), json_dumps_params={"ensure_ascii": False, "indent": 1})
    response["Content-Disposition"] = (
        content_disposition_header(as_attachment=True, filename=f"{me.username}.json") or ""
    )
    return response


def collect(me: User) -> dict[str, Any]:
    """By kind of row. Work without what became of its cases, which may be sealed.

    Nor when training was offered: the cases after that are copies.
    """
    notices = readable_notices(me, list(Notice.objects.filter(user=me).select_related("case", "remark__author")))
    readable = Notice.objects.filter(pk__in=[notice.pk for notice in notices])
    about = PersonEvent.objects.filter(person=me).exclude(kind=PersonEvent.Kind.CALIBRATION)
    by = PersonEvent.objects.filter(actor=me).exclude(person=me)
    named_tokens = AuthToken.objects.filter(user=me).annotate(name=F("named__name"))
    return {
        "account": {name: getattr(me, name) for name in ACCOUNT},
        "providers": _rows(SocialAccount.objects.filter(user=me), "provider", "uid", "date_joined", "last_login"),
        "sign_ins": _rows(
            AccessLog.objects.filter(username=me.username), "attempt_time", "ip_address", "user_agent", "logout_time"
        ),
        "sessions": _rows(UserSession.objects.filter(user=me), "created_at", "ip", "user_agent"),
        "tokens": _rows(named_tokens, "name", "created", "expiry"),
        "reviews": _rows(
            reviews_by(me), "id", "role", "phase", "verdict", "inadequate", "answers", "submitted_at", "signed_as"
        ),
        "drafts": _rows(Draft.objects.filter(physician=me), "id", "phase", "answers", "saved_at"),
        "first_looks": _rows(FirstLook.objects.filter(physician=me), "id", "answers", "at"),
        "times_at_work": _rows(ActiveInterval.objects.filter(physician=me), "began_at", "ended_at"),
        "declined": _rows(Declined.objects.filter(physician=me), "reason", "text", "at"),
        "answers_to_rewordings": _rows(
            RewordingOutcome.objects.filter(rewording__physician=me), "consent", "reason", "at"
        ),
        "notifications": _rows(readable, "kind", "text", "at"),
        "e_mails": _rows(Delivery.objects.filter(person=me), "occasion", "status", "created_at"),
        "remarks": _rows(Remark.objects.filter(author=me), "id", "text", "at"),
        "events_about_you": _rows(about, "kind", "at"),
        "events_by_you": _rows(by, "kind", "at"),
    }


def _rows(rows: QuerySet[Any], *fields: str) -> list[dict[str, Any]]:
    return list(rows.order_by("pk").values(*fields))
