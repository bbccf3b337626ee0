"""What can go wrong between us and a model. `permanent` says that asking again cannot help."""

from generation.llm.types import Reply

MAX_DETAIL = 2_000  # characters: what an endpoint or a model said may be quoted in it


class LLMError(Exception):
    """The model could not be asked."""

    permanent = False
    reply: Reply | None = None  # the one that was refused (BrokenReply) or stopped (ContentFiltered)

    def __init__(self, detail: str = "", *, http_status: int | None = None, retry_after: float | None = None) -> None:
        self.detail = detail = detail[:MAX_DETAIL]
        self.http_status = http_status
        self.retry_after = retry_after  # seconds, as the endpoint asked for
        super().__init__(f"{(type(self).__doc__ or '').strip()} {detail}".strip())

    @property
    def kind(self) -> str:
        """The name under which the ledger counts this error."""
        return type(self).__name__


class RateLimited(LLMError):
    """The endpoint is limiting our rate (429)."""


class ServerError(LLMError):
    """The endpoint failed (5xx)."""


class TimedOut(LLMError):
    """The endpoint did not answer in time."""


class NotReached(LLMError):
    """No connection to the endpoint could be made: nothing was sent."""


class UnexpectedError(LLMError):
    """Something failed here while the endpoint was asked; the log says where."""


class ConnectionCut(LLMError):
    """The connection to the endpoint was cut."""


class BadRequest(LLMError):
    """The endpoint refused the request (4xx)."""

    permanent = True


class AuthFailed(LLMError):
    """The endpoint refused our key (401, 403)."""

    permanent = True


class NoCredit(LLMError):
    """The endpoint wants to be paid first (402)."""

    permanent = True


class NotThere(LLMError):
    """The endpoint knows no such model or path (404, 410), or sends us elsewhere (a redirect)."""

    permanent = True


class KeyMissing(LLMError):
    """The environment variable that should hold the endpoint's key is not set."""

    permanent = True


class NotAllowed(LLMError):
    """The operator of this site does not allow this endpoint."""

    permanent = True


class ContextTooLong(LLMError):
    """The request is longer than the model's context."""

    permanent = True


class ContentFiltered(LLMError):
    """The endpoint's content filter stopped the reply."""

    permanent = True


class BrokenReply(LLMError):
    """The model's reply is not what was asked for."""

    permanent = True


class GivenUp(LLMError):
    """The worker died with this again and again; the log says of what."""

    permanent = True


class Postponed(LLMError):
    """This was put off: the row goes back to the queue, and nothing is lost."""


class LaneOver(Postponed):
    """The lane stops here; another one goes on."""


class CutShort(LaneOver):
    """The lane stops here while a call is tried again; another one goes on with what is left of its attempts."""


class Away(Postponed):
    """The endpoint asked us to come back much later."""


class EndpointDown(Postponed):
    """The endpoint only fails; it is not asked any more until somebody resumes the job."""


class BudgetSpent(Postponed):
    """The budget of this batch or run is used up."""


class BatchRefused(LLMError):
    """The endpoint refused a batch of requests as a whole."""

    permanent = True


class BatchLost(LLMError):
    """The endpoint does not know this batch any more, or has lost its results."""

    permanent = True
