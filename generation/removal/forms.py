"""The form that deletes something."""

from django import forms
from django.utils.translation import gettext_lazy as _


class DeletionForm(forms.Form):
    """Why, and that it is meant."""

    reason = forms.CharField(
        label=_("Reason"),
        help_text=_("It stays in the audit trail. Do not repeat the text."),
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    sure = forms.BooleanField(label=_("Delete it for good"))
