"""What can go wrong in evaluation. The docstring is the message; `status` is the HTTP status for pages and API alike."""

from typing import ClassVar

from django.utils.translation import gettext as _


class EvaluationError(Exception):
    """The work could not continue."""

    status: ClassVar[int] = 400
    permanent: ClassVar[bool] = True

    def __init__(self, detail: str = "") -> None:
        self.detail = detail
        super().__init__(f"{self.message} {detail}".strip())

    @property
    def message(self) -> str:
        """The docstring, in the reader's language."""
        words = (type(self).__doc__ or "").split()  # a docstring may be broken into lines
        message = " ".join(words)
        return _(message)


class UnknownRun(EvaluationError):
    """There is no run with this number."""

    status = 404


class NoEndpoints(EvaluationError):
    """A run needs at least one endpoint to test."""

    status = 422


class NotPerSample(EvaluationError):
    """This benchmark's judge can only decide one rubric per call."""

    status = 422


class JudgeNeeded(EvaluationError):
    """This benchmark needs a judge. Choose one."""

    status = 422


class NoJudgeNeeded(EvaluationError):
    """This benchmark does not use a judge: code reads the responses."""

    status = 422


class UnknownDataSet(EvaluationError):
    """This release does not contain this data set."""

    status = 422


class NoBatches(EvaluationError):
    """None of these endpoints supports provider batches."""

    status = 422
