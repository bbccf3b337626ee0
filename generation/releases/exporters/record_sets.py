"""The tables of an export as Croissant's record sets: which columns there are, and of which type."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from generation.releases.exporters.base import ADDED, NESTED, PLAIN
from generation.releases.exporters.csv_ import RUBRIC

_TYPES = {"version": "sc:Integer", "start": "sc:Integer", "end": "sc:Integer", "simulated": "sc:Boolean"}
_WORDS = {
    "samples": "One row a sample.",
    "rubrics": "One row a criterion; `sample_id` names its sample.",
    "ratings": "What physicians answered: one row a review and question, under pseudonyms.",
    "highlights": "Words that physicians highlighted, under pseudonyms.",
}
_LISTS = {"rubrics": RUBRIC, "messages": ("role", "content")}  # columns of objects with the same keys
_OBJECTS = {"source": ("dataset", "format", "id", "licence")}  # in JSON Lines; elsewhere they are JSON text


def record_sets(
    files: Collection[str], columns: Collection[str], tables: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """Those of the files that are here. `columns`: of a sample. `tables`: name -> columns of the other CSV files."""
    return [
        {"@type": "cr:RecordSet", "@id": name, "name": name, "description": _WORDS[name], "field": list(fields)}
        for path, name, fields in _found(columns, tables)
        if path in files
    ]


def _found(
    columns: Collection[str], tables: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str, Iterator[dict[str, Any]]]]:
    """Path, name and fields of each table that an export can have."""
    table = (*PLAIN, *NESTED)
    rubric = ("sample_id", *RUBRIC)
    # Other objects have other keys in each benchmark, for which the format has no type.
    there = [*(name for name in PLAIN if name in columns or name not in ADDED), *_OBJECTS, "rubrics"]
    yield "samples.csv", "samples", _fields("samples.csv", "samples", table)
    yield "rubrics.csv", "rubrics", _fields("rubrics.csv", "rubrics", rubric)
    yield "samples.parquet", "samples", _fields("samples.parquet", "samples", table)
    yield "rubrics.parquet", "rubrics", _fields("rubrics.parquet", "rubrics", rubric, repeated=("traps",))
    yield "samples.jsonl", "samples", _fields("samples.jsonl", "samples", there, {**_LISTS, **_OBJECTS})
    yield "test.parquet", "samples", _fields("test.parquet", "samples", (*table, "messages", "rubrics"))
    for name, others in tables.items():
        yield f"{name}.csv", name, _fields(f"{name}.csv", name, others)


def _fields(
    path: str,
    table: str,
    columns: Sequence[str],
    objects: Mapping[str, Sequence[str]] = _LISTS,
    *,
    repeated: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    for column in columns:
        about = {"@type": "cr:Field", "@id": f"{table}/{column}", "name": f"{table}/{column}"}
        source = {"fileObject": {"@id": path}, "extract": {"column": column}}
        if column not in objects:
            more = {"repeated": True} if column in repeated else {}
            yield about | {"dataType": _TYPES.get(column, "sc:Text"), "source": source, **more}
            continue
        inner = [
            {
                "@type": "cr:Field",
                "@id": f"{table}/{column}/{key}",
                "name": f"{table}/{column}/{key}",
                "dataType": "sc:Text",
                "source": source | {"transform": {"jsonPath": f"$.{key}"}},
            }
            for key in objects[column]
        ]
        yield about | ({"repeated": True} if column in _LISTS else {}) | {"subField": inner}
