"""JSON Lines: `samples.jsonl`, one sample on each line including its rubrics, UTF-8."""

from collections.abc import Mapping
from typing import Any

from generation.releases.exporters.base import NESTED, PLAIN, LinesExporter, canonical


class JsonLinesExporter(LinesExporter):
    """The plain format, of which a release's checksum is taken."""

    name = "jsonl"
    label = "JSON Lines"
    lines = "samples.jsonl"

    def line(self, sample: Mapping[str, Any]) -> str:
        """The columns in a fixed order, each as canonical JSON; the rubrics come last."""
        names = [column for column in (*PLAIN, *NESTED, "rubrics") if column in sample]
        return "{" + ",".join(f'"{column}":{canonical(sample[column])}' for column in names) + "}"
