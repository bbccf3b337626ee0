"""The audit trail page: the events of all cases, and the result of the last integrity check."""

from datetime import date

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from review import tasks
from review.audit import exports, verification
from review.common.decorators import requires, signed_in_account
from review.common.paging import keyset_page
from review.common.waking import wake_after_commit
from review.models import Event
from review.rules.permissions import Can


@requires(Can.OVERSEE)
@require_GET
def trail(request: HttpRequest) -> HttpResponse:
    """All events, filtered by the query string. An invalid filter matches nothing."""
    filters = {
        name: request.GET.get(name, "").replace("\0", "").strip()
        for name in ("case", "actor", "kind", "since", "until")
    }
    dates = {name: _date(filters[name]) for name in ("since", "until")}
    case = int(filters["case"]) if filters["case"].isdecimal() and len(filters["case"]) < 19 else None
    rows = verification.events(
        case=case, actor=filters["actor"], kind=filters["kind"], since=dates["since"], until=dates["until"]
    )
    if (filters["case"] and case is None) or any(filters[name] and dates[name] is None for name in dates):
        rows = rows.none()
    sha256 = request.GET.get("sha256", "").replace("\0", "").strip().lower()
    context = {
        "page": keyset_page(rows, request, newest_first=True),
        "filters": filters,
        "kinds": Event.Kind,
        "sha256": sha256,
        "exported": exports.find(sha256) if sha256 else None,
        **_check(),
    }
    return render(request, "review/audit/audit.html", context)


def _date(text: str) -> date | None:
    try:
        return parse_date(text)
    except ValueError:  # well formed, but not a day of the calendar
        return None


def _check() -> dict[str, object]:
    """The last check, whether a worker is running it, and the faults it found."""
    last = verification.latest()
    return {
        "check": last,
        "running": verification.check_in_progress() is not None,
        "faults": verification.faults(last) if last else [],
    }


@requires(Can.OVERSEE)
def check(request: HttpRequest) -> HttpResponse:
    """Have a worker check the trail (POST); show its progress as a fragment for htmx (GET)."""
    if request.method == "POST":
        audit = verification.request_check(signed_in_account(request))
        wake_after_commit(tasks.check_trail, audit.pk)
        messages.info(request, _("Check requested."))
        return redirect("review:audit")
    if not getattr(request, "htmx", False):
        return redirect("review:audit")
    return render(request, "review/audit/_audit_check.html", _check())
