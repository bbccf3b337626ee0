"""CSV: `samples.csv` and `rubrics.csv`, joined by `sample_id`; UTF-8, RFC 4180.

Nested values are JSON text. `review.common.csv_text` says which cells get a leading apostrophe, and
how the original is restored.
"""

from pathlib import Path
from typing import Any

from generation.releases.exporters.base import (
    NESTED,
    NOTHING,
    PLAIN,
    About,
    Exporter,
    Samples,
    canonical,
    check_columns,
    open_text,
    replace_files,
)
from review.common.csv_text import BOM, END, line

RUBRIC = ("key", "criterion", "traps", "severity", "polarity")


class CsvExporter(Exporter):
    """CSV files for spreadsheets and data frames."""

    name = "csv"
    label = "CSV"

    def write(self, samples: Samples, folder: Path, about: About = NOTHING) -> list[Path]:
        """Write `samples.csv` and `rubrics.csv`; see `Exporter.write`."""
        paths = [folder / "samples.csv", folder / "rubrics.csv"]
        with (
            replace_files(*paths) as [samples_path, rubrics_path],
            open_text(samples_path, "") as samples_file,
            open_text(rubrics_path, "") as rubrics_file,
        ):
            samples_file.write(BOM + line([*PLAIN, *NESTED]) + END)
            rubrics_file.write(BOM + line(["sample_id", *RUBRIC]) + END)
            for sample in check_columns(samples):
                plain = [_text(sample.get(column, "")) for column in PLAIN]
                samples_file.write(line([*plain, *(canonical(sample.get(column, {})) for column in NESTED)]) + END)
                for rubric in sample["rubrics"]:
                    cells = [rubric.get(name, "") for name in RUBRIC if name != "traps"]
                    cells.insert(RUBRIC.index("traps"), canonical(rubric["traps"]))
                    rubrics_file.write(line([plain[0], *cells]) + END)
        return paths


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)
