"""What a model cannot do of what a job will send, as one try shows it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from generation.llm.errors import (
    BadRequest,
    BrokenReply,
    ContentFiltered,
    ContextTooLong,
    LLMError,
    StreamsOnly,
    TimedOut,
    UnknownEnding,
    in_words,
)
from generation.llm.http.failures import message_in
from generation.llm.provider_words import Ending
from generation.llm.request_body import Format, format_of
from generation.trials.sending import Sent

CHARS_PER_TOKEN = (
    6  # of a prompt: more than any tokenizer reaches on prose, so a higher count means that text is missing
)
LONG_PROMPT = 2_000  # characters; the count of a shorter prompt says little

WORDS: dict[str, str | Promise] = {
    "temperature": _(
        "It refuses the temperature that would be sent. Set the endpoint to send none, or leave the model out."
    ),
    "no_system_role": _("It takes no system role. Set 'Send no system role' on the endpoint, or leave the model out."),
    "alternating_roles": _(
        "It wants the user first, and no speaker twice in a row. Set 'Alternate user and assistant strictly' on the "
        "endpoint, or leave the model out."
    ),
    "prompt_cache_key": _("It refuses prompt_cache_key. Turn 'Send prompt_cache_key' off on the endpoint."),
    "top_p": _("It refuses the top_p that would be sent. Set the endpoint to send none, or leave the model out."),
    "max_tokens": _(
        "It refuses the token limit as it would be sent. Set 'Send the limit as max_completion_tokens' on the endpoint, or "
        "leave the model out."
    ),
    "images": _("It takes no images, and the benchmark has some. Leave the model out."),
    "stream": _("It answers only as a stream, which is not supported here."),
    "context": _("The prompt is longer than its context."),
    "refused": _("It refuses what would be sent."),
    "truncated": _("It counted far fewer tokens than were sent: it may read only a part of the prompt."),
    "cut_off": _("Its reply was cut off at the token limit. Raise the limit on the endpoint."),
    "unread": _("Its reply was not the JSON that was asked for."),
    "no_schema": _("It takes no JSON schema: the form of its replies is only described in the prompt."),
    "filtered": _("Its content filter stopped the reply."),
    "ending": _("Its reply ended in a way that is not known. Decide on the endpoint's page what that means."),
    "no_batches": _("It takes no provider batches, which the endpoint says it supports."),
    "silent": _("It did not answer."),
    "slow": _("This try waited no longer. The job waits as long as the endpoint's timeout."),
}
# Every request would be refused: the job does not begin before a person has decided.
BLOCKING = frozenset(
    {
        "temperature",
        "top_p",
        "max_tokens",
        "no_system_role",
        "alternating_roles",
        "prompt_cache_key",
        "images",
        "stream",
        "context",
        "refused",
        "ending",
        "no_batches",
    }
)

# Settings of the endpoint with which it may accept what it refused.
REMEDIES: Mapping[str, Mapping[str, bool]] = {
    "temperature": {"default_sampling": True},
    "top_p": {"default_sampling": True},
    "max_tokens": {"completion_tokens": True},
    "prompt_cache_key": {"prompt_cache_key": False},
    "no_system_role": {"no_system_role": True},
    "alternating_roles": {"alternating_roles": True},
    "no_batches": {"batches": False},
}

_OF_ERRORS = {ContentFiltered: "filtered", ContextTooLong: "context", BrokenReply: "unread", UnknownEnding: "ending"}
_OF_REFUSAL = {
    "stream": r"\bstream\b.{0,40}\b(true|required|must|only)|only support\w*.{0,20}stream",
    "prompt_cache_key": r"\bprompt_cache_key\b",
    "temperature": r"\btemperature\b",
    "top_p": r"\btop_p\b",
    "max_tokens": r"\bmax_(completion_)?tokens\b",
    "images": r"\bimages?\b|image_url|\bvision\b|multimodal|content.{0,40}must be a string",
}
_ALTERNATION = re.compile(
    r"\balternat|(?:consecutive|successive)[^.]{0,60}\b(?:role|turn|message|user|assistant)|"
    r"(?:first|begin|start)[^.]{0,60}\b(?:user|role)\b|no user query",
    re.IGNORECASE,
)
_SYSTEM = re.compile(
    r"\b(?:system|developer)\b[^.]{0,60}(?:\bnot\b|n't|unsupported|unknown|invalid)|"
    r"(?:unsupported|unknown|invalid|unexpected|only)[^.]{0,60}\b(?:role|system)|"
    r"\bsystem message must be (?:at the beginning|first)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """One thing that a model cannot do; `detail`: in the words of its server, or the numbers."""

    code: str
    detail: str = ""

    @property
    def blocks(self) -> bool:
        return self.code in BLOCKING

    @property
    def words(self) -> str:
        return str(WORDS.get(self.code, self.code))


def findings(sent: Sent) -> list[TrialFinding]:
    """What a try shows that the model cannot do, the worst first."""
    return sorted(_all(sent), key=lambda finding: not finding.blocks)


def _all(sent: Sent) -> Iterator[TrialFinding]:
    error, reply = sent.error, sent.reply
    if error is not None:
        yield _of_error(sent, error)
    if reply is not None and reply.ending == Ending.CUT_OFF:
        yield TrialFinding("cut_off", f"{reply.usage.tokens_out} tokens")
    text = " ".join(" ".join(message.text for message in sent.request.messages).split())
    counted = 0
    if reply is not None:
        counted = reply.usage.tokens_in
    if len(text) >= LONG_PROMPT and 0 < counted * CHARS_PER_TOKEN < len(text):
        yield TrialFinding("truncated", f"{counted} tokens for {len(text)} characters")
    if any(not attempt.error for attempt in sent.attempts):
        first, last = format_of(sent.attempts[0].sent), format_of(sent.attempts[-1].sent)
        if first is Format.JSON_SCHEMA and last is not Format.JSON_SCHEMA:
            yield TrialFinding("no_schema")
    if sent.no_batches is not None and sent.no_batches.permanent:
        yield TrialFinding("no_batches", sent.no_batches.detail[:500])


def _of_error(sent: Sent, error: LLMError) -> TrialFinding:
    last, detail = sent.last, error.detail
    body: Mapping[str, Any] = {}
    if last is not None:
        detail, body = last.detail or error.detail, last.sent
    detail = message_in(detail)[:500]
    for kind, code in _OF_ERRORS.items():
        if isinstance(error, kind):
            return TrialFinding(code, detail or error.detail)
    if isinstance(error, StreamsOnly) or (last is not None and last.error == StreamsOnly.__name__):
        return TrialFinding("stream")
    if isinstance(error, BadRequest):
        has_images = any(message.images for message in sent.request.messages)
        return of_refusal(detail, body, has_images=has_images)
    if last is not None and last.error:
        code = "silent"
        if sent.hurried and last.error == TimedOut.__name__ and last.http_status is None:
            code = "slow"
        return TrialFinding(code, in_words(last.error, detail))
    return TrialFinding("silent", str(error)[:500])


def of_refusal(detail: str, sent: Mapping[str, Any], *, has_images: bool) -> TrialFinding:
    """What a server refused of a request body, by the field that its words name."""
    present = {
        "stream": True,
        "images": has_images,
        "max_tokens": bool({"max_tokens", "max_completion_tokens"} & set(sent)),
    }
    for code, pattern in _OF_REFUSAL.items():
        if present.get(code, code in sent) and re.search(pattern, detail, re.IGNORECASE):
            return TrialFinding(code, detail)
    return TrialFinding(_roles_refused(detail, sent) or "refused", detail)


def _roles_refused(detail: str, sent: Mapping[str, Any]) -> str:
    """What a server refused of the turns of a request; "" if its words are about something else.

    Templates without a system role may complain that roles do not alternate.
    """
    roles = [turn["role"] for turn in sent.get("messages", ())]
    has_system = "system" in roles
    turns = [role for role in roles if role != "system"]
    alternates = turns == (["user", "assistant"] * len(turns))[: len(turns)]
    speaks_of_order = _ALTERNATION.search(detail) is not None
    if speaks_of_order and not alternates:
        return "alternating_roles"
    if has_system and (speaks_of_order or _SYSTEM.search(detail)):
        return "no_system_role"
    return ""
