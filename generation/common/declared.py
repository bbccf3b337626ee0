"""Declared data in JSON files: terms, roles, presets, rates, providers."""

from pathlib import Path
from typing import TypeVar

from pydantic import ConfigDict, TypeAdapter

D = TypeVar("D")


def read_declared(kind: type[D], module: str, name: str) -> tuple[D, ...]:
    """The entries of the JSON file `name` beside a module, as values of the dataclass `kind`.

    Raises ValueError for a field that the dataclass does not have or that has another type.
    """
    config = ConfigDict(arbitrary_types_allowed=True)
    entries = TypeAdapter[tuple[D, ...]](tuple[kind, ...], config=config)  # type: ignore[valid-type]
    return entries.validate_json(Path(module).with_name(name).read_bytes(), extra="forbid")
