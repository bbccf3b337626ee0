"""The posted forms of the workbench and its side pages. `posted_answers` parses the answers."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from review.answers.answer_form import corrections
from review.answers.controls import Correction
from review.answers.posted_answers import Offers, answers_from_post, posts_adopted_wording, posts_highlights
from review.answers.side_by_side import anonymous_columns, wording_offers
from review.common.decorators import posted_token, signed_in_account
from review.models import Declined
from review.rules.blocks import passage_texts
from review.rules.questions import Answers
from review.rules.text import whole_number
from review.turns.turn import ReviewTurn, turn_of


class DeclineForm(forms.Form):
    """The reason for declining a case."""

    reason = forms.ChoiceField(label=gettext_lazy("Reason"), choices=Declined.Reason.choices, widget=forms.RadioSelect)
    text = forms.CharField(
        label=gettext_lazy("In your own words"),
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3}),
    )


class ProblemForm(forms.Form):
    """A problem with a case, for the admins."""

    text = forms.CharField(
        label=gettext_lazy("Problem description"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy(
            "The admins will be notified. You keep the case and can continue or return it to the queue."
        ),
    )


@dataclass(frozen=True, slots=True)
class PostedReview:
    """A posted form of the workbench, and the physician's turn as it was when the post arrived.

    Attributes:
        local: the key under which the browser stores its own copy of the draft.
    """

    turn: ReviewTurn
    token: uuid.UUID
    revision: int
    answers: Answers
    local: str


def read_posted(request: HttpRequest, assignment_id: int) -> PostedReview:
    """Parse a posted form of the workbench."""
    turn = turn_of(signed_in_account(request), assignment_id, own=False)
    # Others' wordings can be adopted, and passages quoted, only if the physician may read them.
    offers: Offers = {}
    if posts_adopted_wording(request.POST):
        offers = wording_offers(anonymous_columns(turn.physician, turn.reviews))
    texts = passage_texts(turn.shows.blocks) if posts_highlights(request.POST) else {}
    # `over`: the revision that the physician chose to overwrite; `revision`: the one on the page.
    revision = request.POST.get("over") or request.POST.get("revision", "")
    return PostedReview(
        turn=turn,
        token=posted_token(request),
        revision=whole_number(revision, 9) or 0,
        answers=answers_from_post(turn.asks, request.POST, offers, texts),
        local=request.POST.get("local", ""),
    )


def posted_corrections(posted: PostedReview) -> Sequence[Correction]:
    """How each posted rubric wording differs from the generated one; empty before the reveal."""
    if not posted.answers.rubrics or not posted.turn.is_revealed:
        return ()
    return corrections(posted.turn.case.frozen.form, posted.answers)
