"""A data set for the Hugging Face hub: `README.md` with its metadata and `test.parquet`.

`datasets.load_dataset(FOLDER)` reads it. One row for each sample, with messages and rubrics as
lists; values whose structure depends on the benchmark are JSON text.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generation.releases.exporters.base import (
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
from generation.releases.exporters.licences import identifiers
from generation.releases.exporters.parquet import REPEATED

if TYPE_CHECKING:
    import pyarrow as pa

_ROW_GROUP = 200


class HuggingFaceExporter(Exporter):
    """A data set for the hub."""

    name = "hf"
    label = "Hugging Face"
    may_ask = True

    def write(self, samples: Samples, folder: Path, about: About = NOTHING) -> list[Path]:
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

    def readme(self, card: str, about: Mapping[str, Any]) -> str:
        """The data card below the hub's metadata."""
        licences = [identifier.casefold() for identifier in identifiers(about["licences"])]
        named = "; ".join(about["licences"]) or "unknown"
        size = next((label for limit, label in _SIZES if about["samples"] < limit), "n>1M")
        fields = {
            "pretty_name": about["name"],
            **({"language": codes} if (codes := [code for code in about["languages"] if code]) else {}),
            **({"license": licences} if licences else {"license": "other", "license_name": named}),
            "task_categories": ["text-generation", "question-answering"],
            "tags": ["medical", "hallucination", "benchmark"],
            "size_categories": [size],
            "configs": [{"config_name": "default", "data_files": [{"split": "test", "path": "test.parquet"}]}],
            "dataset_info": {
                "features": [{"name": field.name, **_feature(field.type)} for field in _schema()],
                "splits": [{"name": "test", "num_examples": about["split_samples"]}],
            },
        }
        if len(licences) == 1:
            fields["license"] = licences[0]
        # The metadata is YAML, of which JSON is a part.
        return "---\n" + "".join(f"{name}: {canonical(value)}\n" for name, value in fields.items()) + "---\n\n" + card


def _feature(kind: "pa.DataType") -> dict[str, Any]:
    """A column's type as the hub's `dataset_info` names it."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        inner = _feature(kind.value_type)
        return {"list": inner.get("struct", inner.get("dtype"))}
    if pa.types.is_struct(kind):
        return {"struct": [{"name": field.name, **_feature(field.type)} for field in kind]}
    return {"dtype": str(kind)}


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
