"""Why a form was refused, for the page that follows a redirect: Back then repeats no post."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest

from review import errors
from review.rules.questions import Problem

_KEPT = "refused_review"  # in the session
_SIGNATURES = {kind.__name__: kind for kind in (errors.SignatureRefused, errors.CodeRefused, errors.NoSecondFactor)}


@dataclass(frozen=True, slots=True)
class RefusedForm:
    """What the page says of the form that was posted last.

    Attributes:
        agreed: whether the answers on which both reviewers agree were confirmed in it.
    """

    problems: Sequence[Problem] = ()
    signature: errors.SignatureRefused | None = None
    agreed: bool = False


NOT_REFUSED = RefusedForm()


def refusal_of(request: HttpRequest, error: errors.Incomplete | errors.SignatureRefused) -> RefusedForm:
    """The refusal of the form in `request`."""
    agreed = "agreed" in request.POST
    if isinstance(error, errors.SignatureRefused):
        return RefusedForm(signature=error, agreed=agreed)
    return RefusedForm(problems=error.problems, agreed=agreed)


def keep(request: HttpRequest, assignment_id: int, refusal: RefusedForm) -> None:
    """Keep the refusal in the session until `take`."""
    signature = ""
    if refusal.signature is not None:
        signature = type(refusal.signature).__name__
    request.session[_KEPT] = {
        "assignment": assignment_id,
        "problems": [[problem.field, problem.code] for problem in refusal.problems],
        "signature": signature,
        "agreed": refusal.agreed,
    }


def take(request: HttpRequest, assignment_id: int) -> RefusedForm:
    """The refusal that was kept for this assignment, once."""
    kept = request.session.get(_KEPT)
    if kept is None:
        return NOT_REFUSED
    del request.session[_KEPT]
    if kept["assignment"] != assignment_id:
        return NOT_REFUSED
    signature = None
    if kept["signature"]:
        signature = _SIGNATURES[kept["signature"]]()
    problems = [Problem(field, code) for field, code in kept["problems"]]
    return RefusedForm(problems, signature, kept["agreed"])
