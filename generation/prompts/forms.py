"""The form that edits a prompt set."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from generation.prompts import services
from generation.prompts.queries import ShownSet
from review.rules import limits


class PromptSetForm(forms.Form):
    """The texts of a set, saved as the next version of a set of one's own."""

    name = forms.RegexField(
        label=_("Name of the set"),
        regex=services.NAME.pattern + r"\Z",
        max_length=40,
        help_text=_("Letters a-z, digits, - and _. An existing name of yours gets its next version."),
    )
    note = forms.CharField(
        label=_("Note"),
        required=False,
        max_length=500,
        help_text=_("What changed and why, or where the wording is from."),
    )

    def __init__(self, data: Any, *, base: ShownSet) -> None:
        name = ""
        if base.stored:
            name = base.stored.name
        super().__init__(data, initial={"name": name})
        self._base = base
        for file, text in sorted(base.texts.items()):
            self.fields[f"text-{file}"] = forms.CharField(
                label=f"{file}.md",
                initial=text,
                max_length=limits.PROMPT,
                strip=False,
                widget=forms.Textarea(attrs={"rows": 18, "class": "mono", "spellcheck": "false"}),
            )

    @property
    def texts(self) -> dict[str, str]:
        """The texts by file, as far as they are valid."""
        valid = self.cleaned_data.items()
        return {name.removeprefix("text-"): text for name, text in valid if name.startswith("text-")}

    def clean(self) -> None:
        for file, faults in services.problems(self._base.benchmark, self.texts).items():
            for fault in faults:
                self.add_error(f"text-{file}", fault)
