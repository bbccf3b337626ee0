"""A data set for the Hugging Face hub: `README.md` with its metadata and `test.parquet`.

`datasets.load_dataset(FOLDER)` reads it. One row for each sample, with messages and rubrics as
lists; values whose structure depends on the benchmark are JSON text.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generation.releases.exporters.base import NESTED, PLAIN, canonical, check_columns, replace_files
from generation.releases.exporters.parquet import REPEATED

if TYPE_CHECKING:
    import pyarrow as pa

name = "hf"
label = "Hugging Face"
asks = True

_ROW_GROUP = 200


def write(samples: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write `test.parquet`; see `Exporter.write`."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    pa.set_memory_pool(pa.system_memory_pool())  # other pools reserve 15 MB, and this needs 3
    path, schema = folder / "test.parquet", _schema()
    with (
        replace_files(path) as [temporary],
        ParquetWriter(temporary, schema, compression="zstd", use_dictionary=REPEATED) as file,
    ):
        rows: list[dict[str, Any]] = []
        for sample in check_columns(samples):
            row = {column: sample.get(column, "") for column in PLAIN}
            row |= {column: canonical(sample.get(column, {})) for column in NESTED}
            rubrics = [{"polarity": "", **rubric} for rubric in sample["rubrics"]]
            rows.append(row | {"messages": sample["messages"], "rubrics": rubrics})
            if len(rows) == _ROW_GROUP:
                file.write_batch(pa.RecordBatch.from_pylist(rows, schema))
                rows.clear()
        if rows:
            file.write_batch(pa.RecordBatch.from_pylist(rows, schema))
    return [path]


def readme(card: str, about: Mapping[str, Any]) -> str:
    """The data card below the hub's metadata. `about`: name, languages, samples, licences."""
    languages = [code for code in about["languages"] if code]
    size = next((label for limit, label in _SIZES if about["samples"] < limit), "n>1M")
    lines = [
        "---",
        f"pretty_name: {canonical(about['name'])}",
        *(["language:", *(f"- {canonical(code)}" for code in languages)] if languages else []),
        "license: other",
        f"license_name: {canonical(about['licence'])}",
        "task_categories:",
        "- text-generation",
        "- question-answering",
        "tags:",
        "- medical",
        "- hallucination",
        "- benchmark",
        "size_categories:",
        f"- {size}",
        "configs:",
        "- config_name: default",
        "  data_files:",
        "  - split: test",
        "    path: test.parquet",
        "---",
        "",
    ]
    return "\n".join(lines) + card


_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def _schema() -> "pa.Schema":
    import pyarrow as pa

    types = {"version": pa.int64(), "simulated": pa.bool_()}
    text = pa.string()
    message = pa.struct([("role", text), ("content", text)])
    rubric = pa.struct(
        [("key", text), ("criterion", text), ("traps", pa.list_(text)), ("severity", text), ("polarity", text)]
    )
    columns = [pa.field(column, types.get(column, text)) for column in (*PLAIN, *NESTED)]
    return pa.schema([*columns, pa.field("messages", pa.list_(message)), pa.field("rubrics", pa.list_(rubric))])
