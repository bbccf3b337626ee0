"""Forms of the page on merges."""

from django import forms
from django.utils.translation import gettext_lazy as _

from review.rules.limits import MAX_ID


class MergeForm(forms.Form):
    """Which draft to merge into which, and why."""

    draft_id = forms.IntegerField(
        label=_("Keep draft"), min_value=1, max_value=MAX_ID, help_text=_("The number shown on this page.")
    )
    other_id = forms.IntegerField(
        label=_("Merge into it"),
        min_value=1,
        max_value=MAX_ID,
        help_text=_("This draft ends. Samples made from it are withdrawn."),
    )
    reason = forms.CharField(label=_("Reason"), max_length=2_000, widget=forms.Textarea(attrs={"rows": 2}))
