"""What can go wrong in evaluation."""

from review.errors import ShownError


class EvaluationError(ShownError):
    """The work could not continue."""


class UnknownRun(EvaluationError, status=404):
    """There is no run with this number."""


class StillCounting(EvaluationError, status=503):
    """A worker is counting the verdicts of this run. Try again in a few seconds."""


class NoEndpoints(EvaluationError, status=422):
    """A run needs at least one endpoint to test."""


class NotPerSample(EvaluationError, status=422):
    """This benchmark's judge can only decide one rubric per call."""


class JudgeNeeded(EvaluationError, status=422):
    """This benchmark needs a judge. Choose one."""


class NoJudgeNeeded(EvaluationError, status=422):
    """This benchmark does not use a judge: code reads the responses."""


class EscalationNeedsThree(EvaluationError, status=422):
    """Escalation needs three judges: two that judge everything, and a third of another model family. If a model's name
    does not show its family, set it on the endpoint."""


class TooManyRepeats(EvaluationError, status=422):
    """Choose from 1 to 20 answers per question and judgments per criterion, and at most 9 judges."""


class NoPanelInBatches(EvaluationError, status=422):
    """Provider batches support one judge with one judgment per criterion. Send the requests live instead."""


class UnknownDataSet(EvaluationError, status=422):
    """This release does not contain this data set."""


class UnknownPolicy(EvaluationError, status=422):
    """This benchmark does not use this fixed text."""


class ChainWithoutStart(EvaluationError, status=422):
    """Some of these data sets build on the answers to others. Choose those as well."""


class NoBatches(EvaluationError, status=422):
    """None of these endpoints supports provider batches."""


class InvalidPlan(EvaluationError, status=422):
    """The analysis plan does not fit this run."""


class WrongWeights(EvaluationError, status=422):
    """These weights cannot be used."""


class RunNotFinished(EvaluationError, status=409):
    """The run has not finished yet. Wait until it has."""


class NothingToValidate(EvaluationError, status=422):
    """No judge decided anything in this run, so there is nothing for physicians to check."""


class AlreadyValidated(EvaluationError, status=409):
    """The judge is already being validated on every model of this run. No more responses of the same models can be
    drawn: the sample size must not depend on the first results."""


class WrongAmount(EvaluationError, status=422):
    """Write a number of responses, or a share such as 10%."""


class SampleTooSmall(EvaluationError, status=422):
    """Draw at least one response from each stratum: model, data set, and whether the judge found a failure."""


class ImportedRun(EvaluationError, status=409):
    """This run was imported. Its models cannot be called."""


class ModelAlreadyTested(EvaluationError, status=409):
    """This model is already in the run."""


class NothingToTry(EvaluationError, status=422):
    """This cannot be tried."""


class NotTested(EvaluationError, status=404):
    """This model is not in the run."""


class LastModel(EvaluationError, status=409):
    """No other model would remain in the run. Cancel the run instead."""


class WrongResults(EvaluationError, status=422):
    """This file cannot be imported as results."""


class NoCriteria(EvaluationError, status=422):
    """This benchmark has no criteria that are met or not met: code reads its answers. Only verdicts on criteria can be
    imported."""


class OtherRelease(EvaluationError, status=422):
    """These results belong to another release: the checksums differ."""


class OtherBenchmarks(EvaluationError, status=422):
    """These runs belong to different benchmarks. Only runs of one benchmark can be compared."""


class SameRun(EvaluationError, status=422):
    """A run cannot be compared with itself. Choose another run of the same benchmark."""


class WrongBundle(EvaluationError, status=422):
    """This is not a readable run bundle."""


class ReleaseMissing(EvaluationError, status=409):
    """This site does not have the release of this bundle."""


class OtherCoverage(EvaluationError, status=409):
    """Incomplete results are published with their coverage as it is now."""


class NotIncomplete(EvaluationError, status=422):
    """There are no incomplete results of this model in this run to publish."""


class NotPublished(EvaluationError, status=409):
    """The results of this release are not published."""
