"""Forms of the pages on drafts."""

from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from generation.models import Draft
from generation.recipes import registry


class DecisionForm(forms.Form):
    """Why a stopped draft is let through or discarded."""

    reason = forms.CharField(label=_("Reason"), max_length=2_000, widget=forms.Textarea(attrs={"rows": 3}))


class FindingFilters(forms.Form):
    """Which findings to list; what is not understood is left out."""

    check = forms.ChoiceField(label=_("Check"), required=False)
    state = forms.ChoiceField(label=_("Status"), required=False, choices=[("", _("all")), *Draft.Gate.choices])

    def __init__(self, *args: Any, benchmark: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = [(name, gettext(registry.check_label(benchmark, name))) for name in registry.check_names(benchmark)]
        self.fields["check"].choices = [("", _("all")), *names]  # type: ignore[attr-defined]

    @property
    def wanted(self) -> dict[str, str]:
        """The filters that were understood, by the names of `queries.findings`."""
        return {name: value for name, value in self.cleaned_data.items() if value}
