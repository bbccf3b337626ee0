"""The endpoint test: whether a model answers, how fast, and which output format it accepts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from generation.llm.batch_protocol import BatchClient
from generation.llm.errors import AuthFailed, BadRequest, BrokenReply, LaneOver, LLMError
from generation.llm.gateway import Gateway
from generation.llm.http.access import Access
from generation.llm.http.limits import context_length
from generation.llm.ledger_interface import Ledger
from generation.llm.request_body import MAX_REPLY
from generation.llm.types import Attempt, Image, Message, ModelSettings, Request, Text

PROMPT = "test"  # the prompt name in the ledger
SECONDS = 30.0  # at most, as a person is waiting for the page
FIRST_LINE = "This is a test of the connection."
ANSWER = '{"answer": "heart"}'
QUESTION = 'Which organ pumps blood through the body? Reply with one JSON object: {"answer": "<one word>"}'
REQUEST = Request((Message("system", FIRST_LINE), Message("user", QUESTION)), prompt=PROMPT)
TOKENS = 2_000  # enough for a model that thinks first
RED_SQUARE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAJ0lEQVR42u3NsQkAAAjAsP7/tF7hIASyp6lT"
    "CQQCgUAgEAgEgi/BAjLD/C5w/SM9AAAAAElFTkSuQmCC"
)
SEEING = Request(
    (Message("user", (Text("Which colour has this picture? Reply with one word."), Image(RED_SQUARE))),),
    prompt=PROMPT,
    max_tokens=TOKENS,
)


class Answer(BaseModel):
    """The shape of the reply."""

    answer: str


@dataclass(frozen=True, slots=True)
class Declined:
    """Something that a model refused: the 'question', an 'image', or 'batches'; what was sent."""

    what: str
    detail: str
    sent: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of a test.

    `attempts`: all HTTP attempts at the question. `error` and `detail` are empty if the model
    answered. `usable`: the answer has the requested shape. `refused`: what it refused on the way.
    `beside`: the attempts with an image. `context`: the length of its context, if it tells it.
    """

    attempts: tuple[Attempt, ...]
    error: str = ""
    detail: str = ""
    usable: bool = False
    refused: tuple[Declined, ...] = ()
    beside: tuple[Attempt, ...] = ()
    context: int | None = None

    @property
    def output_format(self) -> str:
        """The format of the last attempt; "" if there was none.

        One of ``json_schema``, ``json_object`` and ``text``.
        """
        if not self.attempts:
            return ""
        return str(self.attempts[-1].sent.get("response_format", {}).get("type", "text"))


async def probe(
    settings: ModelSettings, *, access: Access, max_reply: int = MAX_REPLY, images: bool = False, batches: bool = False
) -> Probe:
    """Ask a model the question once, as jobs ask: with a temperature, a token limit and a schema.

    If that is refused, it is asked once more without temperature and limit. A refused output format
    is retried with the next one. `images`, `batches`: whether to try these as well.
    """
    attempts: list[Attempt] = []

    async def write(attempt: Attempt) -> None:
        attempts.append(attempt)

    async def check() -> None:
        if attempts and attempts[-1].http_status is None:  # not reached: the gateway would retry for minutes
            raise LaneOver

    test_settings = replace(settings, timeout=min(settings.timeout, SECONDS))
    full = replace(REQUEST, temperature=settings.temperature or 0.0, max_tokens=settings.max_tokens or TOKENS)
    refused: list[Declined] = []
    error: LLMError | None = None
    async with Gateway(Ledger(write, check), attempts=1, max_reply=max_reply, access=access) as gateway:
        for request in (full, REQUEST):
            error = None
            try:
                await gateway.ask_structured(test_settings, request, Answer, tries=1)
            except LLMError as failure:
                error = failure
            if not isinstance(error, BadRequest) or not attempts or attempts[-1].http_status not in (400, 422):
                break
            refused.append(Declined("question", error.detail, attempts[-1].sent))
        done = tuple(attempts)
        reachable = bool(done) and done[-1].http_status is not None and not isinstance(error, AuthFailed)
        if images and reachable:
            try:
                await gateway.ask(test_settings, SEEING)
            except LLMError as failure:
                refused.append(Declined("image", str(failure), attempts[-1].sent))
        if batches and reachable:
            try:
                await BatchClient(gateway, test_settings).rehearse(done[-1].sent, SECONDS)
            except LLMError as failure:
                refused.append(Declined("batches", str(failure), {}))
        context = await context_length(gateway, test_settings) if reachable else None
    known: dict[str, Any] = {"refused": tuple(refused), "beside": tuple(attempts[len(done) :]), "context": context}
    if error is None:
        return Probe(done, usable=True, **known)
    if (
        isinstance(error, BrokenReply)
        and done
        and not done[-1].error
        and done[-1].reply
        and done[-1].reply.text.strip()
    ):
        return Probe(done, **known)  # it answered, though not in the shape
    last = (done[-1].error, done[-1].detail) if done and done[-1].error else (error.kind, str(error))
    return Probe(done, *last, **known)
