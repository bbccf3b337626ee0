"""Published data sets in, good rows and refusals out. One module is one format; see `base` for what it must offer."""

from pathlib import Path
from typing import cast

from generation.common import formats
from generation.sources.importers.base import Exhausting, Importer, Layout, Refusal, Row, WrongFormat

__all__ = ["Exhausting", "Importer", "Layout", "Refusal", "Row", "WrongFormat", "available", "formats_of", "load"]

_HELPERS = frozenset({"base", "bundles", "columnar", "pickles", "tables", "tabular", "visual_questions"})


def available() -> list[str]:
    """The names of all formats that can be imported, sorted."""
    return list(formats.modules(__name__, helpers=_HELPERS))


def load(name: str) -> Importer:
    """The importer called `name`. Raises `generation.common.formats.UnknownFormat`."""
    return cast(Importer, formats.load(__name__, name, helpers=_HELPERS))


def formats_of(path: Path) -> list[str]:
    """The formats as which a file could be read, by its beginning."""
    found = []
    for name in available():
        try:
            load(name).sniff(path)
        except (WrongFormat, Exhausting, OSError):
            continue
        found.append(name)
    return found
