"""What can go wrong in generation."""

from review.errors import DiskFull as DiskFull  # ends work here, too
from review.errors import ShownError


class GenerationError(ShownError):
    """The work could not continue."""


class UnknownBenchmark(GenerationError, status=404):
    """There is no benchmark with this name."""


class UnknownRecords(GenerationError, status=404):
    """The source has no record with this ID."""


class NotErasable(GenerationError, status=409):
    """This cannot be deleted."""


class InProgress(GenerationError, status=409):
    """Work on it is in progress. Cancel it, or wait until it ends."""


class Archived(GenerationError, status=409):
    """This source is archived. Restore it first."""


class NeedsOperator(GenerationError, status=409):
    """This has to be deleted on the server, by the role that owns the tables."""


class UnknownSource(GenerationError, status=404):
    """There is no source with this name."""


class UnknownEndpoint(GenerationError, status=404):
    """There is no endpoint with this name."""


class EndpointUsed(GenerationError, status=409):
    """This endpoint was used or tested: results and the ledger refer to it. Disable it instead."""


class WebhookUsed(GenerationError, status=409):
    """This webhook has received messages in the last month. Switch it off instead."""


class NotCallable(GenerationError, status=422):
    """This model cannot be called: it is disabled, or known from imported results only."""


class UnknownRelease(GenerationError, status=404):
    """There is no release with this name."""


class UnknownBatch(GenerationError, status=404):
    """There is no batch with this number."""


class UnknownComparison(GenerationError, status=404):
    """There is no comparison with this number."""


class WrongFile(GenerationError, status=422):
    """This file does not match the chosen format. Nothing was saved."""


class UnrecognisedFormat(GenerationError, status=422):
    """The beginning of the file does not show its format. Choose the format."""


class UnknownMapping(GenerationError, status=404):
    """There is no saved mapping with this name."""


class WrongMapping(GenerationError, status=422):
    """This mapping of columns to fields cannot be used."""


class UnknownUpload(GenerationError, status=404):
    """The uploaded file is no longer kept. Upload it again."""


class UnknownExportFormat(GenerationError, status=422):
    """Releases cannot be exported in this format."""


class UnknownImport(GenerationError, status=404):
    """There is no import with this number."""


class ImportOver(GenerationError, status=409):
    """This import has already ended. Nothing was cancelled."""


class SourceExists(GenerationError, status=409):
    """A source with this name already exists in a different format."""


class RolesUnbound(GenerationError, status=422):
    """Choose an endpoint for every role that the recipe needs for these records."""


class UnknownRole(GenerationError, status=422):
    """The recipe has no role with this name."""


class NothingToDo(GenerationError, status=409):
    """No records are left that this recipe can use."""


class NothingApproved(GenerationError, status=409):
    """No samples of this benchmark have been approved yet."""


class ReleaseAltered(GenerationError, status=409):
    """This release is not what was frozen, says the audit trail. It is neither exported nor run: restore a backup."""


class NothingNew(GenerationError, status=409):
    """The approved samples are the same as in the latest release with this name. There is nothing new to freeze."""


class FormatDoesNotFit(GenerationError, status=422):
    """This format needs samples with one question each and answers that are decided by a judge. The samples of this
    benchmark are different."""


class UntrainedFormat(FormatDoesNotFit, status=422):
    """This format is for training a detector, and this benchmark has no samples for that."""


class NoPositivePoints(GenerationError, status=422):
    """This format needs samples with a criterion that earns points. Freeze a release without these samples."""


class NoSupervision(GenerationError, status=422):
    """This format needs a benchmark with reasoning stages, and samples from a training or validation split."""


class WrongStages(GenerationError, status=422):
    """This is not one of the sets of stages that can be exported."""


class NotByReference(GenerationError, status=422):
    """This format cannot be exported by reference. JSON Lines can, and so can the formats of evaluation tools."""


class UnknownSample(GenerationError, status=404):
    """There is no such sample, or you cannot read it."""


class NotApproved(GenerationError, status=409):
    """This sample is not approved, or it was withdrawn."""


class AlreadyReported(GenerationError, status=409):
    """This sample has been reported. An admin will decide."""


class NotReported(GenerationError, status=409):
    """Nobody has reported this sample, or the report was decided."""


class MixedSimulated(GenerationError, status=422):
    """Some of these samples are simulated and some are not. Choose simulated=no, simulated=yes or simulated=any."""


class WrongComposition(GenerationError, status=422):
    """This composition cannot be used."""


class HubMissing(GenerationError, status=422):
    """The package huggingface_hub is not installed: pip install 'mhb[hub]'."""


class HubTokenMissing(GenerationError, status=422):
    """The hub's token is not in the environment variable"""


class HubRefused(GenerationError, status=502):
    """The hub did not take the release."""


class WithheldText(GenerationError, status=409):
    """The text of these sources must not be published. Share an export by reference instead."""


class WrongCard(GenerationError, status=422):
    """These texts for the data card cannot be used."""


class FreezeInProgress(GenerationError, status=409):
    """A release with this name is already being frozen. Wait until it has finished."""


class KeyReused(GenerationError, status=409):
    """This key was already used for a different launch. Send the same request again, or use a new key."""


class UnknownJob(GenerationError, status=404):
    """There is no job of this kind and number."""


class NotRepeatable(GenerationError, status=409):
    """The settings of this job cannot be used to repeat it."""


class JobOfOtherBenchmark(GenerationError, status=400):
    """The job to repeat belongs to another benchmark."""


class NoFailedVersion(GenerationError, status=409):
    """No next version of this sample has failed."""


class NotDiscarded(GenerationError, status=409):
    """Only a discarded sample can be drawn again, and no control."""


class TrapUsed(GenerationError, status=422):
    """This trap is unknown, or a version of the sample had it already."""


class JobOver(GenerationError, status=409):
    """This batch or run has already ended."""


class BudgetTooSmall(GenerationError, status=409):
    """This budget allows no more calls. Set a higher budget."""


class NothingToAdapt(GenerationError, status=409):
    """No setting of an endpoint is known with which it would accept what it refused."""


class WrongPlan(GenerationError, status=422):
    """This trap plan cannot be used."""


class SharedModel(GenerationError, status=422):
    """One model plays roles that must be different models. Choose another endpoint, or allow it (one_model)."""


class WrongDraw(GenerationError, status=422):
    """Records cannot be drawn like this."""


class UnknownCheck(GenerationError, status=422):
    """The recipe has no check with this name."""


class UnknownPreset(GenerationError, status=422):
    """The recipe has no preset with this name."""


class WrongSetting(GenerationError, status=422):
    """The preset has no such setting, or the setting does not accept this value."""


class InvalidSettings(GenerationError, status=422):
    """These settings cannot be used."""


class UnknownPrompts(GenerationError, status=422):
    """The recipe has no set of prompts with this name."""


class PromptsFaulty(GenerationError, status=422):
    """These prompts cannot be used."""


class StalePrompts(GenerationError, status=409):
    """Somebody saved a newer version of this prompt set meanwhile. Compare it with yours, then save again."""


class NoAnalysis(GenerationError, status=404):
    """This benchmark has no analysis."""


class SamePrompts(GenerationError, status=422):
    """A comparison needs two different sets of prompts."""


class NotStopped(GenerationError, status=409):
    """This draft is not stopped by a check."""


class NoBarrier(GenerationError, status=404):
    """Drafts of this batch are not compared at any step."""


class UnknownDraft(GenerationError, status=404):
    """There is no draft with this number."""


class NotMerged(GenerationError, status=409):
    """This draft is not merged with any other."""


class LeadOfGroup(GenerationError, status=409):
    """Others are merged into this draft. Undo their merges instead."""


class SameGroup(GenerationError, status=409):
    """These two drafts are merged already."""


class OtherBarrier(GenerationError, status=409):
    """These two drafts belong to different batches, or were compared at different steps."""


class ToldWithoutReading(GenerationError, status=409):
    """Its answers can be told apart without being read, more clearly than the batch allows."""


class ProbingFailed(GenerationError, status=500):
    """The answers could not be probed."""


class ReasonMissing(GenerationError, status=422):
    """Give a reason. It is kept on record."""


class OtherBenchmarks(GenerationError, status=422):
    """These releases are of different benchmarks: no sample can be in both."""


class OtherBenchmark(GenerationError, status=409):
    """This release name is already used by another benchmark."""
