"""The page of your own sessions, each of which you can end."""

from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from review.audit.trail import record_person, recording_events
from review.common.decorators import signed_in_account
from review.models import PersonEvent


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def sessions(request: HttpRequest) -> HttpResponse:
    """List your sessions; a POST ends one of the others (`session`), or all of them."""
    me = signed_in_account(request)
    rows = sorted(UserSession.objects.purge_and_list(me), key=lambda row: row.created_at, reverse=True)
    if request.method == "POST":
        chosen = request.POST.get("session")
        ended = [row for row in rows if not row.is_current() and chosen in (None, str(row.pk))]
        with recording_events():
            for row in ended:
                row.end()
            if ended:
                record_person(me, PersonEvent.Kind.SESSION, me, sessions=len(ended))
        if ended:
            messages.success(request, _("Signed out there."))
        else:
            messages.info(request, _("No other session was open. To end this one, sign out."))
        return redirect("sessions")
    return render(request, "account/sessions.html", {"sessions": rows})
