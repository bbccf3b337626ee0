"""What can go wrong in evaluation. The docstring is the message; `status` is the HTTP status for pages and API alike."""

from typing import ClassVar

from django.utils.translation import gettext as _


class EvaluationError(Exception):
    """The work could not go on."""

    status: ClassVar[int] = 400
    permanent: ClassVar[bool] = True

    def __init__(self, detail: str = "") -> None:
        self.detail = detail
        super().__init__(f"{self.message} {detail}".strip())

    @property
    def message(self) -> str:
        """The docstring, in the reader's language."""
        return _((type(self).__doc__ or "").strip())


class UnknownRun(EvaluationError):
    """There is no run of this number."""

    status = 404


class NoEndpoints(EvaluationError):
    """A run needs at least one endpoint to put to the test."""

    status = 422


class NotPerSample(EvaluationError):
    """This benchmark's judge decides one rubric at a time."""

    status = 422


class JudgeNeeded(EvaluationError):
    """This benchmark's answers are decided by a judge: name one."""

    status = 422


class NoJudgeNeeded(EvaluationError):
    """This benchmark's answers are read by code: it takes no judge."""

    status = 422


class UnknownDataSet(EvaluationError):
    """This release has no such data set."""

    status = 422


class RunOver(EvaluationError):
    """This run is over."""

    status = 409


class NoBatches(EvaluationError):
    """None of these endpoints offers batches."""

    status = 422
