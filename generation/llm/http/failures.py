"""HTTP failures by name: what a status, a header or a broken connection means."""

import json
import logging
import re
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
    LLMError,
    NoCredit,
    NotAllowed,
    NotReached,
    NotThere,
    RateLimited,
    ServerError,
    TimedOut,
    UnexpectedError,
)
from generation.llm.http.access import Forbidden
from generation.llm.parsing import storable

if TYPE_CHECKING:  # a second to import: late
    import httpx2

log = logging.getLogger(__name__)

NO_KEY = "none"  # sent where an endpoint wants no key: the client insists on one
LONGEST_REST = 86_400.0  # seconds that an endpoint is left alone at its word
NO_REST = 7 * LONGEST_REST  # from here on it is no time to wait but a mistake: the seconds since 1970, milliseconds

_ABOUT_CONTEXT = re.compile(r"context_length_exceeded|maximum context length|context (window|size)", re.IGNORECASE)
_ABOUT_FILTER = re.compile(r"moderation|flagged|content[ _-](filter|policy)", re.IGNORECASE)
_ABOUT_FORMAT = re.compile(r"response_format|json_schema|json_object|json mode|structured output", re.IGNORECASE)


def client_failures() -> tuple[type[Exception], ...]:
    """What the client and its transport raise."""
    import aiohttp
    import httpx2
    from openai import APIConnectionError, APIStatusError

    return TimeoutError, APIStatusError, APIConnectionError, httpx2.HTTPError, aiohttp.ClientError, OSError


def named_error(failure: Exception, api_key: str, timeout: float) -> LLMError:
    """The named error for what the client raised (one of `client_failures`). To be raised where the failure is out of sight."""
    import httpx2
    from openai import APIConnectionError, APIStatusError

    if isinstance(failure, APIStatusError):
        if failure.response.is_redirect:
            return BadRequest(_elsewhere(failure.response, api_key), http_status=failure.status_code)
        retry_after = _retry_after(failure.response.headers.get("retry-after"))
        return status_error(failure.status_code, failure.body, failure.code, api_key, retry_after)
    if isinstance(failure, (APIConnectionError, httpx2.HTTPError)):
        return _connection_error(failure, api_key)
    if isinstance(failure, TimeoutError):
        return TimedOut(f"No answer within {timeout:g} s.")
    return ConnectionCut(clean(f"{type(failure).__name__}: {failure}", api_key))  # what the transport leaves unmapped


def unexpected(failure: Exception, api_key: str) -> LLMError:
    """What is written where an attempt met something that has no name here; where it was met goes into the log."""
    trace = "".join(traceback.format_exception(failure))
    log.error(
        "an attempt failed with an unexpected error\n%s", trace if api_key == NO_KEY else trace.replace(api_key, "***")
    )
    return UnexpectedError(clean(f"{type(failure).__name__}: {failure}", api_key))


def _elsewhere(response: "httpx2.Response", api_key: str) -> str:
    at = clean(response.headers.get("location", ""), api_key)
    return f"The endpoint redirects, which is not followed: {at}"


def file_refused(response: "httpx2.Response", text: str, api_key: str) -> LLMError:
    """The named error for an answer about a file or a batch that is none of success."""
    if response.is_redirect:
        return BadRequest(_elsewhere(response, api_key), http_status=response.status_code)
    about, code = _complaint(text)
    retry_after = _retry_after(response.headers.get("retry-after"))
    return status_error(response.status_code, about, code, api_key, retry_after)


def _complaint(text: str) -> tuple[object, object]:
    """What is complained of in a body, and the code of it. As the SDK reads it: under `error`, if anywhere."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = text
    about = body.get("error", body) if isinstance(body, dict) else body
    return about, about.get("code") if isinstance(about, dict) else None


def refusal_of(response: "httpx2.Response", text: str, api_key: str) -> LLMError:
    """The named error for an answer that is none of success."""
    if response.is_redirect:
        return NotThere(_elsewhere(response, api_key), http_status=response.status_code)
    error = file_refused(response, text, api_key)
    if response.status_code in (
        404,
        410,
    ):  # the path of completions; elsewhere it may be a file or a batch that is missed
        return NotThere(error.detail, http_status=response.status_code)
    return error


def status_error(status: int, body: object, code: object, api_key: str, retry_after: float | None = None) -> LLMError:
    """The named error for an HTTP status and what was said with it."""
    try:
        said = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    except (ValueError, RecursionError):  # nested as deeply as it could be read, and no deeper
        said = "(nested too deeply)"
    detail = clean(said, api_key)
    if status == 403 and _ABOUT_FILTER.search(said):
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
    if status in (400, 413, 422) and (code == "context_length_exceeded" or _ABOUT_CONTEXT.search(said)):
        return ContextTooLong(detail, http_status=status)
    return BadRequest(detail, http_status=status)


def refuses_format(error: LLMError, sent: Mapping[str, Any]) -> bool:
    return (
        isinstance(error, BadRequest)
        and error.http_status in (400, 422)
        and "response_format" in sent
        and _ABOUT_FORMAT.search(error.detail) is not None
    )


def _connection_error(failure: Any, api_key: str) -> LLMError:
    """The transport calls every lost connection a timeout; what really happened is further down the chain of causes."""
    from aiohttp import ClientConnectorError, ConnectionTimeoutError

    from generation.llm.http.transport import TooLong

    causes: list[BaseException] = []
    cause: BaseException | None = failure.__cause__
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__
    for refusal in causes:
        if isinstance(refusal, NotAllowed):
            return NotAllowed(refusal.detail)
        if isinstance(refusal, Forbidden):  # the request is known: it was about to be sent
            return NotAllowed(f"Host: {failure.request.url.host}. {refusal} Only MHB_ENDPOINT_HOSTS can allow it.")
    detail = clean(f"{type(causes[-1]).__name__}: {causes[-1]}" if causes else str(failure), api_key)
    if any(isinstance(cause, TooLong) for cause in (failure, *causes)):
        return BrokenReply(detail)
    if any(isinstance(cause, (ClientConnectorError, ConnectionTimeoutError)) for cause in causes):
        return NotReached(detail)
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return TimedOut(detail)
    return ConnectionCut(detail)


def _retry_after(header: str | None) -> float | None:
    """Seconds from a Retry-After header (RFC 9110: seconds or a date), a day at most; None where it says nothing usable."""
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
    return min(max(seconds, 0.0), LONGEST_REST) if seconds < NO_REST else None  # nor for nan


def clean(text: str, api_key: str) -> str:
    """Error text fit for the ledger: without the key (cut only after it is gone), storable, not too long."""
    if api_key != NO_KEY:
        text = text.replace(api_key, "***")
    return storable(text)[:MAX_DETAIL]
