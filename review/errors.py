"""What can go wrong in review. The docstring is the message; `status` is the HTTP status for pages and API alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from review.rules.questions import Problem


class ReviewError(Exception):
    """The review could not go on."""

    status: ClassVar[int] = 400
    permanent: ClassVar[bool] = True

    def __init__(self, detail: str = "") -> None:
        self.detail = detail
        super().__init__(f"{self.message} {detail}".strip())

    @property
    def message(self) -> str:
        """The docstring, in the reader's language."""
        return _((type(self).__doc__ or "").strip())


class DatabaseBusy(ReviewError):
    """The database is busy, and nothing was saved. Try again in a few seconds."""

    status = 503
    permanent = False


class NotAllowed(ReviewError):
    """Your role does not allow this."""

    status = 403


class NotSimulated(ReviewError):
    """This account is a person's. Simulated physicians review in accounts that were made for them."""

    status = 403


class NotYours(ReviewError):
    """This assignment is not yours."""

    status = 404


class LeaseLost(ReviewError):
    """Somebody else has taken this case since your lease ran out. Your draft is kept."""

    status = 409


class StaleDraft(ReviewError):
    """This draft was saved from another window since you opened it. Nothing was overwritten."""

    status = 409


class TooManyReleases(ReviewError):
    """You have given back or declined as many cases as you may in an hour. This case stays yours: finish it, or try later."""

    status = 429


class AlreadySubmitted(ReviewError):
    """This review was submitted already."""

    status = 409


class CaseClosed(ReviewError):
    """This case is closed."""

    status = 409


class NotRevealed(ReviewError):
    """Answer the first look and reveal the traps before you submit. Nothing was submitted."""

    status = 409


class NothingToReveal(ReviewError):
    """This case hides nothing before a first look."""

    status = 409


class NotUndoable(ReviewError):
    """This review cannot be taken back any more."""

    status = 409


class SignatureRefused(ReviewError):
    """This is not your password. Nothing was submitted."""

    status = 403
    field: ClassVar[str] = "password"


class CodeRefused(SignatureRefused):
    """This is not the code that your authenticator app shows now, or you have used it already. Nothing was submitted."""

    field = "code"


class NoSecondFactor(CodeRefused):
    """This case is signed with a second factor, and you have set up none. Nothing was submitted."""


class Incomplete(ReviewError):
    """The review is not complete."""

    status = 422

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = problems
        super().__init__()


class EmptyText(ReviewError):
    """There is nothing to keep: the text is empty."""

    status = 422


class PassageUnknown(ReviewError):
    """This passage does not stand in the text of the case."""

    status = 422


class StaleGuideline(ReviewError):
    """Another version was put in force since you opened this one. Nothing was overwritten."""

    status = 409


class NotSettled(ReviewError):
    """Only a case that physicians have approved or rejected has a known answer."""

    status = 409


class Committed(ReviewError):
    """This role was answered already: its holder can finish the case, or an admin sets it back."""

    status = 409


class NotStuck(ReviewError):
    """Nobody waits for a confirmation or a second vote in this role."""

    status = 409


class NotReserved(ReviewError):
    """The case cannot be handed to this person."""

    status = 409
