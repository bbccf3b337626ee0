"""Counts with thousands separators."""

from django import template
from django.utils.formats import number_format

register = template.Library()


class GroupedNumber(int):
    """An integer that prints with thousands separators, and can still select a plural form."""

    def __str__(self) -> str:
        return number_format(int(self), force_grouping=True)


@register.filter
def grouped(value: object) -> object:
    """An integer with thousands separators ("1,234"); anything else is returned unchanged."""
    if isinstance(value, int):
        return GroupedNumber(value)
    return value
