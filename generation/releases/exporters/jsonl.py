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
        columns = []
        for name in (*PLAIN, *NESTED, "rubrics"):
            if name in sample:
                columns.append(f'"{name}":{canonical(sample[name])}')
        return "{" + ",".join(columns) + "}"
