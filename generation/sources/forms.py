"""The forms that import a file."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from generation.errors import WrongMapping
from generation.jobs.forms import SettingsForm
from generation.models import SavedMapping
from generation.sources import importers, own_tables
from generation.sources.own_tables import OwnTable
from generation.sources.settings import ImportSettings


def _formats() -> list[tuple[str, str]]:
    """None, to recognise it; own files, whose columns are mapped in a second step; all others."""
    names = sorted(importers.available(), key=importers.TABLE.__ne__)
    labels = [(name, str(_(importers.load(name).label))) for name in names]
    return [("", str(_("Recognise it from the file"))), *labels]


class ImportForm(SettingsForm):
    """Imports a file into a source."""

    settings_class = ImportSettings
    omitted = own_tables.TERMS  # asked for with the columns of a table
    field_order = ("format", "name", "update", "file")

    format = forms.ChoiceField(label=_("Format"), choices=_formats, required=False)
    name = forms.SlugField(
        label=_("Source name"),
        max_length=100,
        error_messages={"invalid": _("Use letters, digits, hyphens and underscores only, without spaces.")},
        help_text=_(
            "Use letters, digits and hyphens. With an existing name, the file is added to that source; "
            "records are never added twice."
        ),
    )
    file = forms.FileField(
        label=_("File"),
        help_text=_(
            "A published data set: the file as its authors publish it, unpacked. Your own cases: CSV, TSV, JSON or Parquet; "
            "you say in the next step what each column is."
        ),
    )


# What a preview shows of a record; letters are those of options.
PART_LABELS = {
    "text": _("Text"),
    "user": _("Patient"),
    "assistant": pgettext_lazy("speaker", "Doctor or assistant"),
    "question": _("Question"),
    "answer": _("Correct answer"),
    "context": _("Passage"),
    "specialty": _("Specialty"),
    "licence": _("Licence"),
}


class TableForm(SettingsForm):
    """What is said of a table besides its columns."""

    settings_class = ImportSettings
    field_order = ("language", "specialty", *own_tables.TERMS, "update", "save_as")

    language = forms.CharField(
        label=_("Language of all records"),
        required=False,
        max_length=20,
        help_text=_("A code such as en, de or zh. Without it and without a column, it is recognised from the text."),
    )
    specialty = forms.CharField(label=_("Specialty of all records"), required=False, max_length=100)
    save_as = forms.SlugField(
        label=_("Save these columns as"),
        required=False,
        max_length=100,
        error_messages={"invalid": _("Use letters, digits, hyphens and underscores only, without spaces.")},
        help_text=_("A name, to use the same columns for the next file. An existing one is replaced."),
    )

    def __init__(self, data: Any, *, has_source: bool, initial: dict[str, Any]) -> None:
        super().__init__(data, initial=initial)
        if has_source:  # which keeps its terms
            for name in own_tables.TERMS:
                del self.fields[name]

    @property
    def chosen(self) -> dict[str, str]:
        """column -> the field that was chosen for it."""
        pairs = zip(self.data.getlist("column"), self.data.getlist("field"), strict=False)  # type: ignore[attr-defined]  # of a request
        return {column: field for column, field in pairs if field}

    def clean(self) -> None:
        columns: dict[str, list[str]] = {}
        for column, field in self.chosen.items():
            columns.setdefault(field, []).append(column)
        values = {}
        for name in ("language", "specialty"):
            if self.cleaned_data.get(name):
                values[name] = self.cleaned_data[name]
        try:
            self.mapping = own_tables.read_mapping({"columns": columns, "values": values})
        except WrongMapping as error:
            self.add_error(None, str(error))

    @property
    def own_table(self) -> OwnTable:
        """What was said, as an import takes it."""
        terms = {name: self.cleaned_data.get(name, "") for name in own_tables.TERMS}
        return OwnTable(self.mapping, **terms)


class SavedMappingForm(forms.Form):
    """Chooses a saved mapping."""

    mapping = forms.ModelChoiceField(
        label=_("Saved columns"), queryset=SavedMapping.objects.order_by("name"), to_field_name="name"
    )
