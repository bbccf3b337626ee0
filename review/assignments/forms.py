"""What a physician posted from the workbench and its side pages, read. Answers are read by `posted_answers`."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from review.access import visibility
from review.answers.answer_form import corrections
from review.answers.controls import Correction
from review.answers.posted_answers import Offers, answers_from_post, posts_adopted, posts_highlights
from review.answers.side_by_side import anonymous_columns, offers
from review.assignments import queries
from review.common.decorators import posted_token, signed_in_account
from review.models import Assignment, Declined, User
from review.rules.blocks import texts_of
from review.rules.questions import Answers
from review.rules.state_machine import ADJUDICATORS, Phase


class DeclineForm(forms.Form):
    """Why a physician will not take a case."""

    reason = forms.ChoiceField(label=gettext_lazy("Reason"), choices=Declined.Reason.choices, widget=forms.RadioSelect)
    text = forms.CharField(
        label=gettext_lazy("In your own words"),
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3}),
    )


class ProblemForm(forms.Form):
    """What is wrong with a case."""

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
    """A posted form of the workbench, and the assignment as it was when it came.

    `local`: the name under which the browser keeps what was typed.
    """

    me: User
    assignment: Assignment
    token: uuid.UUID
    revision: int
    answers: Answers
    local: str


def read_posted(request: HttpRequest, assignment_id: int) -> PostedReview:
    me = signed_in_account(request)
    assignment = queries.posted_to(me, assignment_id)
    case = assignment.case
    # What others wrote can only be taken over where it is open to read: not while the first two answer blind.
    blind = assignment.phase == Phase.COMMIT and assignment.role not in ADJUDICATORS
    others: Offers = {}
    if not blind and posts_adopted(request.POST):
        others = offers(anonymous_columns(me, visibility.reviews_shown_to(me, case, assignment)))
    texts = texts_of(visibility.case_shown_to(me, assignment).blocks) if posts_highlights(request.POST) else {}
    # `over`: the version that the physician has chosen to replace, in place of the one that this page was made from.
    revision = request.POST.get("over") or request.POST.get("revision", "")
    return PostedReview(
        me=me,
        assignment=assignment,
        token=posted_token(request),
        revision=int(revision) if revision.isascii() and revision.isdigit() and len(revision) < 10 else 0,
        answers=answers_from_post(visibility.asked_of(assignment, case).form, request.POST, others, texts),
        local=request.POST.get("local", ""),
    )


def posted_wordings(posted: PostedReview) -> Sequence[Correction]:
    """The wording of each rubric as it was just typed against the one that was generated; none before the first look."""
    if not posted.answers.rubrics or not visibility.is_revealed(posted.me, posted.assignment):
        return ()
    return corrections(posted.assignment.case.frozen.form, posted.answers)
