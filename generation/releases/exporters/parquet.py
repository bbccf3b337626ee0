"""Parquet: `samples.parquet` and `rubrics.parquet`, joined by `sample_id`.

Nested values are JSON text, traps are a list. The same samples give the same bytes under the same
version of pyarrow, which writes its version into the file.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from generation.releases.exporters.base import (
    ADDED,
    NESTED,
    NOTHING,
    PLAIN,
    About,
    Exporter,
    Samples,
    canonical,
    check_columns,
    replace_files,
)

if TYPE_CHECKING:
    import pyarrow as pa

# These columns have few values, so a dictionary pays off; for others it only costs memory.
REPEATED = ["benchmark", "task", *ADDED]
# The size of a row group: this many rows, or fewer if they are long. Fixed, because it determines
# the bytes. Memory holds these rows, and until the end the file's metadata on each group.
_ROWS, _CHARACTERS = 1000, 2**20


class ParquetExporter(Exporter):
    """Two Parquet files."""

    name = "parquet"
    label = "Parquet"

    def write(self, samples: Samples, folder: Path, about: About = NOTHING) -> list[Path]:
        """Write `samples.parquet` and `rubrics.parquet`; see `Exporter.write`."""
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        pa.set_memory_pool(pa.system_memory_pool())  # other pools reserve 15 MB, and this needs 3
        paths = [folder / "samples.parquet", folder / "rubrics.parquet"]
        sample_schema, rubric_schema = _schemas()
        # Statistics would keep the first and last text of each column and row group in memory.
        options: dict[str, Any] = {"compression": "zstd", "write_statistics": False}
        with (
            replace_files(*paths) as [samples_path, rubrics_path],
            ParquetWriter(samples_path, sample_schema, use_dictionary=REPEATED, **options) as samples_file,
            ParquetWriter(rubrics_path, rubric_schema, **options) as rubrics_file,
        ):
            sample_rows: list[dict[str, Any]] = []
            rubric_rows: list[dict[str, Any]] = []
            size = 0
            for sample in check_columns(samples):
                plain = {column: sample.get(column, "") for column in PLAIN}
                nested = {column: canonical(sample.get(column, {})) for column in NESTED}
                sample_rows.append(plain | nested)
                size += sum(map(len, nested.values()))
                rubric_rows += (
                    {"sample_id": sample["sample_id"], "polarity": "", **rubric} for rubric in sample["rubrics"]
                )
                if len(sample_rows) == _ROWS or size >= _CHARACTERS:
                    samples_file.write_batch(pa.RecordBatch.from_pylist(sample_rows, sample_schema))
                    sample_rows.clear()
                    size = 0
                while len(rubric_rows) >= _ROWS:
                    rubrics_file.write_batch(pa.RecordBatch.from_pylist(rubric_rows[:_ROWS], rubric_schema))
                    del rubric_rows[:_ROWS]
            if sample_rows:
                samples_file.write_batch(pa.RecordBatch.from_pylist(sample_rows, sample_schema))
            if rubric_rows:
                rubrics_file.write_batch(pa.RecordBatch.from_pylist(rubric_rows, rubric_schema))
        return paths


def _schemas() -> "tuple[pa.Schema, pa.Schema]":
    import pyarrow as pa

    types = {"version": pa.int64(), "simulated": pa.bool_()}
    columns = [pa.field(column, types.get(column, pa.string()), nullable=False) for column in (*PLAIN, *NESTED)]
    traps = pa.list_(pa.field("element", pa.string(), nullable=False))
    rubric_columns = ("sample_id", "key", "criterion", "traps", "severity", "polarity")
    rubrics = [pa.field(name, traps if name == "traps" else pa.string(), nullable=False) for name in rubric_columns]
    return pa.schema(columns), pa.schema(rubrics)
