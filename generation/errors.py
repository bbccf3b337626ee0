"""What can go wrong in generation. The docstring is the message; `status` is the HTTP status for pages and API alike."""

from typing import ClassVar

from django.utils.translation import gettext as _


class GenerationError(Exception):
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


class UnknownBenchmark(GenerationError):
    """There is no benchmark of this name."""

    status = 404


class UnknownSource(GenerationError):
    """There is no source of this name."""

    status = 404


class UnknownEndpoint(GenerationError):
    """There is no endpoint of this name."""

    status = 404


class UnknownRelease(GenerationError):
    """There is no release of this name."""

    status = 404


class UnknownBatch(GenerationError):
    """There is no batch of this number."""

    status = 404


class UnknownComparison(GenerationError):
    """There is no comparison of this number."""

    status = 404


class WrongFile(GenerationError):
    """This file is not what it was said to be; nothing was stored."""

    status = 422


class UnknownImport(GenerationError):
    """There is no import of this number."""

    status = 404


class ImportOver(GenerationError):
    """This import is over; nothing was cancelled."""

    status = 409


class SourceExists(GenerationError):
    """A source of this name exists with another format."""

    status = 409


class RolesUnbound(GenerationError):
    """Every role that the recipe needs for these records needs an endpoint."""

    status = 422


class UnknownRole(GenerationError):
    """The recipe has no role of this name."""

    status = 422


class NothingToDo(GenerationError):
    """There is no record left that this recipe takes."""

    status = 409


class NothingApproved(GenerationError):
    """No sample of this benchmark is approved yet."""

    status = 409


class NothingNew(GenerationError):
    """The approved samples are those of the latest release of this name; there is nothing new to freeze."""

    status = 409


class KeyReused(GenerationError):
    """Something else was launched under this key. Send the same again, or another launch under another key."""

    status = 409


class JobOver(GenerationError):
    """This batch or run is over."""

    status = 409


class BudgetTooSmall(GenerationError):
    """This budget allows no further call."""

    status = 409


class BatchOver(JobOver):
    """This batch is over."""

    status = 409


class WrongPlan(GenerationError):
    """This trap plan cannot be used."""

    status = 422


class UnknownCheck(GenerationError):
    """The recipe has no check of this name."""

    status = 422


class UnknownPreset(GenerationError):
    """The recipe has no preset of this name."""

    status = 422


class WrongSetting(GenerationError):
    """A setting that is to be changed is none of the preset's, or not with such a value."""

    status = 422


class UnknownPrompts(GenerationError):
    """The recipe has no set of prompts of this name."""

    status = 422


class NoAnalysis(GenerationError):
    """The recipe of this benchmark has no analysis."""

    status = 404


class SamePrompts(GenerationError):
    """A comparison wants two different sets of prompts."""

    status = 422


class NotStopped(GenerationError):
    """No check holds this draft back."""

    status = 409


class ReasonMissing(GenerationError):
    """Say why: the reason is kept."""

    status = 422


class OtherBenchmark(GenerationError):
    """This release name belongs to another benchmark."""

    status = 409
