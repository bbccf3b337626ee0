"""A line in the log for every request, under an id that its tasks carry on."""

import logging
import re
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
from celery.signals import before_task_publish, task_postrun, task_prerun
from django.http import HttpRequest, HttpResponse
from django.utils.functional import LazyObject, empty

from mhb_site.observability import http_metrics
from review.audit import acts

log = logging.getLogger("mhb.access")
HEADER = "X-Request-ID"
FOREIGN_ID = re.compile(r"[\w.:-]{8,100}", re.ASCII)
QUIET = ("/static/",)


class AccessLogMiddleware:
    """Logs method, route, status, milliseconds and account of a request, never its query or body.

    What is done meanwhile is recorded as an act of this account (`review.audit.acts`).

    A proxy may name the request (`X-Request-ID`); the response carries the id in the same header.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(HEADER, "")
        if FOREIGN_ID.fullmatch(given):
            request_id = given
        else:
            request_id = uuid.uuid4().hex
        begun = time.monotonic()
        with (
            structlog.contextvars.bound_contextvars(request_id=request_id),
            acts.acting_for(partial(getattr, request, "user", None)),
        ):
            response = self.get_response(request)
            response[HEADER] = request_id
            if not request.path_info.startswith(QUIET):
                match = request.resolver_match
                account = _known_account(request)
                seconds = time.monotonic() - begun
                route = "(unknown)"
                if match:
                    route = f"/{match.route}"
                http_metrics.count(request.method, route, response.status_code, seconds)
                fields = {
                    "method": request.method,
                    "route": route,
                    "status": response.status_code,
                    "ms": round(seconds * 1000),
                    "account": account,
                }
                log.info("%(method)s %(route)s %(status)s %(ms)d ms account=%(account)s", fields, extra=fields)
        return response


def _known_account(request: HttpRequest) -> int | None:
    """The key of the account, if it was loaded: a line in the log is no reason to load it."""
    user: Any = request.__dict__.get("user")
    if isinstance(user, LazyObject) and user._wrapped is empty:
        return None
    return getattr(user, "pk", None)


@before_task_publish.connect
def _send_request_id(headers: dict[str, object], **_: object) -> None:
    if request_id := structlog.contextvars.get_contextvars().get("request_id"):
        headers["mhb_request_id"] = request_id


@task_prerun.connect
def _bind_request_id(task: object, **_: object) -> None:
    request_id = getattr(getattr(task, "request", None), "mhb_request_id", None)
    if isinstance(request_id, str):
        structlog.contextvars.bind_contextvars(request_id=request_id)


@task_postrun.connect
def _unbind_request_id(**_: object) -> None:
    structlog.contextvars.unbind_contextvars("request_id")
