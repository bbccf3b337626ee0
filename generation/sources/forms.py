"""The import form."""

from django import forms
from django.utils.translation import gettext_lazy as _

from generation.sources import importers


def _formats() -> list[tuple[str, str]]:
    return [(name, importers.load(name).label) for name in importers.available()]


class ImportForm(forms.Form):
    """Imports a file into a source."""

    format = forms.ChoiceField(label=_("Format"), choices=_formats)
    name = forms.SlugField(
        label=_("Source name"),
        max_length=100,
        error_messages={"invalid": _("Use letters, digits, hyphens and underscores only, without spaces.")},
        help_text=_(
            "Use letters, digits and hyphens. With an existing name, the file is added to that source; "
            "records are never added twice."
        ),
    )
    update = forms.BooleanField(
        label=_("Update records that differ"),
        required=False,
        help_text=_("A record with a known ID and another content becomes its next revision. Samples keep theirs."),
    )
    file = forms.FileField(label=_("File"), help_text=_("The file as its authors publish it, unpacked."))
