"""Releases out as files. One module is one format; see `base` for what it must offer and what goes in."""

from typing import cast

from generation.common import formats
from generation.releases.exporters.base import Exporter

__all__ = ["Exporter", "available", "load"]

_HELPERS = frozenset({"base", "croissant", "manifest", "programs", "record_sets", "references"})


def available() -> list[str]:
    """The names of all formats that can be exported, sorted."""
    return list(formats.modules(__name__, helpers=_HELPERS))


def load(name: str) -> Exporter:
    """The exporter called `name`. Raises `generation.common.formats.UnknownFormat`."""
    return cast(Exporter, formats.load(__name__, name, helpers=_HELPERS))
