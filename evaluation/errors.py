"""What can go wrong in evaluation."""

from review.errors import ShownError


class EvaluationError(ShownError):
    """The work could not continue."""


class UnknownRun(EvaluationError, status=404):
    """There is no run with this number."""


class NoEndpoints(EvaluationError, status=422):
    """A run needs at least one endpoint to test."""


class NotPerSample(EvaluationError, status=422):
    """This benchmark's judge can only decide one rubric per call."""


class JudgeNeeded(EvaluationError, status=422):
    """This benchmark needs a judge. Choose one."""


class NoJudgeNeeded(EvaluationError, status=422):
    """This benchmark does not use a judge: code reads the responses."""


class UnknownDataSet(EvaluationError, status=422):
    """This release does not contain this data set."""


class NoBatches(EvaluationError, status=422):
    """None of these endpoints supports provider batches."""


class NotPublished(EvaluationError, status=409):
    """The results of this release are not published."""
