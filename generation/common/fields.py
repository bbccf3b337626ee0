"""Fields of forms."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from review.rules import json_nesting


class ShallowJSON(forms.JSONField):
    """JSON that nests no deeper than JSON may here."""

    def to_python(self, value: Any) -> Any:
        try:
            json_nesting.check(value or "")
        except json_nesting.TooDeep:
            raise ValidationError(_("The JSON is nested too deeply.")) from None
        return super().to_python(value)

    def prepare_value(self, value: Any) -> Any:
        """Empty where nothing is given; Django would show the word null."""
        return "" if value is None else super().prepare_value(value)
