"""The endpoint test: whether a model answers, how fast, and which output format it accepts."""

from dataclasses import dataclass, replace

from pydantic import BaseModel

from generation.llm.errors import BrokenReply, LaneOver, LLMError
from generation.llm.gateway import Gateway
from generation.llm.http.access import Access
from generation.llm.ledger_interface import Ledger
from generation.llm.request_body import MAX_REPLY
from generation.llm.types import Attempt, Message, ModelSettings, Request

PROMPT = "test"  # the prompt name in the ledger
SECONDS = 30.0  # at most, as a person is waiting for the page
FIRST_LINE = "This is a test of the connection."
ANSWER = '{"answer": "heart"}'
QUESTION = 'Which organ pumps blood through the body? Reply with one JSON object: {"answer": "<one word>"}'


class Answer(BaseModel):
    """The shape of the reply."""

    answer: str


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of a test.

    `attempts`: all HTTP attempts. `error` and `detail` are empty if the model answered. `usable`:
    the answer has the requested shape.
    """

    attempts: tuple[Attempt, ...]
    error: str = ""
    detail: str = ""
    usable: bool = False

    @property
    def output_format(self) -> str:
        """The format of the last attempt; "" if there was none.

        One of ``json_schema``, ``json_object`` and ``text``.
        """
        if not self.attempts:
            return ""
        return str(self.attempts[-1].sent.get("response_format", {}).get("type", "text"))


async def probe(settings: ModelSettings, *, access: Access, max_reply: int = MAX_REPLY) -> Probe:
    """Ask a model the question once; only a refused output format is retried, with the next one."""
    attempts: list[Attempt] = []

    async def write(attempt: Attempt) -> None:
        attempts.append(attempt)

    async def check() -> None:
        if attempts and attempts[-1].http_status is None:  # not reached: the gateway would retry for minutes
            raise LaneOver

    test_settings = replace(settings, timeout=min(settings.timeout, SECONDS))
    request = Request((Message("system", FIRST_LINE), Message("user", QUESTION)), prompt=PROMPT)
    error: LLMError | None = None
    async with Gateway(Ledger(write, check), attempts=1, max_reply=max_reply, access=access) as gateway:
        try:
            await gateway.ask_structured(test_settings, request, Answer, tries=1)
        except LLMError as failure:
            error = failure
    done = tuple(attempts)
    if error is None:
        return Probe(done, usable=True)
    if (
        isinstance(error, BrokenReply)
        and done
        and not done[-1].error
        and done[-1].reply
        and done[-1].reply.text.strip()
    ):
        return Probe(done)  # it answered, though not in the shape
    if done and done[-1].error:
        return Probe(done, done[-1].error, done[-1].detail)
    return Probe(done, error.kind, str(error))
