"""What can go wrong in evaluation."""

from review.errors import ShownError


class EvaluationError(ShownError):
    """The work could not continue."""


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
