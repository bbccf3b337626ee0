"""The posted forms of the workbench and its side pages. `posted_answers` parses the answers."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from review.access import visibility
from review.answers.answer_form import corrections
from review.answers.controls import Correction
from review.answers.posted_answers import Offers, answers_from_post, posts_adopted_wording, posts_highlights
from review.answers.side_by_side import anonymous_columns, wording_offers
from review.assignments import queries
from review.common.decorators import posted_token, signed_in_account
from review.models import Assignment, Declined, User
from review.rules.blocks import passage_texts
from review.rules.questions import Answers
from review.rules.state_machine import ADJUDICATORS, Phase
from review.rules.text import whole_number


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
    """A posted form of the workbench, and the assignment as it was when the post arrived.

    Attributes:
        local: the key under which the browser stores its own copy of the draft.
    """

    me: User
    assignment: Assignment
    token: uuid.UUID
    revision: int
    answers: Answers
    local: str


def read_posted(request: HttpRequest, assignment_id: int) -> PostedReview:
    """Parse a posted form of the workbench."""
    me = signed_in_account(request)
    assignment = queries.assignment_for_post(assignment_id)
    case = assignment.case
    # Others' wordings can be adopted only if the physician may read them, hence not while the first
    # two answer blind.
    blind = assignment.phase == Phase.COMMIT and assignment.role not in ADJUDICATORS
    offers: Offers = {}
    if not blind and posts_adopted_wording(request.POST):
        offers = wording_offers(anonymous_columns(me, visibility.reviews_shown_to(me, case, assignment)))
    texts = passage_texts(visibility.case_shown_to(me, assignment).blocks) if posts_highlights(request.POST) else {}
    # `over`: the revision that the physician chose to overwrite; `revision`: the one on the page.
    revision = request.POST.get("over") or request.POST.get("revision", "")
    return PostedReview(
        me=me,
        assignment=assignment,
        token=posted_token(request),
        revision=whole_number(revision, 9) or 0,
        answers=answers_from_post(visibility.spec_for_stage(assignment, case).form, request.POST, offers, texts),
        local=request.POST.get("local", ""),
    )


def posted_corrections(posted: PostedReview) -> Sequence[Correction]:
    """How each posted rubric wording differs from the generated one; empty before the reveal."""
    if not posted.answers.rubrics or not visibility.is_revealed(posted.me, posted.assignment):
        return ()
    return corrections(posted.assignment.case.frozen.form, posted.answers)
