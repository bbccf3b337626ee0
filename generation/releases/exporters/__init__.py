"""Export formats of releases. Each module is one format; `base` describes what it must offer."""

from typing import cast

from generation.common import formats
from generation.releases.exporters.base import Exporter

__all__ = ["Exporter", "available", "load"]

_HELPERS = frozenset({"base", "croissant", "manifest", "programs", "record_sets", "references"})


def available() -> list[str]:
    """The names of all export formats, sorted."""
    return list(formats.modules(__name__, helpers=_HELPERS))


def load(name: str) -> Exporter:
    """The exporter with this name. Raises `generation.common.formats.UnknownFormat`."""
    return cast(Exporter, formats.load(__name__, name, helpers=_HELPERS))
