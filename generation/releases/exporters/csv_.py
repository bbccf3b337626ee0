"""CSV: `samples.csv` and `rubrics.csv`, joined by `sample_id`; UTF-8, RFC 4180.

Nested values are JSON text. `review.common.csv_text` says which cells get a leading apostrophe, and
how the original is restored.
"""

from pathlib import Path
from typing import Any

from generation.releases.exporters.base import NESTED, PLAIN, RUBRIC, Exporter, Samples, canonical, flat, open_text
from review.common.csv_text import BOM, END, line


class CsvExporter(Exporter):
    """CSV files for spreadsheets and data frames."""

    name = "csv"
    label = "CSV"
    files = ("samples.csv", "rubrics.csv")

    def write_files(self, samples: Samples, paths: list[Path]) -> None:
        with open_text(paths[0], "") as samples_file, open_text(paths[1], "") as rubrics_file:
            samples_file.write(BOM + line([*PLAIN, *NESTED]) + END)
            rubrics_file.write(BOM + line(["sample_id", *RUBRIC]) + END)
            for sample in samples:
                samples_file.write(line(map(_text, flat(sample).values())) + END)
                for rubric in sample["rubrics"]:
                    cells = (_text(rubric.get(name, "")) for name in RUBRIC)
                    rubrics_file.write(line([sample["sample_id"], *cells]) + END)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return canonical(value)
