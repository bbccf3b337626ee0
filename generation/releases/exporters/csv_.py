"""CSV: `samples.csv` and `rubrics.csv`, joined by `sample_id`; UTF-8, RFC 4180. Nested values are JSON text.

A spreadsheet runs a cell that begins like a formula, and the text of a sample comes from models and from people. So a
cell that begins with one of = + - @ (also full-width), TAB, CR or LF gets an apostrophe in front; so does one that
begins with an apostrophe. To get the original back, take one leading apostrophe away from every cell that has one.
"""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generation.releases.exporters.base import NESTED, PLAIN, canonical, checked, replacing

name = "csv"
label = "CSV"

RUBRIC = ("key", "criterion", "traps", "severity", "polarity")
_DANGEROUS = tuple("=+-@＝＋－＠\t\r\n'")


def write(samples: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write `samples.csv` and `rubrics.csv`; see `Exporter.write`."""
    paths = [folder / "samples.csv", folder / "rubrics.csv"]
    with (
        replacing(*paths) as [samples_path, rubrics_path],
        samples_path.open("w", encoding="utf-8", newline="") as samples_file,
        rubrics_path.open("w", encoding="utf-8", newline="") as rubrics_file,
    ):
        samples_csv, rubrics_csv = csv.writer(samples_file), csv.writer(rubrics_file)
        samples_csv.writerow([*PLAIN, *NESTED])
        rubrics_csv.writerow(["sample_id", *RUBRIC])
        for sample in checked(samples):
            plain = [_cell(sample.get(column, "")) for column in PLAIN]
            samples_csv.writerow([*plain, *(canonical(sample.get(column, {})) for column in NESTED)])
            for rubric in sample["rubrics"]:
                rubrics_csv.writerow(map(_cell, [sample["sample_id"], *(rubric.get(name, "") for name in RUBRIC)]))
    return paths


def _cell(value: Any) -> str:
    return spreadsheet_safe(value if isinstance(value, str) else canonical(value))


def spreadsheet_safe(text: str) -> str:
    """A text as a cell that no spreadsheet runs."""
    return f"'{text}" if text.startswith(_DANGEROUS) else text
