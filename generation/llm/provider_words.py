"""What providers' words mean: how a reply ended, and of which class an error is.

One closed table each (`provider_words.json`). Words are compared in lower case and without
punctuation, so that ``MAX_TOKENS``, ``max_tokens`` and ``maxTokens`` are one entry. An ending that
is not here is unknown until somebody decides it for its endpoint. Of an error, its codes decide
before its status, and its wording decides last.
"""

import json
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from generation.llm import errors
from generation.llm.errors import (
    AuthFailed,
    BadRequest,
    BrokenReply,
    ContentFiltered,
    ContextTooLong,
    LLMError,
    NoCredit,
    NotFound,
    RateLimited,
    ServerError,
    StillWriting,
    StreamsOnly,
)


class Ending(StrEnum):
    """How a reply ended."""

    COMPLETE = "complete"
    CUT_OFF = "cut_off"
    FILTERED = "filtered"
    REFUSED = "refused"
    FAILED = "failed"  # the provider failed
    TOOL_CALL = "tool_call"  # none was offered, so this is a broken reply
    UNKNOWN = "unknown"


def _class_named(name: str) -> type[LLMError]:
    named: type[LLMError] = getattr(errors, name)
    return named


# What may be decided about an ending that is not in the table.
DECISIONS = (Ending.COMPLETE, Ending.CUT_OFF, Ending.FILTERED, Ending.REFUSED, Ending.FAILED)
NO_ENDING = "none"  # the name of an ending that the endpoint left out

_TABLES = json.loads(Path(__file__).with_suffix(".json").read_bytes())
ENDINGS: Mapping[Ending, list[str]] = {Ending(name): words for name, words in _TABLES["endings"].items()}
# Codes of errors (`code`, `type`, `status`, `reason`, also of inner errors). The first class that
# has one of an error's codes decides. Those of BadRequest, and its wordings, are about the output
# format.
CODES: Mapping[type[LLMError], list[str]] = {_class_named(name): words for name, words in _TABLES["codes"].items()}
# 424: a part of the provider's own failed; 498: over capacity; 499: given up on by a proxy. Others:
# ServerError from 500, BadRequest below.
STATUSES = {int(status): _class_named(name) for status, name in _TABLES["statuses"].items()}

# Wordings, where neither codes nor status say more than "bad request", "forbidden" or "too many".
# Each is one scan: no pattern repeats a repetition.
WORDINGS: Mapping[type[LLMError], str] = {
    BrokenReply: r"not (?:produce|generate|return|output) (?:a )?valid json|failed to (?:generate|"
    r"validate|produce|parse)(?: the)?(?: generated| model's| model)? (?:json|output)|generated json does not|(?:model"
    r"(?:'s)?|generated) (?:output|reply|response|generated)[ a-z]{0,30}(?:not valid|not match|invalid|malformed)"
    r"|parse the model|model produced invalid|model tried to call",
    ContentFiltered: r"moderation|\bflagged|content[ _-]?(?:filter|policy|management|exists risk|safety)|safety (?:system|"
    r"filter|polic|guideline|setting)|usage polic|acceptable use|responsible ai|inappropriate|prohibited content|"
    r"sensitive (?:content|information|word)|new_sensitive|harmful content|guardrail|usage guideline|violates? (?:our|the) "
    r"(?:polic|terms)|considered high risk|dlp polic|\bp[hi]i detected|(?:prompt|content|input|output) (?:is |was )?blocked"
    r"|敏感内容|敏感词|敏感信息|内容安全|内容违规|审核[不未]通过",
    ContextTooLong: r"context[ _-](?:length|window|size|limit)|max_new_tokens` must be|maximum context|prompt is too long|"
    r"input is too long|too many (?:input |prompt )?tokens|reduce the length|maximum (?:model|input|sequence) length|"
    r"must have less than \d{1,9} tokens|exceeds? the (?:maximum|available) "
    r"(?:number of tokens|context|input)|input length should be|input tokens exceeds|max message tokens"
    r"|sequence length \d{1,9} exceeds|model token limit|prompt length exceeds|超长|上下文长度"
    r"|length of (?:the )?(?:prompt|message|input)[^.]{0,40} must be (?:less|no more) than",
    NoCredit: r"credit balance|insufficient (?:balance|credits?|funds)|more credits|out of credits?|available credits"
    r"|spending limit|over budget|budget (?:has been )?exceeded|api usage limits|key limit exceeded|balance is insufficient"
    r"|overdue balance|call volume quota|余额不足|欠费|额度已用尽",
    AuthFailed: r"(?:invalid|incorrect|missing|wrong|expired) (?:api|secret|access)[ _-]?(?:key|token)|(?:api|secret) key "
    r"(?:is )?(?:not valid|invalid|incorrect|expired|missing)|carry the api secret|organization has been disabled",
    RateLimited: r"rate[ -]?limit|too many requests|tokens per min|qps ?(?:request|limit|over)",
    BadRequest: r"response[ _]?format|json[ _]?schema|json[ _]?object|json[ _]?mode|structured[ _]?output|guided[ _]?"
    r"(?:json|decoding|grammar)|\bgrammar|xgrammar|outlines|llguidance|additionalproperties|requested parameters",
    StreamsOnly: r"only supports? (?:the )?stream|enable the stream|stream(?:ing)? (?:mode )?(?:is )?(?:required|mandatory)"
    r"|stream[^.]{0,30} (?:must be|has to be|should be|to) (?:set to )?true",
    NotFound: r"not a valid model|invalid model name|no such model|unsupported model\b|unexpected endpoint or method|"
    r"model [^ ]{0,100} ?(?:does not exist|not found|is not available)",
}
# Names of errors in the text of a proxy, and a status that it quotes.
NAMED = re.compile(r"\blitellm\.([A-Za-z]{1,60})")
_QUOTED_STATUS = re.compile(r"\berror code: ([45]\d\d)\b", re.IGNORECASE)
# "insufficient quota" is what some providers say for "not so fast".
ABOUT_RATE = re.compile(
    r"per[ -]?(?:second|minute|hour|day)|rate[ -]?limit|token[ -]limit|\b[rt]p[md]\b|(?:retry|try again) (?:in|after)"
    r"|slow down",
    re.IGNORECASE,
)

# The chat template of a model does not take the turns of a request: servers differ in the status.
_TEMPLATE = re.compile(r"jinja|chat[ _]template|roles must alternate|system role not supported", re.IGNORECASE)

# A proxy makes a failure of a model that used up its limit for reasoning.
_NO_ROOM = re.compile(r"unable to complete request: max_output_tokens", re.IGNORECASE)

# llama.cpp cannot parse what the model wrote under a schema; the server is well.
_UNPARSED = re.compile(r"model produced output that does not match", re.IGNORECASE)

# What the wording may say instead, of statuses that say less.
_MORE_LIKELY = {403: (ContentFiltered, NoCredit), 424: (ContentFiltered,), 429: (NoCredit,)}
_PREFIX = re.compile(r"^(?:finish|stop)?reason")


def plain(word: str) -> str:
    """A provider's word without case and punctuation, as the tables compare it."""
    return re.sub(r"[^a-z0-9]", "", word[:100].casefold())


_ENDING_OF: dict[str, Ending] = {}
for _ending, _words in ENDINGS.items():
    _ENDING_OF |= dict.fromkeys(map(plain, _words), _ending)
_CLASS_OF = {kind: frozenset(map(plain, words)) for kind, words in CODES.items()}
_WORDING = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in WORDINGS.items()}


def ending_of(finish_reason: str, decided: Mapping[str, str] | None = None) -> Ending:
    """What a finish reason means; UNKNOWN for one that neither the table nor `decided` has.

    `decided`: what people decided about endings of the endpoint, by their names.
    """
    word = _PREFIX.sub("", plain(finish_reason), count=1) or NO_ENDING
    if known := _ENDING_OF.get(word):
        return known
    ending = Ending.UNKNOWN
    for name, meaning in (decided or {}).items():
        if plain(name) == word:
            ending = Ending(meaning)
    return ending


def error_class(status: int, codes: Iterable[str], param: str, text: str, *, waits: bool = False) -> type[LLMError]:
    """The class of an error. `param`: the field at fault; `waits`: it came with a Retry-After.

    `status`: 0 where none was said, so that the wording decides.
    """
    quoted = _QUOTED_STATUS.search(text)
    if not status and quoted:
        status = int(quoted[1])
    if status >= 500 and _TEMPLATE.search(text):  # whatever its code says: it is no fault that passes
        return BadRequest
    if status >= 500 and _NO_ROOM.search(text):
        return StillWriting
    if status >= 500 and _UNPARSED.search(text):
        return BrokenReply
    words = {plain(code) for code in (*codes, *NAMED.findall(text))}
    for kind, known in _CLASS_OF.items():
        if words & known:
            if kind is NoCredit and (waits or ABOUT_RATE.search(text)):
                return RateLimited
            return kind
    if plain(param).startswith(("responseformat", "textformat", "guided", "jsonschema", "grammar")):
        return BadRequest
    by_status = STATUSES.get(status)
    if by_status is None:
        by_status = BadRequest
        if status >= 500:
            by_status = ServerError
    if not status:
        return _by_wording(text, _WORDING, ServerError)
    if others := _MORE_LIKELY.get(status):
        found = _by_wording(text, others, by_status)
        if found is NoCredit and (waits or ABOUT_RATE.search(text)):
            return by_status
        return found
    if by_status is BadRequest:
        return _by_wording(text, _WORDING, BadRequest)
    if status >= 500 and speaks_of_format(text):
        return BadRequest
    return by_status


def _by_wording(text: str, kinds: Iterable[type[LLMError]], otherwise: type[LLMError]) -> type[LLMError]:
    """The first of these classes whose wording is in a text."""
    for kind in kinds:
        if _WORDING[kind].search(text):
            return kind
    return otherwise


def speaks_of_format(text: str) -> bool:
    """Whether an error's wording is about the output format."""
    return _WORDING[BadRequest].search(text) is not None
