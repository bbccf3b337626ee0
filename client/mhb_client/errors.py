"""Every error of the client; those of the site by their status."""

from mhb_client.shapes import JobState, Problem


class MHBError(Exception):
    """Any error of this client."""


class ConnectionLost(MHBError):
    """The site could not be reached, or did not finish its answer."""


class Damaged(MHBError):
    """A release did not arrive as it was frozen."""


class TooLate(MHBError):
    """A job has not ended within the time that the caller allowed; it goes on."""


class JobStopped(MHBError):
    """A job is paused or cancelled; `state` is the job as the site last showed it."""

    def __init__(self, state: JobState) -> None:
        self.state = state
        reasons = (state["paused_because"], state["paused_detail"], state["advice"])
        super().__init__(": ".join([f"Job {state['id']} is {state['status']}", *filter(None, reasons)]))


class ProblemError(MHBError):
    """The site refused a request; `problem` has its own words, `retry_after` seconds if it named any."""

    def __init__(self, problem: Problem, retry_after: float | None = None) -> None:
        self.problem = problem
        self.retry_after = retry_after
        words = [problem["title"], problem.get("detail", "")]
        for fault in [*problem.get("errors", []), *problem.get("problems", [])]:
            if isinstance(fault, dict):
                parts = (fault.get("field"), fault.get("detail") or fault.get("code"))
                words.append(": ".join(map(str, filter(None, parts))))
        super().__init__(f"{problem['status']} " + "; ".join(filter(None, words)))

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem["status"]

    @property
    def type(self) -> str:
        """The kind of problem, such as `urn:mhb:key-reused`."""
        return self.problem["type"]


class Invalid(ProblemError):
    """400: fields of the request are wrong."""


class Unauthorised(ProblemError):
    """401: no token, or one that has expired."""


class Forbidden(ProblemError):
    """403: the account of the token may not do this."""


class NotFound(ProblemError):
    """404: there is no such thing, or not for this account."""


class Conflict(ProblemError):
    """409: the state of things does not allow it, or the key belongs to another launch."""


class Unprocessable(ProblemError):
    """422: the request is well formed, but does not make sense."""


class TooManyRequests(ProblemError):
    """429: wait for `retry_after` seconds."""


class ServerFailed(ProblemError):
    """5xx: a fault of the site or of a proxy before it."""


class Busy(ServerFailed):
    """503: the database is busy, or a worker still counts the report."""


KINDS: dict[int, type[ProblemError]] = {
    400: Invalid,
    401: Unauthorised,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: Unprocessable,
    429: TooManyRequests,
    503: Busy,
}


def of_problem(problem: Problem, retry_after: float | None) -> ProblemError:
    """The error of a problem."""
    usual = ProblemError
    if problem["status"] >= 500:
        usual = ServerFailed
    return KINDS.get(problem["status"], usual)(problem, retry_after)
