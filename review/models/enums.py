"""The words of enums, as columns and constraints take them."""

from collections.abc import Iterable
from enum import StrEnum


def values_of(members: Iterable[StrEnum]) -> list[str]:
    """The values of an enum, or of some of its members."""
    return [member.value for member in members]


def choices_of(members: Iterable[StrEnum]) -> list[tuple[str, str]]:
    """The values as choices of a column, which pages show in words of their own."""
    return [(value, value) for value in values_of(members)]
