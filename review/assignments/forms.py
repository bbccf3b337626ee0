"""Forms of declining and reporting. Answers are read by `posted_answers`."""

from django import forms
from django.utils.translation import gettext_lazy

from review.models import Declined


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
