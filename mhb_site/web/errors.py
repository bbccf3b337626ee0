"""Turns the errors of all apps into HTTP responses, for pages and API alike."""

import logging
import re
import sys
from collections.abc import Callable
from http import HTTPStatus
from inspect import unwrap
from typing import Any
from urllib.parse import urlsplit

import psycopg
from axes.helpers import get_cool_off
from django.core.exceptions import RequestDataTooBig
from django.core.exceptions import ValidationError as InvalidModel
from django.db import IntegrityError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views import defaults
from rest_framework.exceptions import ValidationError
from rest_framework.fields import get_error_detail
from rest_framework.response import Response
from rest_framework.views import exception_handler, set_rollback

from review.common.decorators import redirect_refused
from review.common.disk import is_disk_full
from review.common.serializers import field_errors
from review.errors import DatabaseBusy, DiskFull, FormFaulty, Incomplete, JustTaken, ShownError
from review.rules import limits

log = logging.getLogger(__name__)
PROBLEM = "application/problem+json"
REFUSED = (409, 422, 429)  # what was asked for is not possible now
RETRY_AFTER = 5  # seconds; drafts.js retries at the same interval
# PostgreSQL's error classes: connection, transaction rollback (deadlock), too many connections,
# lock not available, operator intervention (statement timeout, shutdown). A full disk is not among
# them.
BUSY_STATES = ("08", "40", "53300", "55P03", "57")


# Without Django's check for a CSRF token, which reads the body: a body that cannot be read would
# make the error page fail. `CsrfViewMiddleware` has already read the cookie.
_bad_request: Callable[..., HttpResponse] = unwrap(defaults.bad_request)
_page_not_found: Callable[..., HttpResponse] = unwrap(defaults.page_not_found)
_server_error: Callable[..., HttpResponse] = unwrap(defaults.server_error)


class ErrorsMiddleware:
    """Shows our errors as pages with their status; a fragment request gets only the sentence."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if obstacle := obstacle_of(exception):
            return unavailable(request, obstacle)
        if is_second(exception):
            exception = JustTaken()
        if not isinstance(exception, ShownError):
            return None
        if exception.status in REFUSED and (page_of_form := _page_of_form(request)):
            return redirect_refused(request, str(exception), page_of_form)
        template = "site/problem.html"
        if getattr(request, "htmx", False):
            template = "site/_problem.html"
        context = {"error": exception, "message": exception.message, "detail": exception.detail}
        page = render(request, template, context, status=exception.status)
        if exception.status == 503:
            page["Retry-After"] = str(RETRY_AFTER)
        return page


def _page_of_form(request: HttpRequest) -> str:
    """The page with the button that sent this post, to say there why it was refused; "" if none.

    A form that posts to its own page is shown again by its view. Scripts want the status.
    """
    page = request.headers.get("Referer", "")
    own = url_has_allowed_host_and_scheme(page, {request.get_host()}, require_https=request.is_secure())
    by_script = getattr(request, "htmx", False) or request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate"
    if request.method != "POST" or not own or by_script or urlsplit(page).path == request.path:
        return ""
    return page


def is_busy(error: BaseException | None) -> bool:
    """Whether the database is just busy (locks, timeouts, connections): a retry may succeed."""
    if not isinstance(error, OperationalError):
        return False
    cause = error.__cause__
    if isinstance(cause, psycopg.Error):
        # Without an SQLSTATE the error is the client's: no connection, or none free in the pool.
        return cause.sqlstate is None or cause.sqlstate.startswith(BUSY_STATES)
    return str(error).startswith(("database is locked", "database table is locked"))


def is_second(error: BaseException) -> bool:
    """Whether another request, which passed the same checks at the same moment, stored its row first."""
    if not isinstance(error, IntegrityError):
        return False
    cause = error.__cause__
    if isinstance(cause, psycopg.errors.UniqueViolation):
        constraint = cause.diag.constraint_name  # its message also quotes the values
    elif getattr(cause, "sqlite_errorname", "") in ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"):
        constraint = str(cause)
    else:
        return False
    log.error("a row was there already: %s", constraint)  # if often, a check is missing
    return True


def obstacle_of(error: BaseException | None) -> ShownError | None:
    """What keeps the site from storing anything now; None for every other error."""
    if is_busy(error):
        return DatabaseBusy()
    if is_disk_full(error):
        log.error("the disk is full: %s", type(error).__name__)
        return DiskFull()
    return None


def unavailable(request: HttpRequest, error: ShownError) -> HttpResponse:
    """An obstacle in the requested form: for the API, as a fragment's sentence, or as a page."""
    if _for_api(request):
        body = _problem(error.status, type(error).__name__, error.message)
        response: HttpResponse = JsonResponse(body, status=error.status, content_type=PROBLEM)
    else:
        # Rendered without the request: context processors would query the database.
        template = "503.html"
        if getattr(request, "htmx", False):
            template = "site/_problem.html"
        page = render_to_string(template, {"error": error, "message": error.message})
        response = HttpResponse(page, status=error.status)
    if error.status == 503:
        response["Retry-After"] = str(RETRY_AFTER)
    return response


def problem(exc: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: every error as `application/problem+json` (RFC 9457).

    Our errors have their own types (`urn:mhb:lease-lost`). So has an invalid request, whose
    `errors` name the fields and what is wrong with them. All others have `about:blank`, which is
    HTTP's meaning of the status.
    """
    if obstacle := obstacle_of(exc):
        set_rollback()
        exc = obstacle
    if is_second(exc):
        set_rollback()
        exc = JustTaken()
    if isinstance(exc, ShownError):
        body = _problem(exc.status, type(exc).__name__, exc.message, exc.detail)
        if isinstance(exc, Incomplete):
            body |= _first("problems", [{"field": fault.field, "code": fault.code} for fault in exc.problems])
        if isinstance(exc, FormFaulty):
            faults = [{"field": fault.field, "code": "form", "detail": fault.sentence} for fault in exc.faults]
            body |= _first("problems", faults)
        headers = None
        if exc.status == 503:
            headers = {"Retry-After": str(RETRY_AFTER)}
        return Response(body, status=exc.status, content_type=PROBLEM, headers=headers)
    if isinstance(exc, InvalidModel):
        exc = ValidationError(get_error_detail(exc))
    if isinstance(exc, RequestDataTooBig):  # Django would answer 400
        return Response(_problem(413, "", ""), status=413, content_type=PROBLEM)
    response = exception_handler(exc, context)
    if response is None:
        return None
    if isinstance(exc, ValidationError):
        body = _problem(response.status_code, "Invalid", _("The request is not valid."))
        body |= _first("errors", list(field_errors(exc.detail)))
    else:
        body = _problem(response.status_code, "", "", str(response.data["detail"]))
    response.data, response.content_type = body, PROBLEM
    return response


def _problem(status: int, name: str, title: str, detail: str = "") -> dict[str, Any]:
    kind = "about:blank"
    if name:
        kebab = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
        kind = f"urn:mhb:{kebab}"
    body = {"type": kind, "title": title or HTTPStatus(status).phrase, "status": status}
    if detail:
        body["detail"] = detail
    return body


def _first(name: str, faults: list[dict[str, str]]) -> dict[str, Any]:
    """The first faults under `name`, and how many there are beyond them, in words too."""
    if (more := len(faults) - limits.PROBLEMS) <= 0:
        return {name: faults}
    sentence = ngettext("And %(n)s more.", "And %(n)s more.", more) % {"n": more}
    return {name: faults[: limits.PROBLEMS], "more": more, "detail": sentence}


def _plain_problem(status: int, detail: str = "") -> JsonResponse:
    return JsonResponse(_problem(status, "", "", detail), status=status, content_type=PROBLEM)


def _for_api(request: HttpRequest) -> bool:
    return request.path_info.startswith("/api/v")


def refusal(request: HttpRequest, status: int, message: str) -> HttpResponse:
    """Refuse a request before any view: a problem for the API, else a page or its fragment."""
    if _for_api(request):
        return _plain_problem(status, message)
    template = "site/problem.html"
    if getattr(request, "htmx", False):
        template = "site/_problem.html"
    return render(request, template, {"message": message}, status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400: requests refused before any view."""
    if _for_api(request):
        return _plain_problem(400)
    return _bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler404: unknown URLs."""
    if _for_api(request):
        return _plain_problem(404)
    return _page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500: a bug of ours, which is logged and not described in the response.

    A busy database in middleware (a session is written after the view) and a disk that is full of
    what is uploaded also end here.
    """
    if obstacle := obstacle_of(sys.exc_info()[1]):
        return unavailable(request, obstacle)
    if _for_api(request):
        return _plain_problem(500)
    return _server_error(request)


def locked_out(request: HttpRequest, _response: HttpResponse | None, _credentials: object) -> HttpResponse:
    """axes' response after too many failed sign-ins."""
    if _for_api(request):
        response: HttpResponse = _plain_problem(429, _("Too many attempts. Try again later."))
    else:
        response = render(request, "account/locked.html", status=429)
    wait = get_cool_off(request)
    if wait is not None:
        response["Retry-After"] = str(int(wait.total_seconds()))
    return response
