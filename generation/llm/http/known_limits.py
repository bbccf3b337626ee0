"""What endpoints tell of their limits: the length of a context, and the longest reply."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from generation.llm.errors import BadRequest, ContextTooLong, LLMError
from generation.llm.http.failures import client_failures
from generation.llm.provider_words import plain
from generation.llm.request_body import MIN_ROOM, effective, limit_of
from generation.llm.types import Attempt, ModelSettings, Texts

if TYPE_CHECKING:
    from generation.llm.gateway import Gateway

SECONDS = 10.0  # for one answer
MAX_LISTING = 4 * 2**20  # bytes
LEAST_CONTEXT, MOST_CONTEXT = 256, 10**8  # tokens; another number is no length of a context
MAX_DEPTH = 4  # of the entry of a model

# The names of the length in the entry of a model, and in llama.cpp's /props, TGI's /info and
# Ollama's /api/ps. The smallest number counts: a server may have loaded a model with less than it
# can do. Those of the second row say less: what it was trained with, or a prompt alone.
NAMES = (
    "max_model_len context_length context_window max_context_length max_context_window context_size context_tokens "
    "max_context_tokens max_context_window_tokens loaded_context_length max_sequence_length max_seq_len max_total_tokens "
    "n_ctx",
    "max_input_tokens input_token_limit n_ctx_train",
)
PLACES = ("/props", "/api/ps", "/info")  # asked where the list of models says nothing

# In errors.
_CONTEXT = re.compile(
    r"(?:n_ctx\W{1,4}|context[ _-](?:length|window|size|limit)(?: of| is|:)?(?: only)?(?: \d{1,9} \+ \d{1,9} >)?\W{1,3}"
    r"|max_new_tokens` must be <= )(\d{1,9})|(\d{1,9}) maximum context",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"n_prompt_tokens\W{1,4}(\d{1,9})|(\d{1,9}) (?:tokens )?(?:in|from|of) the (?:messages|prompt|input)"
    r"|(\d{1,9}) `?(?:input|prompt)s?`? tokens|(\d{1,9}) of text input|context limit: (\d{1,9}) \+"
    r"|prompt contains (\d{1,9}) tokens|request \((\d{1,9}) tokens",
    re.IGNORECASE,
)
_MOST = re.compile(
    r"(?:at most |range[^\[\]\n]{0,40}\[\d{1,3}, ?|less than or equal to `?|\(inclusive\) to |model limit of "
    r"|max_tokens: \d{1,9} > )(\d{1,9})",
    re.IGNORECASE,
)
_OF_LIMIT = re.compile(
    r"max(?:imum)?[ _]?(?:new|completion|output)?[ _]?tokens|maxOutputTokens|completion tokens", re.IGNORECASE
)


class KnownLimits:
    """What endpoints have said of their limits when they refused a request."""

    def __init__(self) -> None:
        self._contexts: dict[tuple[str, str], int] = {}
        self._longest: dict[tuple[str, str], int] = {}

    def applied(self, settings: ModelSettings) -> ModelSettings:
        """The settings with the length of the context, if they have none."""
        told = self._contexts.get((settings.url, settings.model))
        if settings.context_tokens or told is None:
            return settings
        return replace(settings, context_tokens=told)

    def longest_reply(self, settings: ModelSettings) -> int | None:
        """The longest reply that is allowed; 0 if no limit is; None if nothing is known."""
        return self._longest.get((settings.url, settings.model))

    def learn(self, error: LLMError, attempt: Attempt) -> int | None:
        """The limit with which a refused request may pass; None if its limit was not at fault."""
        if isinstance(attempt.request, Texts) or not isinstance(error, (BadRequest, ContextTooLong)):
            return None
        endpoint = attempt.settings.url, attempt.settings.model
        if isinstance(error, ContextTooLong) and (context := context_in(error.detail)):
            self._contexts[endpoint] = context
        was_set = effective(attempt.settings, attempt.request).max_tokens is not None
        longest = longest_reply(error.detail, attempt.sent, was_set=was_set)
        if longest is None:
            if isinstance(error, ContextTooLong):
                return room_in_context(error.detail, attempt.sent)
            return None
        self._longest[endpoint] = longest
        return longest


def context_in(detail: str) -> int | None:
    """The length of the context that an error names."""
    found = _CONTEXT.search(detail)
    number = 0
    if found:
        number = int(next(filter(None, found.groups())))
    if LEAST_CONTEXT <= number <= MOST_CONTEXT:
        return number
    return None


def room_in_context(detail: str, sent: Mapping[str, Any]) -> int | None:
    """The tokens that the context leaves for a reply, from an error about a limit beyond it.

    None if the error does not say so, or if it was not the limit.
    """
    context, prompt, limit = context_in(detail), _PROMPT.search(detail), limit_of(sent)
    if context is None or prompt is None or limit is None:
        return None
    room = context - int(next(filter(None, prompt.groups())))
    if MIN_ROOM <= room < limit:
        return room
    return None


def longest_reply(detail: str, sent: Mapping[str, Any], *, was_set: bool) -> int | None:
    """The limit that an endpoint allows, from its refusal of a higher one; 0 if it takes none.

    None if it refused something else. `was_set`: somebody set the limit, so it is not left out.
    """
    limit = limit_of(sent)
    if limit is None or not _OF_LIMIT.search(detail):
        return None
    found = _MOST.search(detail)
    if found and 0 < int(found[1]) < limit:
        return int(found[1])
    if was_set or context_in(detail):
        return None
    return 0


async def context_length(gateway: "Gateway", settings: ModelSettings) -> int | None:
    """The length of a model's context as its endpoint tells it; None if it does not.

    Nothing is billed. Raises nothing.
    """
    base = settings.url.rstrip("/")
    listing = await _get(gateway, settings, f"{base}/models")
    exact, vague = (frozenset(map(plain, names.split())) for names in NAMES)
    if length := _in_listing(listing, settings.model, exact):
        return length
    places = []
    if base.endswith("/v1"):
        places = [base.removesuffix("/v1") + place for place in PLACES]
    for place in places:
        if length := _in_listing(await _get(gateway, settings, place), settings.model, exact):
            return length
    return _in_listing(listing, settings.model, vague)


async def _get(gateway: "Gateway", settings: ModelSettings, url: str) -> Any:
    failures: tuple[type[Exception], ...] = (LLMError, ValueError, RecursionError, *client_failures())
    try:
        client = gateway.client(settings)
        async with asyncio.timeout(SECONDS):
            response, text = await client.fetch("GET", url, limit=MAX_LISTING, timeout=SECONDS)
        if response.is_success:
            return json.loads(text)
        return None
    except failures:
        return None


def _in_listing(body: Any, model: str, names: frozenset[str]) -> int | None:
    """The length in the entry of a model; in the only entry, where its name is another one."""
    lists = [body]
    if isinstance(body, dict):
        lists = [body.get("data"), body.get("models"), [body]]
    elif not isinstance(body, list):
        return None
    listing = next(entries for entries in lists if isinstance(entries, list))
    entries = [entry for entry in listing if isinstance(entry, dict)]
    named = []
    for entry in entries:
        if model in (entry.get("id"), entry.get("name"), entry.get("model"), entry.get("root")):
            named.append(entry)
    if not named and len(entries) == 1:
        named = entries
    if not named:
        return None
    return min(_lengths(named[0], names, MAX_DEPTH), default=None)


def _lengths(value: Any, names: frozenset[str], depth: int) -> Iterator[int]:
    if isinstance(value, dict) and depth:
        for name, inner in value.items():
            if plain(str(name)) in names and type(inner) is int and LEAST_CONTEXT <= inner <= MOST_CONTEXT:
                yield inner
            yield from _lengths(inner, names, depth - 1)
