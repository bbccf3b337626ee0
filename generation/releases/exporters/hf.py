"""A data set for the Hugging Face hub: `README.md` with its metadata and `test.parquet`.

`datasets.load_dataset(FOLDER)` reads it. One row for each sample, with messages and rubrics as
lists; values whose structure depends on the benchmark are JSON text.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from generation.releases.exporters.base import RUBRIC, About, Exporter, Samples, canonical, flat
from generation.releases.exporters.licences import identifiers
from generation.releases.exporters.parquet import REPEATED, plain_columns, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

_ROW_GROUP = 200


class HuggingFaceExporter(Exporter):
    """A data set for the hub."""

    name = "hf"
    label = "Hugging Face"
    files = ("test.parquet",)
    may_ask = True

    def write_files(self, samples: Samples, paths: list[Path]) -> None:
        with rows_of(paths[0], _schema(), group=_ROW_GROUP, use_dictionary=REPEATED) as add:
            for sample in samples:
                rubrics = [{"polarity": "", **rubric} for rubric in sample["rubrics"]]
                add(flat(sample) | {"messages": sample["messages"], "rubrics": rubrics}, 0)

    def readme(self, card: str, about: About) -> str:
        """The data card below the hub's metadata."""
        licences = [identifier.casefold() for identifier in identifiers(about["licences"])]
        languages = list(filter(None, about["languages"]))
        fields = {"pretty_name": about["name"]}
        if languages:
            fields["language"] = languages
        if len(licences) == 1:
            fields["license"] = licences[0]
        elif licences:
            fields["license"] = licences
        else:
            fields["license"] = "other"
            fields["license_name"] = "; ".join(about["licences"]) or "unknown"
        fields |= {
            "task_categories": ["text-generation", "question-answering"],
            "tags": ["medical", "hallucination", "benchmark"],
            "size_categories": [_size(about["samples"])],
            "configs": [{"config_name": "default", "data_files": [{"split": "test", "path": "test.parquet"}]}],
            "dataset_info": {
                # Without `splits`: `datasets` wants the bytes that they take in memory, too.
                "features": [{"name": field.name, **_feature(field.type)} for field in _schema()],
            },
        }
        # The metadata is YAML, of which JSON is a part.
        lines = [f"{name}: {canonical(value)}\n" for name, value in fields.items()]
        return "---\n" + "".join(lines) + "---\n\n" + card


def _size(samples: int) -> str:
    for limit, label in _SIZES:
        if samples < limit:
            return label
    return "n>1M"


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

    text = pa.string()
    message = pa.struct([("role", text), ("content", text)])
    rubric_fields = dict.fromkeys(RUBRIC, text) | {"traps": pa.list_(text)}
    rubric = pa.struct(list(rubric_fields.items()))
    lists = [pa.field("messages", pa.list_(message)), pa.field("rubrics", pa.list_(rubric))]
    return pa.schema([*plain_columns(nullable=True), *lists])
