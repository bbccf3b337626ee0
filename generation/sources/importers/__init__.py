"""Importers: published data sets in, good rows and refusals out.

Each module is one format. `base.Importer` is the interface that it must offer.
"""

from pathlib import Path
from typing import cast

from generation.common import formats
from generation.sources.importers.base import Importer, Layout, LimitsExceeded, Refusal, Row, WrongFormat

__all__ = [
    "Importer",
    "Layout",
    "LimitsExceeded",
    "Refusal",
    "Row",
    "WrongFormat",
    "available",
    "load",
    "matching_formats",
]

TABLE = "table"  # the format of any table, whose columns a person maps
_HELPERS = frozenset(
    {"base", "bundles", "json_files", "pickles", "records", "table_mapping", "tables", "tabular", "visual_questions"}
)


def available() -> list[str]:
    """The names of all formats that can be imported, sorted."""
    return list(formats.modules(__name__, helpers=_HELPERS))


def load(name: str) -> Importer:
    """The importer called `name`. Raises `generation.common.formats.UnknownFormat`."""
    return cast(Importer, formats.load(__name__, name, helpers=_HELPERS))


def matching_formats(path: Path) -> list[str]:
    """Names of the formats that recognise the file by its beginning; `table` if no other does."""
    matches: list[str] = []
    for name in sorted(available(), key=TABLE.__eq__):
        if name == TABLE and matches:
            break
        try:
            load(name).sniff(path)
        except (WrongFormat, LimitsExceeded, OSError):
            continue
        matches.append(name)
    return matches
