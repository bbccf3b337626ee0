"""JSON Lines: `samples.jsonl`, one sample on each line including its rubrics, UTF-8."""

from collections.abc import Mapping
from typing import Any

from generation.releases.exporters.base import NESTED, PLAIN, LinesExporter, canonical, canonical_rubrics

_ORDER = (*PLAIN, *NESTED)
_NAMED = {column: f'"{column}":' for column in (*_ORDER, "rubrics")}


class JsonLinesExporter(LinesExporter):
    """The plain format, of which a release's checksum is taken."""

    name = "jsonl"
    label = "JSON Lines"
    lines = "samples.jsonl"

    def line(self, sample: Mapping[str, Any]) -> str:
        """The sample with all its columns."""
        return as_object(encoded(sample))


def encoded(sample: Mapping[str, Any]) -> dict[str, str]:
    """The values of a sample as JSON, in the order of the line; the rubrics come last."""
    fields = {column: canonical(sample[column]) for column in _ORDER if column in sample}
    return {**fields, "rubrics": canonical_rubrics(sample["rubrics"])}


def as_object(fields: Mapping[str, str], end: str = "") -> str:
    """A JSON object from encoded values, joined in one go: most of it is one long value."""
    parts = [""]
    for column, value in fields.items():
        parts += _NAMED[column], value, ","
    parts[0], parts[-1] = "{", "}" + end
    return "".join(parts)


def line(fields: Mapping[str, str]) -> str:
    """The sample's line in the file."""
    return as_object(fields, end="\n")
