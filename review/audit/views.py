"""The audit pages: events of cases, of accounts and the site, and the last integrity check."""

import json
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _

from review.audit import acts, chain_entries, exports, verification
from review.common import csv_text
from review.common.decorators import download, requires, signed_in_account
from review.common.paging import keyset_page
from review.models import Event, PersonEvent
from review.rules.permissions import Can
from review.rules.text import whole_number


@requires(Can.OVERSEE, "GET")
def trail(request: HttpRequest) -> HttpResponseBase:
    """All events, filtered by the query string. An invalid filter matches nothing."""
    filters, dates = _filters(request)
    case = whole_number(filters["case"])
    rows = verification.events(
        case=case, actor=filters["actor"], kind=filters["kind"], since=dates["since"], until=dates["until"]
    )
    if (filters["case"] and case is None) or any(filters[name] and dates[name] is None for name in dates):
        rows = rows.none()
    if request.GET.get("format") == "csv":
        place = ("case_id", "case__lineage", "case__version", "number")
        return _as_csv(rows, "audit-cases.csv", *place)
    sha256 = request.GET.get("sha256", "").replace("\0", "").strip().lower()
    anchor = request.GET.get("anchor", "").strip()
    exported = None
    if sha256:
        exported = exports.find(sha256)
    context = {
        "page": keyset_page(rows, request, newest_first=True),
        "anchor": anchor,
        "anchor_result": _anchor_result(anchor),
        "filters": filters,
        "kinds": Event.Kind,
        "sha256": sha256,
        "exported": exported,
        **_check(),
    }
    return render(request, "review/audit/audit.html", context)


@requires(Can.OVERSEE, "GET")
def site_trail(request: HttpRequest) -> HttpResponseBase:
    """What was done to accounts and the site, filtered as the trail of cases is."""
    filters, dates = _filters(request)
    rows = acts.acts(actor=filters["actor"], kind=filters["kind"], since=dates["since"], until=dates["until"])
    if any(filters[name] and dates[name] is None for name in dates):
        rows = rows.none()
    if request.GET.get("format") == "csv":
        return _as_csv(rows, "audit-site.csv", "person__username")
    page = keyset_page(rows, request, newest_first=True)
    return render(request, "review/audit/site.html", {"page": page, "filters": filters, "kinds": PersonEvent.Kind})


def _filters(request: HttpRequest) -> tuple[dict[str, str], dict[str, date | None]]:
    names = ("case", "actor", "kind", "since", "until")
    filters = {name: request.GET.get(name, "").replace("\0", "").strip() for name in names}
    return filters, {name: _date(filters[name]) for name in ("since", "until")}


def _as_csv(rows: QuerySet[Any], name: str, *place: str) -> HttpResponseBase:
    """Events in the order of their chain, with everything that their hashes cover."""
    columns = ("sequence", "at", "kind", "actor__username", *place, "data", "previous", "hash")

    def lines() -> Iterator[str]:
        yield csv_text.BOM + csv_text.line(column.replace("__", "_") for column in columns) + csv_text.END
        for values in rows.order_by("sequence").values_list(*columns).iterator(chunk_size=2000):
            cells = (_cell(value) for value in values)
            yield csv_text.line(cells) + csv_text.END

    return download(lines(), name, "text/csv; charset=utf-8")


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return chain_entries.instant(value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return value


def _date(text: str) -> date | None:
    try:
        day = parse_date(text)
    except ValueError:  # well formed, but not a day of the calendar
        return None
    # Databases reckon in other time zones, and overflow at the ends of the calendar.
    if day is not None and acts.FIRST_DAY <= day <= acts.LAST_DAY:
        return day
    return None


def _anchor_result(anchor: str) -> str:
    if not anchor:
        return ""
    try:
        contained = verification.contains(anchor)
    except ValueError:
        return _("Not a valid anchor: use cases:SEQUENCE:HASH or accounts:SEQUENCE:HASH.")
    if contained:
        return _("The chain still contains this event.")
    return _("The chain no longer contains this event: it was cut off or rewritten.")


def _check() -> dict[str, object]:
    last, faults = verification.latest(), []
    if last:
        faults = verification.faults(last)
    return {
        "check": last,
        "running": verification.check_in_progress() is not None,
        "faults": faults,
        "ends": verification.ends(),
    }


@requires(Can.OVERSEE)
def check(request: HttpRequest) -> HttpResponse:
    """Have a worker check the trail (POST); show its progress as a fragment for htmx (GET)."""
    if request.method == "POST":
        verification.request_check(signed_in_account(request))
        messages.info(request, _("Check requested."))
        return redirect("review:audit")
    if not getattr(request, "htmx", False):
        return redirect("review:audit")
    return render(request, "review/audit/_audit_check.html", _check())
