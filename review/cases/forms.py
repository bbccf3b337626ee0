"""Forms of the admin's pages on cases."""

from django import forms
from django.utils.translation import gettext_lazy


class WithdrawForm(forms.Form):
    """Why a case is taken away from the physicians."""

    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2000, widget=forms.Textarea(attrs={"rows": 3}))


class PriorityForm(forms.Form):
    """The priority of a case; cases with a higher one are assigned first."""

    priority = forms.IntegerField(label=gettext_lazy("Priority"), min_value=-100, max_value=100)
