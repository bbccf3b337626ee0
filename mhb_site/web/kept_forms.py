"""Keeps a form whose session or token ended before it was sent, and shows it after signing in.

The form is kept in the browser's session, and shown to nobody but the person whose page it came
from: a signed cookie says whose the tokens of this browser's forms are. Only forms that hold
somebody's work are kept, and only from this site's own pages.
"""

import hashlib
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

from allauth.core.internal import ratelimit
from django.conf import settings
from django.contrib import messages
from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.middleware import csrf
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from mhb_site.web.errors import refusal
from review.assignments.views import draft

PEOPLE = settings.ENV.cookie("people")
MAX_TOKENS = 40  # the last ones in it
KEPT = "kept_form"  # in the session
MAX_CHARACTERS = 200_000
MAX_FIELDS = 2_000
DAYS = 30
# Forms in which people write for long, none that gives rights or changes settings: one click sends
# a kept form.
WORK = {
    *("review:draft", "review:reveal", "review:submit", "review:decline", "review:problem", "review:release"),
    *("review:retract", "review:correct", "review:remark", "review:rewording-object"),
    *("generation:sample-report", "generation:review-report"),
}
# Forms of the page of a case: their answers open there again, as a draft.
ANSWERS = {"review:draft", "review:reveal", "review:submit", "review:release"}
# What a page sends by itself. Kept, it would replace what its reader sent.
BY_ITSELF = {"review:activity", "review:heartbeat"}
NOT_KEPT = {"csrfmiddlewaretoken", "password", "code"}
LONG = 60  # characters: a text that somebody wrote, shown to be read again

_SALT = "whose the tokens of this browser are"


class KeptFormsMiddleware(MiddlewareMixin):
    """Keeps posted forms that are answered by the sign-in page."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if request.path_info.startswith("/api/") or response.status_code >= 500:
            return response  # an account could not be loaded of a busy database
        if not request.user.is_authenticated:
            if _is_by_itself(request):
                # With its old cookie, the session's middleware would delete the new one, which may
                # hold a kept form.
                request.COOKIES.pop(settings.SESSION_COOKIE_NAME, None)
                return response
            sign_in = reverse(settings.LOGIN_URL)
            leads_there = isinstance(response, HttpResponseRedirect) and urlsplit(response["Location"]).path == sign_in
            if leads_there and keep(request):
                response["Location"] = f"{sign_in}?{urlencode({'next': reverse('kept-form')})}"
            return response
        kept = None
        if request.method == "POST":
            kept = request.session.get(KEPT)
        if (
            kept
            and kept["path"] == request.get_full_path()
            and (response.status_code < 400 or response.status_code == 422)
            and response.headers.get("Location") != reverse("kept-form")
        ):
            del request.session[KEPT]  # it arrived, or its own page shows it
        tokens = _tokens(request)
        latest = [_digest(request.META.get("CSRF_COOKIE", "")), request.user.pk]
        if latest not in tokens:
            response.set_cookie(
                PEOPLE,
                signing.dumps([*tokens, latest][-MAX_TOKENS:], salt=_SALT),
                max_age=DAYS * 86_400,
                path=settings.SESSION_COOKIE_PATH,
                secure=settings.SESSION_COOKIE_SECURE,
                httponly=True,
                samesite="Lax",
            )
        return response


def _view_name(path: str) -> str:
    with suppress(Resolver404):
        return resolve(path).view_name
    return ""


def _is_by_itself(request: HttpRequest) -> bool:
    """Whether the page sent this without its reader: time on a case, a renewed lease, autosave."""
    name = _view_name(request.path_info)
    return name in BY_ITSELF or (name == "review:draft" and "HX-Request" in request.headers)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


def _tokens(request: HttpRequest) -> list[list[Any]]:
    """[digest of a token's secret, account] of the forms that this browser was last given."""
    try:
        return list(signing.loads(request.COOKIES.get(PEOPLE, ""), salt=_SALT))
    except signing.BadSignature:
        return []


def _author(request: HttpRequest) -> int | None:
    """The account whose page had this form; None if several people used this browser and its token
    is of none of them.
    """
    token = request.POST.get("csrfmiddlewaretoken") or request.headers.get("X-CSRFToken", "")
    tokens = _tokens(request)
    with suppress(ValueError):  # a character that no token has
        unmask = csrf._unmask_cipher_token  # type: ignore[attr-defined]  # not in its stub
        secret = token
        if len(token) == csrf.CSRF_TOKEN_LENGTH:
            secret = unmask(token)
        for digest, person in tokens:
            if digest == _digest(secret):
                return int(person)
    people = {int(person) for _digest, person in tokens}
    if len(people) == 1:
        return people.pop()
    return None


def is_own(request: HttpRequest) -> bool:
    """Whether the request comes from a page of this site, as Django's CSRF check compares origins.

    A page may hide its origin ("null"): it then counts as another site's.
    """
    origin = request.headers.get("Origin")
    if origin is None:
        page = _split(request.headers.get("Referer", ""))
        origin = f"{page.scheme}://{page.netloc}"
    return origin in {f"{request.scheme}://{request.get_host()}", *settings.CSRF_TRUSTED_ORIGINS}


def _split(address: str) -> SplitResult:
    """The parts of an address; none of one that cannot be parsed."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def keep(request: HttpRequest) -> bool:
    """Keep the posted form in the session, if it is somebody's work and not too long."""
    if request.method != "POST" or not is_own(request) or _is_by_itself(request):
        return False
    person = _author(request)
    if person is None or person != (request.user.pk or person):
        return False
    if _view_name(request.path_info) not in WORK:
        return False
    fields = []
    for name, values in request.POST.lists():
        if name not in NOT_KEPT:
            fields += [[name, str(value)] for value in values]
    if len(fields) > MAX_FIELDS or sum(len(name) + len(value) for name, value in fields) > MAX_CHARACTERS:
        return False
    if not any(value.strip() for _name, value in fields):
        return False
    page = _split(request.headers.get("HX-Current-URL") or request.headers.get("Referer") or "").path
    page = f"/{page.lstrip('/')}"  # two slashes would begin the name of another host
    if not request.user.is_authenticated and not _may_begin_session(request):
        return False
    request.session[KEPT] = {"person": person, "path": request.get_full_path(), "page": page, "fields": fields}
    return True


def _may_begin_session(request: HttpRequest) -> bool:
    """Whether this address has begun few sessions lately: it may be a former member's browser."""
    return bool(ratelimit.consume(request, app="allauth.account", action="sign_in_begun"))


def csrf_failure(request: HttpRequest, **_reason: str) -> HttpResponse:
    """Django's CSRF_FAILURE_VIEW: the token changed, as after signing in in another tab."""
    if not is_own(request):
        message = _("This form did not come from a page of this site, so nothing was done.")
        return refusal(request, 403, message)
    if not keep(request):
        message = _("This page had expired, and nothing was sent. Open it again, and send the form from there.")
        return refusal(request, 403, message)
    if not request.user.is_authenticated:
        response: HttpResponse = redirect(f"{reverse(settings.LOGIN_URL)}?{urlencode({'next': reverse('kept-form')})}")
        return response
    if getattr(request, "htmx", False) or request.headers.get("HX-Request"):
        message = _("This page had expired, and nothing was sent. Your text is kept.")
        return render(request, "site/_problem.html", {"message": message, "kept": True}, status=403)
    if _view_name(request.path_info) in ANSWERS:
        return redirect("kept-form")
    return _show(request, request.session[KEPT], status=403)


def kept_form(request: HttpRequest) -> HttpResponseBase:
    """The form that was kept for this person: to read, change and send. POST discards it.

    The answers to a case open on its page, as a draft.
    """
    kept = request.session.get(KEPT)
    if kept and (request.method == "POST" or kept["person"] != request.user.pk):
        del request.session[KEPT]
        kept = None
    path = ""
    if kept:
        path = urlsplit(kept["path"]).path
    if kept and _view_name(path) in ANSWERS:
        del request.session[KEPT]
        return _open_answers(request, resolve(path).kwargs["assignment_id"], kept["fields"])
    if kept:
        return _show(request, kept)
    return redirect("home")


def _open_answers(request: HttpRequest, assignment_id: int, fields: list[list[str]]) -> HttpResponseBase:
    """Store the kept answers as the draft of their case, and show the case."""
    data = QueryDict(mutable=True)
    for name, value in fields:
        if name not in ("do", "sign", "stop"):
            data.appendlist(name, value)
    data["do"] = "open"  # no message that a draft was saved
    request.method, request.POST = "POST", data  # type: ignore[assignment]
    messages.warning(request, _("You were signed out before your answers arrived. Check them, then submit again."))
    return draft(request, assignment_id)


def _show(request: HttpRequest, kept: dict[str, Any], status: int = 200) -> HttpResponse:
    written: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for name, value in kept["fields"]:
        if len(value) > LONG or "\n" in value or name in ("text", "reason"):
            written.append((name, value))
        else:
            others.append((name, value))
    context = {"kept": kept, "written": written, "others": others}
    return render(request, "site/kept_form.html", context, status=status)
