"""Each app's errors become HTTP answers here, for pages and API alike."""

import re
import sys
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import psycopg
from axes.helpers import get_cool_off
from django.core.exceptions import NON_FIELD_ERRORS, RequestDataTooBig
from django.core.exceptions import ValidationError as InvalidModel
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.views import defaults
from rest_framework.exceptions import ValidationError
from rest_framework.fields import get_error_detail
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import exception_handler, set_rollback

from review.errors import DatabaseBusy, FormFaulty, Incomplete, ShownError

PROBLEM = "application/problem+json"
RETRY_AFTER = 5  # seconds; drafts.js sends again as often
# PostgreSQL's classes of errors: connection, transaction rolled back (deadlock), too many connections, lock not available,
# operator intervention (a statement's time, a shutdown). A full disk is none of them.
BUSY_STATES = ("08", "40", "53300", "55P03", "57")


class ErrorsMiddleware:
    """Our errors, raised in a page, become a page with the right status; a fragment request gets the sentence alone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if is_busy(exception):
            return busy(request)
        if not isinstance(exception, ShownError):
            return None
        template = "site/_problem.html" if getattr(request, "htmx", False) else "site/problem.html"
        context = {"error": exception, "message": exception.message, "detail": exception.detail}
        return render(request, template, context, status=exception.status)


def is_busy(error: BaseException | None) -> bool:
    """Whether the database refused because of what others do there (locks, time, connections): it may do the same later."""
    if not isinstance(error, OperationalError):
        return False
    cause = error.__cause__
    if isinstance(cause, psycopg.Error):
        # Without a state of its own it comes from the client: no connection, or none free in the pool.
        return cause.sqlstate is None or cause.sqlstate.startswith(BUSY_STATES)
    return str(error).startswith(("database is locked", "database table is locked"))


def busy(request: HttpRequest) -> HttpResponse:
    """503 in the form that was asked for: a problem for the API, a sentence for a fragment, else a page of its own."""
    error = DatabaseBusy()
    if _for_api(request):
        body = _problem(error.status, type(error).__name__, error.message)
        answer: HttpResponse = JsonResponse(body, status=error.status, content_type=PROBLEM)
    else:
        # No request is given: the context of a page (who is signed in, what waits) is read from the database.
        fragment = getattr(request, "htmx", False)
        context = {"error": error, "message": error.message}
        page = render_to_string("site/_problem.html" if fragment else "503.html", context)
        answer = HttpResponse(page, status=error.status)
    answer["Retry-After"] = str(RETRY_AFTER)
    return answer


def problem(exc: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: every error as `application/problem+json` (RFC 9457).

    Our errors have a type of their own (`urn:mhb:lease-lost`), and so has a request that is not valid, whose `errors` say
    what is wrong with which field; the rest is `about:blank`, that is HTTP's own meaning of the status.
    """
    if is_busy(exc):
        set_rollback()
        exc = DatabaseBusy()
    if isinstance(exc, ShownError):
        body = _problem(exc.status, type(exc).__name__, exc.message, exc.detail)
        if isinstance(exc, Incomplete):
            body["problems"] = [{"field": found.field, "code": found.code} for found in exc.problems]
        if isinstance(exc, FormFaulty):
            body["problems"] = [
                {"field": found.field, "code": "form", "detail": found.sentence} for found in exc.faults
            ]
        again = {"Retry-After": str(RETRY_AFTER)} if isinstance(exc, DatabaseBusy) else None
        return Response(body, status=exc.status, content_type=PROBLEM, headers=again)
    if isinstance(exc, InvalidModel):
        exc = ValidationError(get_error_detail(exc))
    if isinstance(exc, RequestDataTooBig):  # Django would call it a bad request
        return Response(_problem(413, "", ""), status=413, content_type=PROBLEM)
    response = exception_handler(exc, context)
    if response is None:
        return None
    if isinstance(exc, ValidationError):
        body = _problem(response.status_code, "Invalid", _("The request is not valid."))
        body["errors"] = list(_wrong_fields(exc.detail))
    else:
        body = _problem(response.status_code, "", "", str(response.data["detail"]))
    response.data, response.content_type = body, PROBLEM
    return response


def _problem(status: int, name: str, title: str, detail: str = "") -> dict[str, Any]:
    kebab = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
    return {
        "type": f"urn:mhb:{kebab}" if name else "about:blank",
        "title": title or HTTPStatus(status).phrase,
        "status": status,
        **({"detail": detail} if detail else {}),
    }


def _wrong_fields(detail: Any, field: str = "") -> Iterator[dict[str, str]]:
    """DRF's nested errors as a flat list; `field` is dotted (`answers.rubrics.R1.value`), empty for the whole."""
    if isinstance(detail, dict):
        for key, inner in detail.items():
            whole = key in (api_settings.NON_FIELD_ERRORS_KEY, NON_FIELD_ERRORS)
            yield from _wrong_fields(inner, field if whole else f"{field}.{key}".lstrip("."))
    elif isinstance(detail, list):
        for number, inner in enumerate(detail):
            yield from _wrong_fields(inner, f"{field}.{number}".lstrip(".") if isinstance(inner, dict) else field)
    else:
        yield {"field": field, "code": detail.code, "detail": str(detail)}


def _plain_problem(status: int, detail: str = "") -> JsonResponse:
    return JsonResponse(_problem(status, "", "", detail), status=status, content_type=PROBLEM)


def _for_api(request: HttpRequest) -> bool:
    return request.path.startswith("/api/v")


def refusal(request: HttpRequest, status: int, told: str) -> HttpResponse:
    """The answer to a request that no view is to see: a problem for the API, a page or its fragment for people."""
    if _for_api(request):
        return _plain_problem(status, told)
    template = "site/_problem.html" if getattr(request, "htmx", False) else "site/problem.html"
    return render(request, template, {"message": told}, status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400: what is refused before any view sees it."""
    return _plain_problem(400) if _for_api(request) else defaults.bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler404: addresses that there are not."""
    return _plain_problem(404) if _for_api(request) else defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500: a fault of ours. The log has it; the answer says nothing of it. Middleware that met a busy database
    (a session is written after the view) ends here as well."""
    if is_busy(sys.exc_info()[1]):
        return busy(request)
    return _plain_problem(500) if _for_api(request) else defaults.server_error(request)


def locked_out(request: HttpRequest, _answer: HttpResponse | None, _credentials: object) -> HttpResponse:
    """axes' answer to somebody who has failed to sign in too often."""
    if _for_api(request):
        answer: HttpResponse = _plain_problem(429, _("Too many attempts. Try again later."))
    else:
        answer = render(request, "account/locked.html", status=429)
    wait = get_cool_off(request)
    if wait is not None:
        answer["Retry-After"] = str(int(wait.total_seconds()))
    return answer
