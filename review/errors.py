"""What can go wrong in review. The docstring is the message; `status` is the HTTP status for pages and API alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from django.core.exceptions import ValidationError

    from review.forms.design import FormFault
    from review.rules.questions import Problem


class ShownError(Exception):
    """Something went wrong."""

    status: ClassVar[int] = 400
    permanent: ClassVar[bool] = True

    def __init_subclass__(cls, *, status: int | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if status is not None:
            cls.status = status

    def __init__(self, detail: str = "") -> None:
        self.detail = detail
        super().__init__(f"{self.message} {detail}".strip())

    @property
    def message(self) -> str:
        """The docstring, in the reader's language."""
        words = (type(self).__doc__ or "").split()  # a docstring may be broken into lines
        message = " ".join(words)
        return _(message)


def sentences(error: ValidationError) -> list[str]:
    """The messages of an error; of one with fields, all messages of a field in one sentence."""
    if not hasattr(error, "error_dict"):
        return [" ".join(error.messages)]
    return [f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items()]


class ReviewError(ShownError):
    """The review could not continue."""


class DatabaseBusy(ReviewError, status=503):
    """The database is busy, and nothing was saved. Try again in a few seconds."""

    permanent = False


class DiskFull(ReviewError, status=507):
    """The site's disk is full, and nothing was saved. Tell the operator, then try again."""

    permanent = False


class NoWorker(ReviewError, status=503):
    """No worker has answered. Check on the page “System” that one runs, and try again."""

    permanent = False


class NotAllowed(ReviewError, status=403):
    """Your role does not allow this."""


class AccessChanged(NotAllowed):
    """Your access has changed. Sign in again."""


class SecondFactorMissing(ReviewError, status=403):
    """Your role needs a second factor. Set one up under “Second factor” in the account menu."""


class ProviderRefused(ReviewError, status=403):
    """You signed in elsewhere, but that gives you no access here. Ask the administrator of this site."""


class ProviderAway(ReviewError, status=503):
    """The identity provider does not answer. Try again in a minute. Accounts of this site can sign in
    with their password."""

    permanent = False


class JustTaken(ReviewError, status=409):
    """Somebody has just used this name or done the same. Open the page again."""


class NotSimulated(ReviewError, status=403):
    """This account belongs to a person. Simulated physicians can only use accounts created for them."""


class NotAssigned(ReviewError, status=404):
    """This case is not assigned to you."""


class NotAProposal(ReviewError, status=409):
    """This is not a review that you can sign now. Load the case again."""


class LeaseLost(ReviewError, status=409):
    """This case is no longer reserved for you: your time ran out, or the case was reassigned. Your draft is kept."""


class StaleDraft(ReviewError, status=409):
    """Another window saved this draft after you opened it. Nothing was overwritten."""


class TooManyReleases(ReviewError, status=429):
    """You have reached the hourly limit for returned and declined cases. This case is still reserved for you: finish
    it, or try again later.
    """


class AlreadySubmitted(ReviewError, status=409):
    """This review has already been submitted."""


class CaseClosed(ReviewError, status=409):
    """This case is closed."""


class NotRevealed(ReviewError, status=409):
    """Answer the first-look questions and reveal the traps before you submit. Nothing was submitted."""


class NothingToReveal(ReviewError, status=409):
    """This case has no first look: nothing is hidden."""


class NotUndoable(ReviewError, status=409):
    """This submission can no longer be undone."""


class NotCorrectable(ReviewError, status=409):
    """The case has gone on from this review, so it can no longer be corrected."""


class SignatureRefused(ReviewError, status=403):
    """The password is incorrect. Nothing was submitted."""

    field: ClassVar[str] = "password"


class CodeRefused(SignatureRefused):
    """The code is incorrect or has already been used. Nothing was submitted. Enter the code that your authenticator
    app shows now.
    """

    field = "code"


class NoSecondFactor(CodeRefused):
    """This case must be signed with a second factor, and you have not set one up. Nothing was submitted."""


class Incomplete(ReviewError, status=422):
    """The review is not complete."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = problems
        super().__init__()


class OverLimits(Incomplete, status=422):
    """Some texts are too long, or there are too many entries. Nothing was saved."""


class TooLong(ReviewError, status=422):
    """This text is too long. Nothing was saved."""


class TooManyComments(ReviewError, status=429):
    """You have posted many comments within a minute. Wait a minute, then post this one again."""


class TooManyOwnActs(ReviewError, status=429):
    """You have done this too often today. Try again tomorrow."""


class RewordingAnswered(ReviewError, status=409):
    """You have already answered this change of wording."""


class RewordingLapsed(ReviewError, status=409):
    """The time for an objection has passed."""


class EmptyText(ReviewError, status=422):
    """The text is empty. Nothing was saved."""


class PassageUnknown(ReviewError, status=422):
    """This passage is not in the text of the case."""


class StaleGuideline(ReviewError, status=409):
    """Another version was published after you opened this one. Nothing was overwritten."""


class StaleForm(ReviewError, status=409):
    """Another version of this form was published after you opened it. Nothing was published."""


class UnknownPhysician(ReviewError, status=404):
    """There is no such physician."""


class UnknownForm(ReviewError, status=404):
    """There is no such review form."""


class FormFaulty(ReviewError, status=422):
    """This review form cannot be published yet."""

    def __init__(self, faults: Sequence[FormFault]) -> None:
        self.faults = faults
        super().__init__()


class NotSettled(ReviewError, status=409):
    """Only cases that physicians have approved or rejected have known answers."""


class Committed(ReviewError, status=409):
    """This role has already been answered. Its physician can finish the case, or an admin can reopen the role."""


class NotStuck(ReviewError, status=409):
    """No confirmation or second vote is pending in this role."""


class InvitationInvalid(ReviewError, status=410):
    """This invitation link is not valid. It may have been used, replaced or withdrawn, or it is too old. Ask the person
    who invited you for a new one.
    """


class NotInvitable(ReviewError, status=409):
    """This account needs no invitation: it is closed, its password has been set, or its owner signs in elsewhere."""


class SignsInElsewhere(ReviewError, status=403):
    """You sign in to this account through your identity provider. Choose it on the sign-in page."""


class RosterRefused(ReviewError, status=422):
    """The file was refused, and no account was created."""


class WrongAnnotations(ReviewError, status=422):
    """These annotations cannot be read."""


class NoTasks(ReviewError, status=409):
    """No case that waits for a review can be annotated in another tool."""


class NotReserved(ReviewError, status=409):
    """This case cannot be assigned to this person."""
