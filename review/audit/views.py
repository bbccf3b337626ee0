"""The page of the trail: what happened in all cases, and whether it is still what was written."""

from datetime import date

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from review import tasks
from review.audit import verification
from review.common.decorators import requires, signed_in_account
from review.common.paging import keyset
from review.common.waking import wake_after_commit
from review.models import Event
from review.rules.permissions import Can


@requires(Can.OVERSEE)
@require_GET
def trail(request: HttpRequest) -> HttpResponse:
    """All events, filtered by what stands in the address; a filter that cannot be read fits nothing."""
    asked = {
        name: request.GET.get(name, "").replace("\0", "").strip()
        for name in ("case", "actor", "kind", "since", "until")
    }
    dates = {name: _date(asked[name]) for name in ("since", "until")}
    case = int(asked["case"]) if asked["case"].isdecimal() and len(asked["case"]) < 19 else None
    rows = verification.events(
        case=case, actor=asked["actor"], kind=asked["kind"], since=dates["since"], until=dates["until"]
    )
    if (asked["case"] and case is None) or any(asked[name] and dates[name] is None for name in dates):
        rows = rows.none()
    context = {"page": keyset(rows, request, newest_first=True), "asked": asked, "kinds": Event.Kind, **_check()}
    return render(request, "review/audit/audit.html", context)


def _date(text: str) -> date | None:
    try:
        return parse_date(text)
    except ValueError:  # well formed, but there is no such day
        return None


def _check() -> dict[str, object]:
    """The last check, whether somebody works on it, and what it found."""
    last = verification.latest()
    return {
        "check": last,
        "running": verification.check_in_progress() is not None,
        "faults": verification.faults(last) if last else [],
    }


@requires(Can.OVERSEE)
def check(request: HttpRequest) -> HttpResponse:
    """Have the whole trail checked by a worker (POST); how far it has come (GET), as a fragment for htmx."""
    if request.method == "POST":
        asked = verification.request_check(signed_in_account(request))
        wake_after_commit(tasks.check_trail, asked.pk)
        messages.info(request, _("Check requested."))
        return redirect("review:audit")
    if not getattr(request, "htmx", False):
        return redirect("review:audit")
    return render(request, "review/audit/_audit_check.html", _check())
