"""Forms of the pages on drafts."""

from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from generation.models import Draft
from generation.recipes import registry
from review.common.lists import ALL, Filters


class DecisionForm(forms.Form):
    """The reason for letting a stopped draft through, or for discarding it."""

    reason = forms.CharField(label=_("Reason"), max_length=2_000, widget=forms.Textarea(attrs={"rows": 3}))


class FindingFilters(Filters):
    """Which findings to list."""

    text = forms.CharField(label=_("Record"), required=False, widget=forms.SearchInput)
    check = forms.ChoiceField(label=_("Check"), required=False)
    state = forms.ChoiceField(label=_("Status"), required=False, choices=[ALL, *Draft.Gate.choices])

    def __init__(self, *args: Any, benchmark: str, **kwargs: Any) -> None:
        self._benchmark = benchmark
        super().__init__(*args, **kwargs)

    def full_clean(self) -> None:
        names = registry.check_names(self._benchmark)
        labels = [(name, gettext(registry.check_label(self._benchmark, name))) for name in names]
        self.fields["check"].choices = [ALL, *labels]  # type: ignore[attr-defined]
        super().full_clean()
