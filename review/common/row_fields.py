"""A form field of rows with the same controls, in place of lists that are typed in a notation."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import ErrorDict
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from review.labels import with_label

MAX_ROWS = 200
ADD_ROW = "add-row"  # the button that asks for the form again, with another row


class RowsWidget(forms.Widget):
    """Rows of the same controls, and an empty one. The button for more works without JavaScript.

    `known`: (value, label) of what is offered in the last column, in which anything can be typed.
    """

    use_fieldset = True

    def __init__(self, columns: Mapping[str, forms.Field], known: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__()
        self.columns, self.known = columns, known

    def names(self, name: str) -> list[str]:
        """The names that the controls of a field are sent under."""
        return [f"{name}.{column}" for column in self.columns]

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[tuple[str, ...]]:
        """The rows that are not empty."""
        columns = [data.getlist(control)[: MAX_ROWS + 1] for control in self.names(name)]
        return [row for row in zip_longest(*columns, fillvalue="") if any(map(str.strip, row))]

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        return not any(control in data for control in self.names(name))

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        rows: Iterable[Sequence[Any]] = [*(value or ()), [""] * len(self.columns)]
        listed = ""
        if self.known:
            listed = f"{name}-known"
        *plain, last = self.columns.values()
        *names, last_name = self.names(name)
        last_attrs = {}
        if listed:
            last_attrs = {"list": listed}
        cells = []
        for row in rows:
            *row_cells, last_cell = row
            controls = []
            for control, column, cell in zip(names, plain, row_cells, strict=True):
                controls.append((column.label, column.widget.render(control, cell, {})))
            controls.append((last.label, last.widget.render(last_name, last_cell, last_attrs)))
            cells.append(controls)
        context = {"rows": cells, "name": name, "button": ADD_ROW, "known": self.known, "listed": listed}
        return render_to_string("components/rows.html", context)


class RowsField(forms.Field):
    """A list of rows, each a tuple with a value for every column. Make a new one for each form.

    `keys`: so many columns at the start say what a row is about, and no other row may.
    """

    def __init__(
        self,
        columns: Mapping[str, forms.Field],
        known: Sequence[tuple[str, str]] = (),
        *,
        keys: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(widget=RowsWidget(columns, known), **{"required": False, **options})
        self._columns, self._keys = columns, keys

    def clean(self, value: Any) -> list[tuple[Any, ...]]:
        """The rows. Raises ValidationError naming row and column."""
        if len(value or ()) > MAX_ROWS:
            raise ValidationError(gettext("More than %(most)s entries.") % {"most": MAX_ROWS})
        rows: list[tuple[Any, ...]] = []
        faults = []
        for number, row in enumerate(value or (), start=1):
            cleaned = []
            for column, cell in zip(self._columns.values(), row, strict=True):
                try:
                    cleaned.append(column.clean(cell))
                except ValidationError as error:
                    place = gettext("row %(n)d, %(column)s") % {"n": number, "column": column.label}
                    faults.append(with_label(place, " ".join(error.messages)))
            key = tuple(cleaned)[: self._keys]
            if self._keys and any(other[: self._keys] == key for other in rows):
                faults.append(gettext("Row %(n)d repeats an earlier one.") % {"n": number})
            rows.append(tuple(cleaned))
        if faults:
            raise ValidationError(faults)
        return rows


class GrowingForm(forms.Form):
    """A form with such a field."""

    def is_growing(self) -> bool:
        """Whether *Add row* asks for the form as it was typed. Nothing is checked then."""
        if grows := self.is_bound and ADD_ROW in self.data:
            self._errors = ErrorDict()
        return grows
