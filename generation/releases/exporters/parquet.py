"""Parquet: `samples.parquet` and `rubrics.parquet`, joined by `sample_id`.

Nested values are JSON text, traps are a list. The same samples give the same bytes under the same
version of pyarrow, which writes its version into the file.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generation.releases.exporters.base import ADDED, NESTED, PLAIN, RUBRIC, Exporter, Samples, flat

if TYPE_CHECKING:
    import pyarrow as pa

# These columns have few values, so a dictionary pays off; for others it only costs memory.
REPEATED = ["benchmark", "task", *ADDED]
# The size of a row group: this many rows, or fewer if they are long. Fixed, because it determines
# the bytes. Memory holds these rows, and until the end the file's metadata on each group.
_ROWS, _CHARACTERS = 1000, 2**20


@contextmanager
def rows_of(
    path: Path, schema: "pa.Schema", *, group: int, **options: Any
) -> Iterator[Callable[[dict[str, Any], int], None]]:
    """Write a Parquet file by the function given, which takes a row and its number of characters.

    `group`: rows in a row group at most; `options`: of the writer.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    pa.set_memory_pool(pa.system_memory_pool())  # other pools reserve 15 MB, and this needs 3
    rows: list[dict[str, Any]] = []
    size = 0
    with ParquetWriter(path, schema, compression="zstd", **options) as file:

        def add(row: dict[str, Any], characters: int = 0) -> None:
            nonlocal size
            rows.append(row)
            size += characters
            if len(rows) == group or size >= _CHARACTERS:
                flush()

        def flush() -> None:
            nonlocal size
            file.write_batch(pa.RecordBatch.from_pylist(rows, schema))
            rows.clear()
            size = 0

        yield add
        if rows:
            flush()


class ParquetExporter(Exporter):
    """Two Parquet files."""

    name = "parquet"
    label = "Parquet"
    files = ("samples.parquet", "rubrics.parquet")

    def write_files(self, samples: Samples, paths: list[Path]) -> None:
        sample_schema, rubric_schema = _schemas()
        # Statistics would keep the first and last text of each column and row group in memory.
        options: dict[str, Any] = {"group": _ROWS, "write_statistics": False}
        with (
            rows_of(paths[0], sample_schema, use_dictionary=REPEATED, **options) as add_sample,
            rows_of(paths[1], rubric_schema, **options) as add_rubric,
        ):
            for sample in samples:
                row = flat(sample)
                add_sample(row, sum(len(row[column]) for column in NESTED))
                for rubric in sample["rubrics"]:
                    add_rubric({"sample_id": sample["sample_id"], "polarity": "", **rubric}, 0)


def plain_columns(*, nullable: bool) -> "list[pa.Field[Any]]":
    """The columns of a sample's row."""
    import pyarrow as pa

    types = {"version": pa.int64(), "simulated": pa.bool_()}
    return [pa.field(column, types.get(column, pa.string()), nullable=nullable) for column in (*PLAIN, *NESTED)]


def _schemas() -> "tuple[pa.Schema, pa.Schema]":
    import pyarrow as pa

    types = {"traps": pa.list_(pa.field("element", pa.string(), nullable=False))}
    rubrics = [pa.field(name, types.get(name, pa.string()), nullable=False) for name in ("sample_id", *RUBRIC)]
    return pa.schema(plain_columns(nullable=False)), pa.schema(rubrics)
