"""Mapping of HTTP failures to named errors, by status, headers and broken connections."""

import json
import logging
import re
import socket
import ssl
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from generation.llm.errors import (
    MAX_DETAIL,
    AuthFailed,
    BadRequest,
    BrokenReply,
    ConnectionCut,
    ContentFiltered,
    ContextTooLong,
    HostNotFound,
    LLMError,
    NoCredit,
    NotAllowed,
    NotReached,
    NotThere,
    RateLimited,
    ServerError,
    TimedOut,
    TLSFailed,
    UnexpectedError,
)
from generation.llm.http.access import PORTS, Forbidden
from generation.llm.http.redaction import without_key
from generation.llm.parsing import storable

if TYPE_CHECKING:  # takes a second to import, so it is imported late
    import httpx2

log = logging.getLogger(__name__)

NO_KEY = "none"  # sent if an endpoint needs no key, as the client requires one
MAX_RETRY_AFTER = 86_400.0  # seconds; the longest wait that we honour
IMPLAUSIBLE_RETRY_AFTER = 7 * MAX_RETRY_AFTER  # from here on it is a mistake: a Unix time, milliseconds

_ABOUT_CONTEXT = re.compile(r"context_length_exceeded|maximum context length|context (window|size)", re.IGNORECASE)
_ABOUT_FILTER = re.compile(r"moderation|flagged|content[ _-](filter|policy)", re.IGNORECASE)
_ABOUT_FORMAT = re.compile(r"response_format|json_schema|json_object|json mode|structured output", re.IGNORECASE)


def client_failures() -> tuple[type[Exception], ...]:
    """The exceptions that the client and its transport raise."""
    import aiohttp
    import httpx2
    from openai import APIConnectionError, APIStatusError

    return TimeoutError, APIStatusError, APIConnectionError, httpx2.HTTPError, aiohttp.ClientError, OSError


def named_error(failure: Exception, api_key: str, timeout: float) -> LLMError:
    """The named error for an exception of the client (one of `client_failures`).

    Raise it outside the `except` block: the failure in its context would expose the request.
    """
    import httpx2
    from openai import APIConnectionError, APIStatusError

    if isinstance(failure, APIStatusError):
        if failure.response.is_redirect:
            return BadRequest(_redirect_detail(failure.response, api_key), http_status=failure.status_code)
        retry_after = _retry_after(failure.response.headers.get("retry-after"))
        return status_error(failure.status_code, failure.body, failure.code, api_key, retry_after)
    if isinstance(failure, (APIConnectionError, httpx2.HTTPError)):
        return _connection_error(failure, api_key)
    if isinstance(failure, TimeoutError):
        return TimedOut(f"No answer within {timeout:g} s.")
    return ConnectionCut(clean(f"{type(failure).__name__}: {failure}", api_key))  # not mapped by the transport


def unexpected_error(failure: Exception, api_key: str) -> LLMError:
    """The error for an unforeseen exception during an attempt; its traceback is logged."""
    trace = "".join(traceback.format_exception(failure))
    log.error(
        "an attempt failed with an unexpected error\n%s", trace if api_key == NO_KEY else trace.replace(api_key, "***")
    )
    return UnexpectedError(clean(f"{type(failure).__name__}: {failure}", api_key))


def _redirect_detail(response: "httpx2.Response", api_key: str) -> str:
    location = clean(response.headers.get("location", ""), api_key)
    return f"The endpoint redirects; redirects are not followed: {location}"


def file_error(response: "httpx2.Response", text: str, api_key: str) -> LLMError:
    """The named error for a failed response about a file or a batch."""
    if response.is_redirect:
        return BadRequest(_redirect_detail(response, api_key), http_status=response.status_code)
    error, code = _error_of_body(text)
    retry_after = _retry_after(response.headers.get("retry-after"))
    return status_error(response.status_code, error, code, api_key, retry_after)


def _error_of_body(text: str) -> tuple[object, object]:
    """The error in a body and its code. As in the SDK: the value of `error`, if there is one."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = text
    error = body.get("error", body) if isinstance(body, dict) else body
    return error, error.get("code") if isinstance(error, dict) else None


def completion_error(response: "httpx2.Response", text: str, api_key: str) -> LLMError:
    """The named error for a failed response to a completion or embeddings request."""
    if response.is_redirect:
        return NotThere(_redirect_detail(response, api_key), http_status=response.status_code)
    error = file_error(response, text, api_key)
    if response.status_code in (404, 410):  # the path is wrong; elsewhere a file or a batch may be missing
        return NotThere(error.detail, http_status=response.status_code)
    return error


def status_error(status: int, body: object, code: object, api_key: str, retry_after: float | None = None) -> LLMError:
    """The named error for an HTTP status and the body sent with it."""
    try:
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    except (ValueError, RecursionError):  # it could be parsed at this depth, but not written
        text = "(nested too deeply)"
    detail = clean(text, api_key)
    if status == 403 and _ABOUT_FILTER.search(text):
        return ContentFiltered(detail, http_status=status)
    if status in (401, 403):
        return AuthFailed(detail, http_status=status)
    if status == 402:
        return NoCredit(detail, http_status=status)
    if status in (409, 425, 429) or status >= 500:
        kind = RateLimited if status == 429 else ServerError
        return kind(detail, http_status=status, retry_after=retry_after)
    if status == 408:
        return TimedOut(detail, http_status=status)
    if code == "content_filter":
        return ContentFiltered(detail, http_status=status)
    if status in (400, 413, 422) and (code == "context_length_exceeded" or _ABOUT_CONTEXT.search(text)):
        return ContextTooLong(detail, http_status=status)
    return BadRequest(detail, http_status=status)


def refuses_format(error: LLMError, sent: Mapping[str, Any]) -> bool:
    """Whether the endpoint refused a request because of its output format."""
    return (
        isinstance(error, BadRequest)
        and error.http_status in (400, 422)
        and "response_format" in sent
        and _ABOUT_FORMAT.search(error.detail) is not None
    )


def _connection_error(failure: Any, api_key: str) -> LLMError:
    """The named error for a lost connection, read from the chain of causes.

    The transport reports every lost connection as a timeout.
    """
    from aiohttp import ClientConnectorError, ClientSSLError, ConnectionTimeoutError

    from generation.llm.http.transport import TooLong

    causes: list[BaseException] = []
    cause: BaseException | None = failure.__cause__
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__
    for refusal in causes:
        if isinstance(refusal, NotAllowed):
            return NotAllowed(refusal.detail)
        if isinstance(refusal, Forbidden):  # raised before sending, so the request is known
            return NotAllowed(f"Host: {failure.request.url.host}. {refusal} Only MHB_ENDPOINT_HOSTS can allow it.")
    detail = clean(f"{type(causes[-1]).__name__}: {causes[-1]}" if causes else str(failure), api_key)
    if any(isinstance(cause, TooLong) for cause in (failure, *causes)):
        return BrokenReply(detail)
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return HostNotFound(f"The host name {failure.request.url.host} cannot be resolved.")
    if any(isinstance(cause, (ClientSSLError, ssl.SSLError)) for cause in causes):
        return TLSFailed(detail)
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        url = failure.request.url
        return NotReached(
            f"ConnectionRefusedError: {url.host}:{url.port or PORTS.get(url.scheme, '')} refuses connections."
        )
    if any(isinstance(cause, (ClientConnectorError, ConnectionTimeoutError)) for cause in causes):
        return NotReached(detail)
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return TimedOut(detail)
    return ConnectionCut(detail)


def _retry_after(header: str | None) -> float | None:
    """Seconds from a Retry-After header (RFC 9110: seconds or a date), at most a day.

    Returns None if the header is unusable.
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            at = parsedate_to_datetime(header)
        except (ValueError, OverflowError, TypeError, IndexError):
            return None
        seconds = (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), MAX_RETRY_AFTER) if seconds < IMPLAUSIBLE_RETRY_AFTER else None  # also None for nan


def clean(text: str, api_key: str) -> str:
    """Make error text fit for the ledger: without the key in any form, storable, and cut."""
    if api_key != NO_KEY:
        # Only so much is looked at: the key must not become visible by being cut.
        text = without_key(text[: MAX_DETAIL + len(api_key)], api_key)
    return storable(text)[:MAX_DETAIL]
