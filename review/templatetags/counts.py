"""Counts with thousands separators."""

from django import template
from django.utils.formats import number_format

register = template.Library()


class Grouped(int):
    """A number that shows its thousands wherever it is printed, and still chooses between singular and plural."""

    def __str__(self) -> str:
        return number_format(int(self), force_grouping=True)


@register.filter
def grouped(value: object) -> object:
    """A count as it is shown: "1,234". What is no whole number stays as it is."""
    return Grouped(value) if isinstance(value, int) else value
