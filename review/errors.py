"""What can go wrong in review. The docstring is the message; `status` is the HTTP status for pages and API alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from review.forms.design import FormFault
    from review.rules.questions import Problem


class ShownError(Exception):
    """Something went wrong."""

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


class ReviewError(ShownError):
    """The review could not continue."""


class DatabaseBusy(ReviewError):
    """The database is busy, and nothing was saved. Try again in a few seconds."""

    status = 503
    permanent = False


class NotAllowed(ReviewError):
    """Your role does not allow this."""

    status = 403


class NotSimulated(ReviewError):
    """This account belongs to a person. Simulated physicians can only use accounts created for them."""

    status = 403


class NotYours(ReviewError):
    """This case is not assigned to you."""

    status = 404


class LeaseLost(ReviewError):
    """This case is no longer reserved for you: your time ran out, or the case was reassigned. Your draft is kept."""

    status = 409


class StaleDraft(ReviewError):
    """Another window saved this draft after you opened it. Nothing was overwritten."""

    status = 409


class TooManyReleases(ReviewError):
    """You have reached the hourly limit for returned and declined cases. This case is still reserved for you: finish
    it, or try again later.
    """

    status = 429


class AlreadySubmitted(ReviewError):
    """This review has already been submitted."""

    status = 409


class CaseClosed(ReviewError):
    """This case is closed."""

    status = 409


class NotRevealed(ReviewError):
    """Answer the first-look questions and reveal the traps before you submit. Nothing was submitted."""

    status = 409


class NothingToReveal(ReviewError):
    """This case has no first look: nothing is hidden."""

    status = 409


class NotUndoable(ReviewError):
    """This submission can no longer be undone."""

    status = 409


class SignatureRefused(ReviewError):
    """The password is incorrect. Nothing was submitted."""

    status = 403
    field: ClassVar[str] = "password"


class CodeRefused(SignatureRefused):
    """The code is incorrect or has already been used. Nothing was submitted. Enter the code that your authenticator
    app shows now.
    """

    field = "code"


class NoSecondFactor(CodeRefused):
    """This case must be signed with a second factor, and you have not set one up. Nothing was submitted."""


class Incomplete(ReviewError):
    """The review is not complete."""

    status = 422

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = problems
        super().__init__()


class EmptyText(ReviewError):
    """The text is empty. Nothing was saved."""

    status = 422


class PassageUnknown(ReviewError):
    """This passage is not in the text of the case."""

    status = 422


class StaleGuideline(ReviewError):
    """Another version was published after you opened this one. Nothing was overwritten."""

    status = 409


class StaleForm(ReviewError):
    """Another version of this form was published after you opened it. Nothing was published."""

    status = 409


class UnknownForm(ReviewError):
    """There is no such review form."""

    status = 404


class FormFaulty(ReviewError):
    """This review form cannot be published yet."""

    status = 422

    def __init__(self, faults: Sequence[FormFault]) -> None:
        self.faults = faults
        super().__init__()


class NotSettled(ReviewError):
    """Only cases that physicians have approved or rejected have known answers."""

    status = 409


class Committed(ReviewError):
    """This role has already been answered. Its physician can finish the case, or an admin can reopen the role."""

    status = 409


class NotStuck(ReviewError):
    """No confirmation or second vote is pending in this role."""

    status = 409


class NotReserved(ReviewError):
    """This case cannot be assigned to this person."""

    status = 409
