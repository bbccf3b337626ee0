"""What can go wrong in generation."""

from review.errors import ShownError


class GenerationError(ShownError):
    """The work could not continue."""


class UnknownBenchmark(GenerationError):
    """There is no benchmark with this name."""

    status = 404


class UnknownSource(GenerationError):
    """There is no source with this name."""

    status = 404


class UnknownEndpoint(GenerationError):
    """There is no endpoint with this name."""

    status = 404


class UnknownRelease(GenerationError):
    """There is no release with this name."""

    status = 404


class UnknownBatch(GenerationError):
    """There is no batch with this number."""

    status = 404


class UnknownComparison(GenerationError):
    """There is no comparison with this number."""

    status = 404


class WrongFile(GenerationError):
    """This file does not match the chosen format. Nothing was saved."""

    status = 422


class UnknownExportFormat(GenerationError):
    """Releases cannot be exported in this format."""

    status = 422


class UnknownImport(GenerationError):
    """There is no import with this number."""

    status = 404


class ImportOver(GenerationError):
    """This import has already ended. Nothing was cancelled."""

    status = 409


class SourceExists(GenerationError):
    """A source with this name already exists in a different format."""

    status = 409


class RolesUnbound(GenerationError):
    """Choose an endpoint for every role that the recipe needs for these records."""

    status = 422


class UnknownRole(GenerationError):
    """The recipe has no role with this name."""

    status = 422


class NothingToDo(GenerationError):
    """No records are left that this recipe can use."""

    status = 409


class NothingApproved(GenerationError):
    """No samples of this benchmark have been approved yet."""

    status = 409


class NothingNew(GenerationError):
    """The approved samples are the same as in the latest release with this name. There is nothing new to freeze."""

    status = 409


class UnfitFormat(GenerationError):
    """This format needs samples with one question each, whose answers a judge decides on. This benchmark has others."""

    status = 422


class UnknownSample(GenerationError):
    """There is no such sample, or you cannot read it."""

    status = 404


class NotApproved(GenerationError):
    """This sample is not approved, or it was withdrawn."""

    status = 409


class NotReported(GenerationError):
    """Nobody has reported this sample, or the report was decided."""

    status = 409


class MixedSimulated(GenerationError):
    """Some of these samples are simulated and some are not. Choose simulated=no, simulated=yes or simulated=any."""

    status = 422


class WrongComposition(GenerationError):
    """This composition cannot be used."""

    status = 422


class FreezeInProgress(GenerationError):
    """A release with this name is already being frozen. Wait until it has finished."""

    status = 409


class KeyReused(GenerationError):
    """This key was already used for a different launch. Send the same request again, or use a new key."""

    status = 409


class UnknownJob(GenerationError):
    """There is no job of this kind and number."""

    status = 404


class JobOver(GenerationError):
    """This batch or run has already ended."""

    status = 409


class BudgetTooSmall(GenerationError):
    """This budget allows no more calls. Set a higher budget."""

    status = 409


class WrongPlan(GenerationError):
    """This trap plan cannot be used."""

    status = 422


class UnknownCheck(GenerationError):
    """The recipe has no check with this name."""

    status = 422


class UnknownPreset(GenerationError):
    """The recipe has no preset with this name."""

    status = 422


class WrongSetting(GenerationError):
    """The preset has no such setting, or the setting does not accept this value."""

    status = 422


class UnknownPrompts(GenerationError):
    """The recipe has no set of prompts with this name."""

    status = 422


class NoAnalysis(GenerationError):
    """This benchmark has no analysis."""

    status = 404


class SamePrompts(GenerationError):
    """A comparison needs two different sets of prompts."""

    status = 422


class NotStopped(GenerationError):
    """This draft is not stopped by a check."""

    status = 409


class ReasonMissing(GenerationError):
    """Give a reason. It is kept on record."""

    status = 422


class OtherBenchmark(GenerationError):
    """This release name is already used by another benchmark."""

    status = 409
