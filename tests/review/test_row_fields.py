"""Rows of controls in a form."""

import pytest
from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from review.common.row_fields import MAX_ROWS, RowsField


@pytest.mark.plain
def test_rows_beyond_the_limit_are_refused_and_not_dropped() -> None:
    field = RowsField({"name": forms.CharField(label="Name")})

    def rows(count: int) -> list[tuple[str, ...]]:
        data = QueryDict(mutable=True)
        data.setlist("pairs.name", ["x"] * count)
        return field.clean(field.widget.value_from_datadict(data, {}, "pairs"))

    assert len(rows(MAX_ROWS)) == MAX_ROWS
    with pytest.raises(ValidationError):
        rows(MAX_ROWS + 1)
