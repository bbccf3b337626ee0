"""The one form in which names of accounts are stored, looked up, counted and mentioned."""

from typing import Any
from unicodedata import normalize

from django.db import models


def normal(name: str) -> str:
    """`name` in Unicode's compatibility form, without differences of case: full-width and capital letters are plain ones."""
    return normalize("NFKC", normalize("NFKC", name).casefold())


class NameField(models.CharField[str, str]):
    """A name in its normal form, whatever it was assigned or looked up as: `SEC1` finds `sec1`, and cannot stand beside it."""

    def to_python(self, value: Any) -> Any:
        return _normal(super().to_python(value))

    def get_prep_value(self, value: Any) -> Any:
        return _normal(super().get_prep_value(value))

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        setattr(model_instance, self.attname, _normal(getattr(model_instance, self.attname)))
        return super().pre_save(model_instance, add)


def _normal(value: Any) -> Any:
    return normal(value) if isinstance(value, str) else value
