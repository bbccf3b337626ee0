"""polars, imported when it is first used: it takes a quarter of a second and 45 MB of a process."""

from importlib import import_module
from typing import TYPE_CHECKING, Any


class _LateModule:
    """A module that is imported with the first of its names that is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


if TYPE_CHECKING:
    import polars as pl
else:
    pl = _LateModule("polars")

__all__ = ["pl"]
