"""The errors of calls to models. `permanent`: a retry cannot help."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generation.llm.types import Reply

MAX_DETAIL = 2_000  # characters of detail, which may quote an endpoint or a model


class LLMError(Exception):
    """The model could not be called."""

    permanent = False
    about_model = False  # an error about what the model wrote, not about what was asked
    said = ""  # by the endpoint, without what it quotes of the request; "": nothing else than the detail

    def __init_subclass__(cls, *, permanent: bool | None = None) -> None:
        if permanent is not None:
            cls.permanent = permanent

    def __init__(
        self,
        detail: str = "",
        *,
        http_status: int | None = None,
        retry_after: float | None = None,
        reply: "Reply | None" = None,
    ) -> None:
        self.detail = detail = detail[:MAX_DETAIL]
        self.reply = reply  # what came back all the same, and is billed
        self.http_status = http_status
        self.retry_after = retry_after  # seconds, as requested by the endpoint
        super().__init__(f"{(type(self).__doc__ or '').strip()} {detail}".strip())

    @property
    def summary(self) -> str:
        """The detail as pages show it to people who may not read the request."""
        return (self.said or self.detail)[:MAX_DETAIL]

    @property
    def kind(self) -> str:
        """The class name, under which the ledger counts this error."""
        return type(self).__name__


class RateLimited(LLMError):
    """The endpoint is limiting our rate (429)."""


class ServerError(LLMError):
    """The endpoint failed (5xx)."""


class TimedOut(LLMError):
    """The endpoint did not answer in time."""


class StillWriting(TimedOut, permanent=True):
    """The model was still writing when its time or its limit was over: the reply counts as cut off."""


class NotReached(LLMError):
    """Could not connect to the endpoint. Nothing was sent."""


class HostNotFound(NotReached):
    """The endpoint's host is not known. Nothing was sent."""


class NobodyListens(NotReached):
    """Nothing listens at the endpoint's address: it refuses connections. Nothing was sent."""


class TLSFailed(NotReached):
    """No secure connection to the endpoint: its certificate or its protocol is not accepted. Nothing was sent."""


class UnexpectedError(LLMError):
    """An unexpected error occurred during the call. The log has the details."""


class ConnectionCut(LLMError):
    """The connection to the endpoint was cut."""


class BadRequest(LLMError, permanent=True):
    """The endpoint refused the request (4xx)."""


class AuthFailed(LLMError, permanent=True):
    """The endpoint refused our key (401, 403)."""


class NoCredit(LLMError, permanent=True):
    """The account at the endpoint has no credit (402)."""


class NotFound(LLMError, permanent=True):
    """The endpoint does not know this model or path (404, 410), or redirects to another address."""


class StreamsOnly(NotFound, permanent=True):
    """The endpoint cannot be used: it does not answer in one piece."""


class OtherService(NotFound, permanent=True):
    """What answers at this address is no chat completions API: a page, such as a sign-in, or another protocol."""


class KeyMissing(LLMError, permanent=True):
    """The key of the endpoint is missing."""


class NotAllowed(LLMError, permanent=True):
    """The operator of this site does not allow this endpoint."""


class ContextTooLong(LLMError, permanent=True):
    """The request is longer than the model's context."""


class ContentFiltered(LLMError, permanent=True):
    """The endpoint's content filter stopped the reply."""


class BrokenReply(LLMError, permanent=True):
    """The model's reply does not have the requested form."""

    @classmethod
    def refuse(cls, faults: Iterable[str]) -> None:
        """Raise the error with all faults, in sentences for the model, if there are any."""
        if reasons := list(faults):
            raise cls(" ".join(reasons))


class UnknownEnding(LLMError, permanent=True):
    """The reply ended in a way that is not known. Decide what it means for this endpoint."""


class GivenUp(LLMError, permanent=True):
    """The worker crashed on this several times. The log shows why."""


class TooSlow(LLMError, permanent=True):
    """The model's answer could not be read in time. The log shows what was reading it."""


class Postponed(LLMError):
    """Postponed: the row goes back to the queue, and nothing is lost."""


class LaneOver(Postponed):
    """This lane stops; another one continues."""


class CutShort(LaneOver):
    """This lane stops during a retry; another one continues with the remaining attempts."""


class PausedTooLong(Postponed):
    """The endpoint asked for a long pause before the next call."""


class EndpointDown(Postponed):
    """All calls to the endpoint fail. No more are made until someone resumes the job."""


class BudgetSpent(Postponed):
    """The budget of this batch or run is used up."""


class BatchRefused(LLMError, permanent=True):
    """The endpoint refused a batch of requests as a whole."""


class BatchLost(LLMError, permanent=True):
    """The endpoint no longer knows this batch, or has lost its results."""


# The same for every request to the endpoint, and waiting does not help: it is stopped at once.
STOPPING_ERRORS = (KeyMissing, NotAllowed, HostNotFound, TLSFailed, StreamsOnly, OtherService)


def in_words(kind: str, detail: str = "", *, translate: Callable[[str], str] = str) -> str:
    """The sentence of the error of this class name, then its detail; of another error the detail.

    The ledger keeps the class name. A detail may begin with the sentence: it is said once.
    """
    error = globals().get(kind)
    if not (isinstance(error, type) and issubclass(error, LLMError)):
        return detail or kind
    sentence = " ".join((error.__doc__ or "").split())
    return f"{translate(sentence)} {detail.removeprefix(sentence).strip()}".strip()
