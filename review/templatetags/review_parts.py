"""`{% part name value=... %}`: cached parts of pages that recur from case to case."""

from functools import lru_cache
from typing import Any

from django import template
from django.template import Context
from django.template.loader import get_template
from django.urls import get_script_prefix
from django.utils.safestring import SafeString
from django.utils.translation import get_language

register = template.Library()


@register.simple_tag
def part(name: str, **values: Any) -> SafeString:
    """Render and cache a template with `values` only, e.g. a question without answers.

    The values are the cache key, so they must be plain: numbers, texts, frozen dataclasses of them.
    """
    return _render_cached(name, get_language(), get_script_prefix(), tuple(values.items()))


@lru_cache(maxsize=2_000)  # 1 to 2 KB each
def _render_cached(name: str, _language: str | None, _prefix: str, values: tuple[tuple[str, Any], ...]) -> SafeString:
    html: SafeString = get_template(name).template.render(Context(dict(values)))  # type: ignore[attr-defined]
    return html
