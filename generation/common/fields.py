"""Form fields."""

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from review.rules import json_nesting


class NamesSecret(forms.BaseForm):
    """A form with the name of a variable; a refused one may be the secret: not shown again."""

    hidden_if_refused = ""  # the name of its field

    def full_clean(self) -> None:
        super().full_clean()
        if self.is_bound and self.hidden_if_refused in self.errors:
            typed = self.data.copy()  # type: ignore[attr-defined]
            typed[self.add_prefix(self.hidden_if_refused)] = ""
            self.data = typed


class JSONValueField(forms.CharField):
    """One value of JSON, as a person types it: what is no JSON is a text, without quotes."""

    def to_python(self, value: Any) -> Any:
        typed = super().to_python(value) or ""
        try:
            json_nesting.check(typed)
            value = json.loads(typed)
            json.dumps(value, allow_nan=False)  # Python also reads NaN and Infinity, which are no JSON
            return value
        except json_nesting.TooDeep:
            raise ValidationError(_("The JSON is nested too deeply.")) from None
        except ValueError:
            return typed

    def run_validators(self, value: Any) -> None:
        super().run_validators(value if isinstance(value, str) else json.dumps(value))

    @staticmethod
    def typed(value: Any) -> str:
        """What to type for this value."""
        if isinstance(value, str) and JSONValueField().to_python(value) == value:
            return value
        return json.dumps(value, ensure_ascii=False)
