"""Mapping of HTTP failures to named errors, by status, headers and broken connections."""

import json
import logging
import re
import socket
import ssl
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from generation.llm.errors import (
    MAX_DETAIL,
    BadRequest,
    BrokenReply,
    ConnectionCut,
    HostNotFound,
    LLMError,
    NobodyListens,
    NotAllowed,
    NotFound,
    NotReached,
    RateLimited,
    ServerError,
    StreamsOnly,
    TimedOut,
    TLSFailed,
    UnexpectedError,
)
from generation.llm.http.access import PORTS, Forbidden
from generation.llm.http.redaction import without_key
from generation.llm.parsing import storable
from generation.llm.provider_words import error_class, speaks_of_format
from generation.llm.types import ModelSettings

if TYPE_CHECKING:  # takes a second to import, so it is imported late
    import httpx2

log = logging.getLogger(__name__)

NO_KEY = "none"  # sent if an endpoint needs no key, as the client requires one
MAX_RETRY_AFTER = 86_400.0  # seconds; the longest wait that we honour
ONLY_STREAMS = "It only streams its replies, which is not supported."
MAX_LAYERS = 12  # errors within an error that are read
IMPLAUSIBLE_RETRY_AFTER = 7 * MAX_RETRY_AFTER  # from here on it is a mistake
MAX_PAGE = 20_000  # characters of a page in which its title is looked for
MAX_TITLE = 100  # characters of a page without one
UNIX_TIME = 10**9  # from here on a number is one, in seconds or milliseconds


def client_failures() -> tuple[type[Exception], ...]:
    """The exceptions that the client and its transport raise."""
    import aiohttp
    import httpx2

    return TimeoutError, httpx2.HTTPError, aiohttp.ClientError, OSError


def named_error(failure: Exception, api_key: str, timeout: float) -> LLMError:
    """The named error for an exception of the client (one of `client_failures`).

    Raise it outside the `except` block: the failure in its context would expose the request.
    """
    import httpx2

    if isinstance(failure, httpx2.HTTPError):
        return _connection_error(failure, api_key)
    if isinstance(failure, TimeoutError):
        return TimedOut(f"No answer within {timeout:g} s.")
    return ConnectionCut(clean(f"{type(failure).__name__}: {failure}", api_key))  # not mapped by the transport


def unexpected_error(failure: Exception, api_key: str) -> LLMError:
    """The error for an unforeseen exception during an attempt; its traceback is logged."""
    trace = "".join(traceback.format_exception(failure))
    if api_key != NO_KEY:
        trace = trace.replace(api_key, "***")
    log.error("an attempt failed with an unexpected error\n%s", trace)
    return UnexpectedError(clean(f"{type(failure).__name__}: {failure}", api_key))


def _redirect_detail(response: "httpx2.Response", api_key: str) -> str:
    location = clean(response.headers.get("location", ""), api_key)
    return f"The endpoint redirects; redirects are not followed: {location}"


_TITLE = re.compile(r"<title[^<>]{0,200}>([^<>]{1,200})</title", re.IGNORECASE)


def page_title(text: str) -> str:
    """What a page in the place of a reply calls itself; its beginning if it has no title."""
    title = text[:MAX_TITLE]
    if found := _TITLE.search(text[:MAX_PAGE]):
        title = found[1]
    return f"The page: {' '.join(title.split())}"


def file_error(response: "httpx2.Response", text: str, api_key: str) -> LLMError:
    """The named error for a failed response about a file or a batch."""
    if response.is_redirect:
        return BadRequest(_redirect_detail(response, api_key), http_status=response.status_code)
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = text
        if text.lstrip().startswith("<"):
            body = page_title(text)
    return body_error(response.status_code, body, api_key, response.headers)


def body_error(status: int, body: Any, api_key: str, headers: Mapping[str, str]) -> LLMError:
    """The named error in the body of a response with such a status."""
    error = body
    if isinstance(body, dict):
        error = body.get("error") or body
    code = None
    if isinstance(body, dict):
        code = body.get("code")
    return status_error(status, error, code, api_key, _wait(headers, error))


def completion_error(response: "httpx2.Response", text: str, api_key: str) -> LLMError:
    """The named error for a failed response to a completion or embeddings request."""
    if response.is_redirect:
        return NotFound(_redirect_detail(response, api_key), http_status=response.status_code)
    return model_error(file_error(response, text, api_key), response.status_code)


_NO_IMAGES = re.compile(r"support(?:s|ed)? (?:for )?images?\b|image inputs? (?:is|are) not", re.IGNORECASE)


def model_error(error: LLMError, status: int) -> LLMError:
    """The error of a completion or embeddings request with this status.

    What is not found is the path or the model, where for files it may be a file or a batch.
    """
    about_request = speaks_of_format(error.detail) or _NO_IMAGES.search(error.detail)
    if status not in (404, 410) or type(error) is not BadRequest or about_request:
        return error
    unknown = NotFound(error.detail, http_status=error.http_status)
    unknown.said = error.said
    return unknown


def status_error(
    status: int, body: object, code: object = None, api_key: str = NO_KEY, retry_after: float | None = None
) -> LLMError:
    """The named error for an HTTP status and the body sent with it; see `provider_words`."""
    try:
        if isinstance(body, str):
            text = body
        else:
            text = json.dumps(body, ensure_ascii=False)
    except (ValueError, RecursionError):  # it could be parsed at this depth, but not written
        text = "(nested too deeply)"
    codes = _codes(body)
    if isinstance(code, (str, int)):
        codes.insert(0, str(code))
    param = ""
    for layer in _layers(body):
        if isinstance(layer.get("param"), str):
            param = param or layer["param"]
    kind = error_class(status, codes, param, _message(body) or text[:MAX_DETAIL], waits=retry_after is not None)
    if not issubclass(kind, (RateLimited, ServerError)):
        retry_after = None
    elif retry_after is None and (wait := _SAID_WAIT.search(text)):
        retry_after = _seconds(wait[1].strip(" ,"))
    detail = text
    if kind is StreamsOnly:
        detail = f"{ONLY_STREAMS} {text}"
    error = kind(clean(detail, api_key), http_status=status, retry_after=retry_after)
    error.about_model = kind is BrokenReply
    if kind is not StreamsOnly:
        error.said = clean(_message(body), api_key)
    return error


_CODE_FIELDS = ("code", "type", "status", "status_code", "reason", "error_type", "error_code")
_INNER = ("error", "innererror", "inner_error", "metadata", "details")


def _layers(body: object) -> list[Mapping[str, Any]]:
    """An error and the errors within it, outermost first."""
    layers: list[Mapping[str, Any]] = []
    waiting = [body]
    while waiting and len(layers) < MAX_LAYERS:
        layer = waiting.pop(0)
        if isinstance(layer, list):
            waiting += layer[:MAX_LAYERS]
        elif isinstance(layer, dict):
            layers.append(layer)
            waiting += [layer[name] for name in _INNER if isinstance(layer.get(name), (dict, list))]
            if isinstance(layer.get("raw"), str):
                waiting.append(_json_in(layer["raw"]))
    return layers


def _json_in(text: str) -> object:
    """The error of a provider that a proxy quotes."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _codes(body: object) -> list[str]:
    codes, failed_generation = [], []
    for layer in _layers(body):
        codes += [str(layer[name]) for name in _CODE_FIELDS if isinstance(layer.get(name), (str, int))]
        if "failed_generation" in layer:
            failed_generation = ["json_validate_failed"]
    return codes + failed_generation


def message_in(detail: str) -> str:
    """What an error says, without the JSON around it; the whole detail if it is no such JSON."""
    return _message(_json_in(detail)) or detail


def _message(body: object) -> str:
    """What an error says, without what it quotes of the request."""
    if isinstance(body, str):
        return body[:MAX_DETAIL]
    texts, nested = [], []
    for layer in _layers(body):
        for name in ("message", "msg", "status_msg", "error_msg", "detail", "raw", "title"):
            value = layer.get(name)
            if isinstance(value, str):
                texts.append(value)
            if isinstance(value, list):
                nested += [part.get("msg") for part in value if isinstance(part, dict)]
    texts += [message for message in nested if isinstance(message, str)]
    return " ".join(text[:MAX_DETAIL] for text in texts)


def may_be_the_format(error: LLMError, sent: Mapping[str, Any], settings: ModelSettings) -> bool:
    """Whether the output format may be why the endpoint refused a request.

    In whatever words: whether it is shows when the same request succeeds without it.
    """
    return (
        isinstance(error, BadRequest)
        and error.http_status is not None
        and "response_format" in sent
        and not settings.output_format
    )


def _connection_error(failure: Any, api_key: str) -> LLMError:
    """The named error for a lost connection, read from the chain of causes.

    The transport reports every lost connection as a timeout.
    """
    from aiohttp import ClientConnectorError, ClientSSLError, ConnectionTimeoutError

    from generation.llm.http.transport import ReplyTooLong

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
    detail = str(failure)
    if causes:
        detail = f"{type(causes[-1]).__name__}: {causes[-1]}"
    detail = clean(detail, api_key)
    if any(isinstance(cause, ReplyTooLong) for cause in (failure, *causes)):
        return BrokenReply(detail)
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return HostNotFound(f"The host name {failure.request.url.host} cannot be resolved.")
    if any(isinstance(cause, (ClientSSLError, ssl.SSLError)) for cause in causes):
        return TLSFailed(detail)
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        url = failure.request.url
        return NobodyListens(f"{url.host}:{url.port or PORTS.get(url.scheme, '')} refuses connections.")
    if any(isinstance(cause, (ClientConnectorError, ConnectionTimeoutError)) for cause in causes):
        return NotReached(detail)
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return TimedOut(detail)
    return ConnectionCut(detail)


# "Please try again in 6m0.5s", "Please retry after 26 seconds", "retryDelay": "34s"
_SAID_WAIT = re.compile(
    r"(?:(?:try again|retry) (?:in|after) |retryDelay\W{1,4})((?:\d[\d.]{0,12} ?[a-z]{1,12}[ ,]?){1,4})", re.IGNORECASE
)
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,12})?) ?(ms|milli|[smhd])[a-z]{0,10}[ ,]{0,2}", re.IGNORECASE)
_UNITS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_IN_MS = ("retry-after-ms", "x-ms-retry-after-ms")


def _wait(headers: Mapping[str, str], body: object) -> float | None:
    """Seconds that a response asks to wait, in its headers or in those that a proxy quotes.

    The reset of a rate counts where nothing remains of the rate.
    """
    found: dict[str, str] = {}
    for layer in _layers(body):
        if isinstance(layer.get("headers"), dict):
            found |= {name.lower(): str(value) for name, value in layer["headers"].items()}
    found |= {name.lower(): value for name, value in headers.items()}
    waits = [_seconds(f"{found[name]}ms") for name in _IN_MS if name in found]
    waits.append(_seconds(found.get("retry-after", "")))
    for wait in waits:
        if wait is not None:
            return wait
    spent = []
    for name in found:
        is_reset = "ratelimit" in name and "reset" in name
        if is_reset and found.get(name.replace("reset", "remaining")) == "0":
            spent.append(_seconds(found[name]) or 0.0)
    return max(spent, default=0.0) or None


def _seconds(text: str) -> float | None:
    """Seconds in a text, at most a day; None if it is unusable.

    It is a number, a duration, or a time (RFC 9110, ISO 8601 or Unix).
    """
    try:
        seconds = float(text)
        if seconds >= 1_000 * UNIX_TIME:
            seconds /= 1_000
        if seconds >= UNIX_TIME:
            seconds -= time.time()
    except ValueError:
        if text and not _DURATION.sub("", text):
            seconds = sum(float(number) * _UNITS[unit.lower()] for number, unit in _DURATION.findall(text))
        else:
            try:
                if text[:4].isdecimal():
                    at = datetime.fromisoformat(text)
                else:
                    at = parsedate_to_datetime(text)
            except (ValueError, OverflowError, TypeError, IndexError):
                return None
            seconds = (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    # Also None for nan.
    if seconds < IMPLAUSIBLE_RETRY_AFTER:
        return min(max(seconds, 0.0), MAX_RETRY_AFTER)
    return None


def clean(text: str, api_key: str) -> str:
    """Make error text fit for the ledger: without the key in any form, storable, and cut."""
    if api_key != NO_KEY:
        # Only so much is looked at: the key must not become visible by being cut.
        text = without_key(text[: MAX_DETAIL + len(api_key)], api_key)
    return storable(text)[:MAX_DETAIL]
