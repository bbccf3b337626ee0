"""Form fields."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.utils.translation import gettext_lazy as _

from review.rules import json_nesting


class ShallowJSON(forms.JSONField):
    """A JSON field that refuses JSON nested deeper than `json_nesting` allows."""

    def to_python(self, value: Any) -> Any:
        try:
            json_nesting.check(value or "")
        except json_nesting.TooDeep:
            raise ValidationError(_("The JSON is nested too deeply.")) from None
        return super().to_python(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Keep the text as typed: re-encoded, half of a surrogate pair would break the page."""
        return data if data is None else InvalidJSONInput(data)

    def prepare_value(self, value: Any) -> Any:
        """Show None as an empty field; Django would show the word null."""
        return "" if value is None else super().prepare_value(value)
