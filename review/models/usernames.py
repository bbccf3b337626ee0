"""The normal form in which usernames are stored, looked up, rate-limited and mentioned."""

from typing import Any
from unicodedata import normalize

from django.db import models


def normalize_username(name: str) -> str:
    """`name` in Unicode's compatibility form (NFKC), case-folded."""
    return normalize("NFKC", normalize("NFKC", name).casefold())


class NameField(models.CharField[str, str]):
    """A username, stored and looked up in its normal form: `SEC1` and `sec1` are equal."""

    def to_python(self, value: Any) -> Any:
        return _normalize_text(super().to_python(value))

    def get_prep_value(self, value: Any) -> Any:
        return _normalize_text(super().get_prep_value(value))

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        setattr(model_instance, self.attname, _normalize_text(getattr(model_instance, self.attname)))
        return super().pre_save(model_instance, add)


def _normalize_text(value: Any) -> Any:
    if isinstance(value, str):
        return normalize_username(value)
    return value
