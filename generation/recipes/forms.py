"""Benchmarks as choices of a form."""

from django.utils.translation import gettext

from generation.recipes import registry


def benchmark_choices() -> list[tuple[str, str]]:
    """(name, label) of every benchmark."""
    return [(name, gettext(registry.recipe(name).label)) for name in registry.names()]
