"""The posted forms of the workbench and its side pages. `posted_answers` parses the answers."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from django import forms
from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext_lazy

from review.answers.posted_answers import Offers, answers_from_post, posts_adopted_wording
from review.answers.side_by_side import anonymous_columns, wording_offers
from review.assignments.case_page import others_columns
from review.common.decorators import posted_token, signed_in_account
from review.labels import VERDICTS, benchmark_label
from review.models import Declined, Review
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


class OwnReviewsForm(forms.Form):
    """Which of one's own reviews a list shows, and in which order.

    Not by the state of the case, which its physicians may not know yet.
    """

    ORDERS = {
        "": (gettext_lazy("Newest first"), ("-id",)),
        "oldest": (gettext_lazy("Oldest first"), ("id",)),
        "title": (gettext_lazy("By case"), ("case__title", "-id")),
    }
    benchmark = forms.ChoiceField(label=gettext_lazy("Benchmark"), required=False)
    verdict = forms.ChoiceField(label=gettext_lazy("My verdict"), required=False)
    order = forms.ChoiceField(
        label=gettext_lazy("Order"), required=False, choices=[(name, label) for name, (label, _by) in ORDERS.items()]
    )

    def __init__(self, data: QueryDict, *, benchmarks: Sequence[str]) -> None:
        super().__init__(data, label_suffix="")
        choices: dict[str, list[tuple[str, object]]] = {
            "benchmark": [(name, benchmark_label(name)) for name in benchmarks],
            "verdict": list(VERDICTS.items()),
        }
        for name, options in choices.items():
            cast(forms.ChoiceField, self.fields[name]).choices = [("", gettext_lazy("All")), *options]
        if self.is_valid():
            self.chosen = self.cleaned_data
        else:
            self.chosen = {}

    @property
    def filters(self) -> dict[str, str]:
        """The conditions on a review."""
        chosen = {"case__benchmark": self.chosen.get("benchmark", ""), "verdict": self.chosen.get("verdict", "")}
        return {name: value for name, value in chosen.items() if value}

    @property
    def sorted_by(self) -> tuple[str, ...]:
        """The columns by which the reviews are ordered."""
        return self.ORDERS[self.chosen.get("order", "")][1]


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
    # `over`: the revision that the physician chose to overwrite; `revision`: the one on the page.
    revision = request.POST.get("over") or request.POST.get("revision", "")
    return PostedReview(
        turn=turn,
        token=posted_token(request),
        revision=whole_number(revision, 9) or 0,
        # By what is shown: else a source would be filled in with the trap that a first look hides.
        answers=answers_from_post(turn.shows.form, request.POST, offers, passage_texts(turn.shows.blocks)),
        local=request.POST.get("local", ""),
    )


def posted_correction(request: HttpRequest, turn: ReviewTurn, review: Review) -> Answers:
    """The answers in a posted form that corrects `review`."""
    offers = wording_offers(others_columns(turn, review))
    return answers_from_post(turn.asks, request.POST, offers, passage_texts(turn.shows.blocks))
