"""CSV: `samples.csv` and `rubrics.csv`, joined by `sample_id`; UTF-8, RFC 4180.

Nested values are JSON text.

Spreadsheets execute cells that begin like a formula, and the text of a sample comes from models and
people. So a cell that begins with one of = + - @ (also full-width), TAB, CR or LF gets a leading
apostrophe, and so does one that begins with an apostrophe. To restore the original, remove one
leading apostrophe from every cell that has one.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from generation.releases.exporters.base import (
    NESTED,
    PLAIN,
    Exporter,
    canonical,
    canonical_traps,
    check_columns,
    open_text,
    replace_files,
)

RUBRIC = ("key", "criterion", "traps", "severity", "polarity")
_DANGEROUS = frozenset("=+-@＝＋－＠\t\r\n'")
_QUOTED = re.compile('[",\r\n]').search
END = "\r\n"


class CsvExporter(Exporter):
    """CSV files for spreadsheets and data frames."""

    name = "csv"
    label = "CSV"

    def write(
        self, samples: Iterable[Mapping[str, Any]], folder: Path, about: Mapping[str, Any] = MappingProxyType({})
    ) -> list[Path]:
        """Write `samples.csv` and `rubrics.csv`; see `Exporter.write`."""
        paths = [folder / "samples.csv", folder / "rubrics.csv"]
        with (
            replace_files(*paths) as [samples_path, rubrics_path],
            open_text(samples_path, "") as samples_file,
            open_text(rubrics_path, "") as rubrics_file,
        ):
            samples_file.write(row([*PLAIN, *NESTED]) + END)
            rubrics_file.write(row(["sample_id", *RUBRIC]) + END)
            for sample in check_columns(samples):
                plain = [_safe(sample.get(column, "")) for column in PLAIN]
                samples_file.write(row([*plain, *(canonical(sample.get(column, {})) for column in NESTED)]) + END)
                for rubric in sample["rubrics"]:
                    cells = [spreadsheet_safe(rubric.get(name, "")) for name in RUBRIC if name != "traps"]
                    cells.insert(RUBRIC.index("traps"), canonical_traps(tuple(rubric["traps"])))
                    rubrics_file.write(row([plain[0], *cells]) + END)
        return paths


def row(cells: Iterable[str]) -> str:
    """A line of CSV without its line end; cells are quoted only if necessary.

    `csv.writer` looks at each character, which takes longer than everything else that is done to a
    sample.
    """
    return ",".join(['"' + cell.replace('"', '""') + '"' if _QUOTED(cell) else cell for cell in cells])


def _safe(value: Any) -> str:
    return spreadsheet_safe(value if isinstance(value, str) else canonical(value))


def spreadsheet_safe(text: str) -> str:
    """A text as a cell that no spreadsheet executes."""
    return f"'{text}" if text[:1] in _DANGEROUS else text
