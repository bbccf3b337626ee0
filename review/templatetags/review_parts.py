"""`{% part name value=... %}`: what recurs from case to case."""

from functools import lru_cache
from typing import Any

from django import template
from django.template import Context
from django.template.loader import get_template
from django.utils.safestring import SafeString
from django.utils.translation import get_language

register = template.Library()


@register.simple_tag
def part(name: str, **values: Any) -> SafeString:
    """A template that sees `values` and nothing else: an empty question of a form is the same on every case, and rendered once.

    The values are compared, so they are plain: numbers, texts and frozen dataclasses of them.
    """
    return _rendered(name, get_language(), tuple(values.items()))


@lru_cache(maxsize=2_000)  # of one or two kilobytes each
def _rendered(name: str, _language: str | None, values: tuple[tuple[str, Any], ...]) -> SafeString:
    found: SafeString = get_template(name).template.render(Context(dict(values)))  # type: ignore[attr-defined]
    return found
