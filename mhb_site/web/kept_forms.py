"""Keeps a form whose session or token ended before it was sent, and shows it after signing in.

The form is kept in the browser's session, and shown to nobody but the person who was last signed in
in this browser, which a signed cookie says. Only forms of this site's own pages are kept.
"""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.translation import gettext as _
from django.views.csrf import csrf_failure as django_csrf_failure

PERSON = "mhb_person"  # the cookie
KEPT = "kept_form"  # in the session
MAX_CHARACTERS = 200_000
MAX_FIELDS = 2_000
DAYS = 30
APPS = ("review", "generation", "evaluation")  # whose forms hold work
NOT_KEPT = {"csrfmiddlewaretoken", "password", "code"}
LONG = 60  # characters: a text that somebody wrote, shown to be read again

_signer = signing.Signer(salt="the person of this browser")


class KeptFormsMiddleware(MiddlewareMixin):
    """Keeps posted forms that are answered by the sign-in page."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if request.path_info.startswith("/api/") or response.status_code >= 500:
            return response  # an account could not be loaded of a busy database
        if not request.user.is_authenticated:
            sign_in = reverse(settings.LOGIN_URL)
            leads_there = isinstance(response, HttpResponseRedirect) and urlsplit(response["Location"]).path == sign_in
            if leads_there and keep(request):
                response["Location"] = f"{sign_in}?{urlencode({'next': reverse('kept-form')})}"
            return response
        kept = request.session.get(KEPT) if request.method == "POST" else None
        if (
            kept
            and kept["path"] == request.get_full_path()
            and (response.status_code < 400 or response.status_code == 422)
        ):
            del request.session[KEPT]  # it arrived, or its own page shows it
        if _person(request) != request.user.pk:
            response.set_cookie(
                PERSON,
                _signer.sign(str(request.user.pk)),
                max_age=DAYS * 86_400,
                path=settings.SESSION_COOKIE_PATH,
                secure=settings.SESSION_COOKIE_SECURE,
                httponly=True,
                samesite="Lax",
            )
        return response


def _person(request: HttpRequest) -> int | None:
    try:
        return int(_signer.unsign(request.COOKIES.get(PERSON, "")))
    except (signing.BadSignature, ValueError):
        return None


def keep(request: HttpRequest) -> bool:
    """Keep the posted form in the session, if it is one of ours and not too long."""
    person = request.user.pk or _person(request)
    origin = request.headers.get("Origin") or request.headers.get("Referer")
    # Other sites must not put words into a form.
    is_own = url_has_allowed_host_and_scheme(origin, {request.get_host()})
    if request.method != "POST" or person is None or not is_own:
        return False
    try:
        if resolve(request.path_info).app_name not in APPS:
            return False
    except Resolver404:
        return False
    fields = [
        [name, value] for name, values in request.POST.lists() if name not in NOT_KEPT for value in map(str, values)
    ]
    if len(fields) > MAX_FIELDS or sum(len(name) + len(value) for name, value in fields) > MAX_CHARACTERS:
        return False
    if not any(value.strip() for _name, value in fields):
        return False
    page = urlsplit(request.headers.get("HX-Current-URL") or request.headers.get("Referer") or "").path
    request.session[KEPT] = {"person": person, "path": request.get_full_path(), "page": page, "fields": fields}
    return True


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's CSRF_FAILURE_VIEW: the token changed, as after signing in in another tab."""
    if not keep(request):
        return django_csrf_failure(request, reason)
    if not request.user.is_authenticated:
        response: HttpResponse = redirect(f"{reverse(settings.LOGIN_URL)}?{urlencode({'next': reverse('kept-form')})}")
        return response
    if getattr(request, "htmx", False) or request.headers.get("HX-Request"):
        message = _("This page had expired, and nothing was sent. Your text is kept.")
        return render(request, "site/_problem.html", {"message": message, "kept": True}, status=403)
    return _show(request, request.session[KEPT], status=403)


def kept_form(request: HttpRequest) -> HttpResponse:
    """The form that was kept for this person: to read, change and send. POST discards it."""
    kept = request.session.get(KEPT)
    if kept and (request.method == "POST" or kept["person"] != request.user.pk):
        del request.session[KEPT]
        kept = None
    return _show(request, kept) if kept else redirect("home")


def _show(request: HttpRequest, kept: dict[str, Any], status: int = 200) -> HttpResponse:
    fields = [
        {"name": name, "value": value, "written": len(value) > LONG or "\n" in value or name in ("text", "reason")}
        for name, value in kept["fields"]
    ]
    return render(request, "site/kept_form.html", {"kept": kept, "fields": fields}, status=status)
