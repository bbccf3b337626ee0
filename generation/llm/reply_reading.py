"""Reading of untrusted responses: text, reasoning, usage, embeddings, structured output."""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from generation.llm.errors import (
    AuthFailed,
    BrokenReply,
    ContentFiltered,
    LLMError,
    NoCredit,
    NotFound,
    OtherService,
    RateLimited,
    ServerError,
    StreamsOnly,
)
from generation.llm.http.failures import NO_KEY, ONLY_STREAMS, clean, model_error, page_title, status_error
from generation.llm.parsing import extract_json, format_vectors, reject_duplicate_keys, storable
from generation.llm.provider_words import NO_ENDING, Ending, ending_of, plain
from generation.llm.reasoning import split_reasoning
from generation.llm.request_body import most_tokens
from generation.llm.types import REFUSED, SIMULATOR_FINGERPRINT, ModelSettings, Reply, Request, Usage
from review.rules.text import has_visible_text

# Characters; a shorter key ("none", "EMPTY") is not secret, and removing it would alter replies.
MIN_SECRET = 12
MAX_TOKENS = 10**8  # in or out per call; a higher count is nonsense
MAX_NAME = 200  # characters of a model or fingerprint
MAX_REASON = 40  # of the word for how a reply ended
MAX_DIGITS = 12  # of a count that is sent as text
MIN_REPEATED = 20  # characters of an explanation: a shorter one may be anybody's words
_EXAMPLE = re.compile(r'"\w{1,50}"\s*:\s*"([^"]+)"')  # a text of the JSON that instructions show
_PLACEHOLDERS = ('"..."', '"...?"')  # in the JSON that instructions show
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")
STATUS_DIGITS = 3
# What providers put before the JSON of a response to keep the connection alive.
_BEFORE_BODY = re.compile(r"(?:[\s\ufeff]|:[^\n]*\n|//[^\n]*\n|#[^\n]*\n)*")
_PROMPT_FEEDBACK = ("prompt_filter_results", "prompt_annotations", "promptFeedback", "prompt_feedback")
_ERRORS = ("error", "errors", "base_resp")  # the names of an error; where there is none, it is the body
_SAID = ("message", "msg", "error_msg", "detail")
_REASONING_BLOCKS = ("thinking_blocks", "reasoning_details", "reasoning", "thinking")
# Where a choice may say why it ended. The first counts, unless it hides what another says.
_FINISH_REASONS = ("finish_reason", "native_finish_reason", "finishReason", "stop_reason", "done_reason")

MAX_SENTENCE = 300  # characters of an error in plain text
_SAID_IN_PLAIN_TEXT = (AuthFailed, NoCredit, NotFound, RateLimited)
Shape = TypeVar("Shape", bound=BaseModel)
Check = Callable[[str], None]  # raises BrokenReply to refuse a text


def body_of(text: str) -> Any:
    """The JSON in the text of a response, after a byte order mark and lines of comments.

    Raises ValueError, BrokenReply for a key that is there twice, StreamsOnly for a stream that
    nobody asked for, and OtherService for a page.
    """
    start = _BEFORE_BODY.match(text)
    rest = text
    if start:
        rest = text[start.end() :]
    if rest.startswith(("data:", "event:", "id:", "retry:")):
        raise StreamsOnly(ONLY_STREAMS)
    if rest.startswith("<"):
        raise OtherService(page_title(rest))
    # Raw control characters stand for themselves.
    return json.loads(rest, strict=False, object_pairs_hook=reject_duplicate_keys)


def billed(error: LLMError, text: str) -> LLMError:
    """The error of a response that cannot be read, with an upper estimate of its cost.

    A model wrote what is in a completion, whatever became of it on its way.
    """
    if '"choices"' in text or '"chat.completion"' in text:
        error.reply = Reply("", usage=Usage(tokens_out=most_tokens([text])))
    return error


def read_completion(
    body: Any, status: int, api_key: str = NO_KEY, settings: ModelSettings | None = None
) -> Reply | LLMError:
    """Read a chat completion.

    Returns its reply, whose ending may be unknown; or the error that its ending stands for, or that
    is in its place. The key, which an endpoint may repeat, is removed. Raises ValueError if the
    body is not a completion.
    """
    try:
        reply = classified(_without_key(_parse_reply(body), api_key), settings)
    except ValueError as failure:
        unread = Reply("", usage=_usage(body))
        if blocked := _blocked_prompt(body):
            return ContentFiltered(clean(blocked, api_key), http_status=status, reply=unread)
        billed_reply = None
        if unread.usage.tokens_in or unread.usage.tokens_out:
            billed_reply = unread
        if error := _error_in(body):
            return read_error(error, api_key, billed_reply)
        if protocol := _other_protocol(body):
            return OtherService(f"It speaks {protocol}.", http_status=status, reply=billed_reply)
        if billed_reply is None:
            raise
        return BrokenReply(f"This completion cannot be read: {failure}.", http_status=status, reply=unread)
    choice = body["choices"][0]
    if error := _error_in(choice) or _error_in(body):
        return read_error(error, api_key, reply)
    named = f"The endpoint says: {reply.finish_reason or NO_ENDING}."
    match reply.ending:
        case Ending.FILTERED:
            return ContentFiltered(named, http_status=status, reply=reply)
        case Ending.FAILED:
            return ServerError(named, http_status=status, reply=reply)
        case Ending.TOOL_CALL:
            called = "The model called a tool instead of answering with text."
            return BrokenReply(called, http_status=status, reply=reply)
    return reply


def _other_protocol(body: Any) -> str:
    """The protocol of a body that is a good reply, but no chat completion; "" if none is known."""
    if not isinstance(body, dict):
        return ""
    match body:
        case {"object": "response", "output": _}:
            return "OpenAI's Responses API"
        case {"type": "message", "content": _}:
            return "Anthropic's Messages API"
        case {"candidates": _}:
            return "Gemini's own API"
        case {"done": _, "message": _} | {"done": _, "response": _}:
            return "Ollama's own API"
        case {"choices": [{"text": _}, *_]}:
            return "the older text completions"
        case {"generated_text": _}:
            return "TGI's own API"
        case {"object": "list", "data": _}:
            return "lists of models"
    return ""


def classified(reply: Reply, settings: ModelSettings | None) -> Reply:
    """A reply with what its ending means at an endpoint, and its reasoning split off."""
    start, end, endings = "", "", None
    if settings:
        start, end, endings = settings.reasoning_start, settings.reasoning_end, settings.endings
    text, reasoning = split_reasoning(reply.text, start, end)
    return replace(
        reply,
        text=text,
        reasoning="\n\n".join(filter(None, [reply.reasoning, reasoning])),
        ending=ending_of(reply.finish_reason, endings),
    )


_STATES = ("code", "error_code", "status", "type", "object", "success")


def _error_in(value: Any) -> Any:
    """The error object in the place of a reply, or beside one."""
    if not isinstance(value, dict):
        return None
    names: Sequence[str] = _ERRORS
    if value.get("choices"):
        names = _ERRORS[:1]
    error = _first_true(value, names)
    if error is None and not value.get("choices"):
        says_something = any(isinstance(value.get(name), str) for name in _SAID)
        if says_something and not value.keys().isdisjoint(_STATES):
            error = value
    if isinstance(error, list):
        error = error[0]
    if isinstance(error, dict):
        # An error without a word is none.
        if any(error.values()):
            return error
        return None
    # `true`: what is wrong stands beside it.
    if error and not isinstance(error, str):
        return value
    return error


def _first_true(value: Mapping[Any, Any], names: Iterable[str]) -> Any:
    """The first value under these names that is true; None if there is none."""
    for name in names:
        if value.get(name):
            return value[name]
    return None


def read_error(error: Any, api_key: str, reply: Reply | None = None) -> LLMError:
    """The named error for an error object that came with no status, or with status 200."""
    code = None
    if isinstance(error, dict):
        code = error.get("code")
    number = 0
    if isinstance(code, (int, str)) and str(code).isdecimal() and len(str(code)) == STATUS_DIGITS:
        number = int(code)
    if number not in range(400, 600):
        number = 0
    named = model_error(status_error(number, error, code, api_key), number)
    named.reply = reply
    return named


def sentence_error(text: str, api_key: str) -> LLMError | None:
    """The named error that a gateway says in plain text, with status 200; None for other texts.

    Only what no repetition cures, or cures soon: the text may be a part of an answer.
    """
    if len(text) > MAX_SENTENCE or text.lstrip().startswith(("{", "[", '"')):
        return None
    named = read_error(text, api_key)
    if isinstance(named, _SAID_IN_PLAIN_TEXT):
        return named
    return None


def _blocked_prompt(body: Any) -> str:
    """What a filter said of a prompt that it blocked, in a body without choices; "" if none did."""
    if not isinstance(body, dict) or body.get("choices"):
        return ""
    feedback = _first_true(body, _PROMPT_FEEDBACK)
    text = ""
    if feedback:
        text = json.dumps(feedback, ensure_ascii=False)
    if '"filtered": false' in text and '"filtered": true' not in text:
        return ""
    return text


def read_embeddings(body: Any, count: int, status: int, api_key: str) -> Reply | LLMError:
    """Read an embeddings response: its vectors, or BrokenReply. The key is removed from its names.

    Raises ValueError for other bodies.
    """
    match body:
        case {"data": [*entries]} if all(isinstance(entry, dict) for entry in entries):
            pass
        case _:
            raise ValueError("no data")
    reply = Reply(
        text="",
        model=_text(body.get("model")),
        simulated=body.get("system_fingerprint") == SIMULATOR_FINGERPRINT,
        fingerprint=_text(body.get("system_fingerprint")),
        usage=replace(_usage(body), tokens_out=0),
    )
    reply = _without_key(reply, api_key)
    places = [entry.get("index", place) for place, entry in enumerate(entries)]
    try:
        if set(places) != set(range(count)) or len(places) != count:
            raise BrokenReply(
                f"{len(places)} vectors were returned for {count} texts, or their numbers are not those of the texts."
            )
        by_place = dict(zip(places, entries, strict=True))
        vectors = [by_place[place].get("embedding") for place in range(count)]
        return replace(reply, text=format_vectors(vectors))
    except TypeError:  # an index that is not a number
        raise ValueError("no index") from None
    except BrokenReply as error:
        return BrokenReply(error.detail, http_status=status, reply=reply)


def _without_key(reply: Reply, api_key: str) -> Reply:
    """The reply without the key; what stands beside the text is cut only then, to its columns."""
    secret = NO_KEY
    if len(api_key) >= MIN_SECRET:
        secret = api_key
        reply = replace(reply, text=reply.text.replace(secret, "***"), reasoning=reply.reasoning.replace(secret, "***"))
    return replace(
        reply,
        model=clean(reply.model, secret)[:MAX_NAME],
        fingerprint=clean(reply.fingerprint, secret)[:MAX_NAME],
        finish_reason=clean(reply.finish_reason, secret)[:MAX_REASON],
    )


def _parse_reply(body: Any) -> Reply:
    """Read the reply in a chat completion. Raises ValueError for other bodies."""
    match body:
        case {"choices": [{**choice}, *others]}:
            for other in others:
                if isinstance(other, dict) and other.get("index") == 0:
                    choice = other
                    break
        case _:
            raise ValueError("no choices")
    finish_reason = _finish_reason(choice)
    message = choice.get("message")
    if not isinstance(message, dict):
        if ending_of(finish_reason) in (Ending.COMPLETE, Ending.UNKNOWN) and not _error_in(choice):
            raise ValueError("no message")
        message = {}
    content, refused = message.get("content"), bool(message.get("refusal"))
    if content is None:
        content = message.get("refusal") or ""
    from_parts = ""
    if isinstance(content, list):
        refused = refused or any(isinstance(part, dict) and part.get("type") == "refusal" for part in content)
        content, from_parts = _join_parts(content)
    if not isinstance(content, str):
        raise ValueError("the content is not text")
    reasoning = [storable(_separate_reasoning(message)), storable(from_parts)]
    called = message.get("tool_calls") or message.get("function_call")
    if refused and ending_of(finish_reason) is not Ending.FILTERED:
        finish_reason = REFUSED
    elif called and ending_of(finish_reason) is Ending.COMPLETE:
        finish_reason = "tool_calls"
    return Reply(
        text=storable(content),
        reasoning="\n\n".join(filter(None, reasoning)),
        finish_reason=finish_reason,
        model=_text(body.get("model")),
        simulated=body.get("system_fingerprint") == SIMULATOR_FINGERPRINT,
        fingerprint=_text(body.get("system_fingerprint")),
        usage=_usage(body),
    )


def _separate_reasoning(message: Mapping[Any, Any]) -> str:
    """The reasoning in a field of its own: a text, or blocks of it."""
    for name in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(message.get(name), str) and message[name]:
            return str(message[name])
    for name in _REASONING_BLOCKS:
        if isinstance(message.get(name), list):
            blocks = [{**block, "type": "thinking"} for block in message[name] if isinstance(block, dict)]
            _answer, reasoning = _join_parts(blocks)
            return reasoning
    return ""


def _finish_reason(choice: Mapping[Any, Any]) -> str:
    """The finish reason of a choice; a proxy's translation gives way to what it hides."""
    reasons = list(filter(None, map(_reason, map(choice.get, _FINISH_REASONS))))
    if not reasons:
        return ""
    if ending_of(reasons[0]) in (Ending.UNKNOWN, Ending.COMPLETE):
        for reason in reasons:
            if ending_of(reason) not in (Ending.UNKNOWN, Ending.COMPLETE):
                return reason
    return reasons[0]


def _reason(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("type", value)
    if value is None:
        return ""
    if not isinstance(value, str):
        value = json.dumps(value)
    return _text(value)


def _join_parts(content: Sequence[Any]) -> tuple[str, str]:
    """Join content parts into (text, reasoning); parts without text are left out."""
    texts, reasoning = [], []
    for part in content:
        if not isinstance(part, dict):
            texts.append(_part_text(part))
        elif part.get("thought") is True or str(part.get("type")).startswith(("thinking", "reasoning", "thought")):
            names = ("thinking", "reasoning", "text", "content", "summary", str(part.get("type")))
            reasoning.append(_first_text(part, names))
        else:
            texts.append(_first_text(part, ("text", "refusal", "content")))
    return "".join(texts), "\n\n".join(filter(None, reasoning))


def _first_text(part: Mapping[Any, Any], names: Iterable[str]) -> str:
    for name in names:
        if text := _part_text(part.get(name)):
            return text
    return ""


def _part_text(value: Any) -> str:
    """The text in the value of a part: itself, within an object, or a list of them."""
    if isinstance(value, dict):
        value = value.get("text") or value.get("value")
    if isinstance(value, list):
        return "".join(_part_text(inner) for inner in value if isinstance(inner, (dict, str)))
    if isinstance(value, str):
        return value
    return ""


# The names under which endpoints report tokens, as `plain` spells them. The first that is a number
# counts; some are within an object of details.
_TOKENS_IN = ("prompttokens", "inputtokens", "prompttokencount", "promptevalcount")
_TOKENS_OUT = ("completiontokens", "outputtokens", "candidatestokencount", "generatedtokens", "evalcount")
_CACHED = ("cachedtokens", "promptcachehittokens", "cachedcontenttokencount", "cachedprompttokens", "numcachedtokens")
_WRITTEN = ("cachecreationinputtokens", "cachecreationtokens", "cachewritetokens")
_REASONING = ("reasoningtokens", "thoughtstokencount")
_TOTAL = ("totaltokens", "totaltokencount")
_USAGES = (("usage",), ("usageMetadata",), ("x_groq", "usage"), ("meta", "billed_units"), ())  # (): the body itself


def _usage(body: Any) -> Usage:
    """The usage that a body reports, in whatever form; 0 for what is missing or nonsense."""
    counts: dict[str, int] = {}
    for path in _USAGES:
        place = body
        for name in path:
            if isinstance(place, dict):
                place = place.get(name)
            else:
                place = None
        counts = counts or _counts(place)
    tokens_in = _first_count(counts, _TOKENS_IN)
    tokens_out = _first_count(counts, _TOKENS_OUT)
    cached, reasoning = _first_count(counts, _CACHED), _first_count(counts, _REASONING)
    total, written = _first_count(counts, _TOTAL), _first_count(counts, _WRITTEN)
    # In Anthropic's form, tokens of the cache come on top.
    read, created = counts.get("cachereadinputtokens", 0), counts.get("cachecreationinputtokens", 0)
    if not cached and (read or created):
        cached = read
        if "prompttokens" not in counts:
            tokens_in += read + created
    cached = min(cached, tokens_in)
    # Some leave reasoning out of what they call completion, but not out of the total.
    if tokens_in and total > tokens_in:
        tokens_out = max(tokens_out, total - tokens_in)
    if tokens_out and reasoning > tokens_out:
        tokens_out += reasoning
    return Usage(tokens_in, tokens_out, cached, reasoning, tokens_written=min(written, tokens_in - cached))


def _first_count(counts: Mapping[str, int], names: Iterable[str]) -> int:
    for name in names:
        if name in counts:
            return counts[name]
    return 0


def _counts(usage: Any) -> dict[str, int]:
    """The counts of tokens in a usage and its details, by their plain names."""
    counts: dict[str, int] = {}
    if not isinstance(usage, dict):
        return counts
    for name, value in usage.items():
        if isinstance(value, dict) and "details" in name:
            counts = {**_counts(value), **counts}
        elif count := _count(value):
            counts[plain(name)] = count
    return counts


def _text(value: Any) -> str:
    if isinstance(value, str):
        return storable(value)
    return ""


def _count(value: Any) -> int:
    """A count of at most `MAX_TOKENS`, also as a float, which is rounded up, or as text; else 0."""
    if isinstance(value, str) and len(value) <= MAX_DIGITS and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    is_count = type(value) in (int, float) and 0 < value <= MAX_TOKENS
    if is_count:
        return math.ceil(float(value))
    return 0


def read_shape(reply: Reply, shape: type[Shape]) -> Shape:
    """Parse the reply as a value of type `shape`.

    Raises BrokenReply with a reason for the model.
    """
    try:
        value = extract_json(_shaped_text(reply))
        # From JSON, for which strict mode still accepts strings as enum members and lists as
        # tuples.
        return shape.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        problems = []
        for problem in error.errors(include_url=False, include_input=False)[:5]:
            place = ".".join(map(str, problem["loc"])) or "the object"
            problems.append(f"{place}: {problem['msg']}")
        raise BrokenReply("The JSON does not have the requested shape: " + "; ".join(problems) + ".") from None
    except BrokenReply as error:
        if reply.ending == Ending.CUT_OFF:
            raise BrokenReply(f"{error.detail} It was cut off at the token limit: be shorter.") from None
        raise


def _shaped_text(reply: Reply) -> str:
    """The text that a schema shaped: the reply, or what its server took for the reasoning.

    vLLM and SGLang put the whole reply there if the model was told not to think.
    """
    reasoning = reply.reasoning.strip()
    is_misplaced = not has_visible_text(reply.text) and reply.ending is Ending.COMPLETE
    if is_misplaced and reasoning.startswith("{") and reasoning.endswith("}"):
        return reasoning
    return reply.text


def check_not_empty(reply: Reply) -> None:
    """Raise BrokenReply for an empty reply."""
    if not has_visible_text(reply.text):
        raise BrokenReply("The reply is empty.")


def check_whole(reply: Reply) -> Reply:
    """Return the reply unless it was cut off at its token limit: half of a text is none.

    Raises BrokenReply, with the reply.
    """
    if reply.ending == Ending.CUT_OFF:
        raise BrokenReply("The reply was cut off at the token limit.", reply=reply)
    return reply


def check_reply(reply: Reply, check: Check | None) -> Reply:
    """Return the reply if `check` accepts its text.

    Raises BrokenReply, with the reply, otherwise.
    """
    try:
        if check is not None:
            check(reply.text)
    except BrokenReply as error:
        error.reply = reply
        raise
    return reply


def check_explained(request: Request, explanations: Iterable[str]) -> None:
    """Raise BrokenReply if an explanation is the example of the request's instructions.

    Small models repeat it, so that their verdict has no reason. The instructions' other words may
    be a reason: 'The response declines to answer.'
    """
    instructions = " ".join(message.text for message in request.messages if message.role == "system")
    examples = [_in_plain_letters(example) for example in _EXAMPLE.findall(instructions)]
    for text in explanations:
        explanation = _in_plain_letters(text)
        if len(explanation) >= MIN_REPEATED and any(explanation in example for example in examples):
            raise BrokenReply("The explanation repeats the instructions. Say in your own words why.")


def check_filled_in(request: Request, value: BaseModel) -> None:
    """Raise BrokenReply if a text of a reply is a placeholder of the request's example.

    Small models copy it. Where the data has the same text, it may be theirs.
    """
    written = value.model_dump_json()
    copied = [placeholder for placeholder in _PLACEHOLDERS if placeholder in written]
    if not copied:
        return
    instructions = " ".join(message.text for message in request.messages if message.role == "system")
    data = " ".join(message.text for message in request.messages if message.role != "system")
    for placeholder in copied:
        if placeholder in instructions and placeholder not in data:
            raise BrokenReply(f"The text {placeholder} stands in the instructions for your own words: write them.")


def _in_plain_letters(text: str) -> str:
    """A text in small letters, with single spaces and without the full stop at its end."""
    return " ".join(text.casefold().split()).rstrip(".")
