"""The tables of an export as Croissant record sets: their columns and types."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from generation.releases.exporters.base import ADDED, NESTED, PLAIN, RUBRIC

_TYPES = {
    "version": "sc:Integer",
    "start": "sc:Integer",
    "end": "sc:Integer",
    "simulated": "sc:Boolean",
    "points": "sc:Float",
}
_WORDS = {
    "samples": "One row per sample.",
    "rubrics": "One row per criterion; `sample_id` names its sample.",
    "ratings": "Physicians' answers: one row per review and question, under pseudonyms.",
    "highlights": "Words that physicians highlighted, under pseudonyms.",
}
_LISTS = {"rubrics": RUBRIC, "messages": ("role", "content")}  # columns of objects with the same keys
_CHATS = ("role", "content")
_EXAMPLE = {"prompt": _CHATS, "rubrics": ("criterion", "points")}  # of HealthBench's format
_OBJECTS = {"source": ("dataset", "format", "id", "licence")}  # in JSON Lines; elsewhere they are JSON text


def record_sets(
    files: Collection[str], columns: Collection[str], tables: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """The record sets of the files in this export.

    `columns`: of a sample. `tables`: name -> columns of the further CSV files.
    """
    table, rubric = (*PLAIN, *NESTED), ("sample_id", *RUBRIC)
    # The keys of all other objects depend on the benchmark, for which the format has no type.
    jsonl_columns = [*(name for name in PLAIN if name in columns or name not in ADDED), *_OBJECTS, "rubrics"]
    possible = [  # path, name, fields
        ("samples.csv", "samples", _fields("samples.csv", "samples", table)),
        ("samples.parquet", "samples", _fields("samples.parquet", "samples", table)),
        ("rubrics.csv", "rubrics", _fields("rubrics.csv", "rubrics", rubric)),
        ("rubrics.parquet", "rubrics", _fields("rubrics.parquet", "rubrics", rubric, repeated=("traps",))),
        ("samples.jsonl", "samples", _fields("samples.jsonl", "samples", jsonl_columns, {**_LISTS, **_OBJECTS})),
        (
            "healthbench.jsonl",
            "samples",
            _fields(
                "healthbench.jsonl",
                "samples",
                ("prompt_id", *_EXAMPLE, "example_tags", "canary"),
                _EXAMPLE,
                repeated=("example_tags",),
            ),
        ),
        (
            "inspect.jsonl",
            "samples",
            _fields("inspect.jsonl", "samples", ("id", "input", "target"), {"input": _CHATS}, repeated=("target",)),
        ),
        ("test.parquet", "samples", _fields("test.parquet", "samples", (*table, "messages", "rubrics"))),
    ]
    for name, its_columns in tables.items():
        possible.append((f"{name}.csv", name, _fields(f"{name}.csv", name, its_columns)))
    found = []
    for path, name, fields in possible:
        if path in files:
            described = {"@type": "cr:RecordSet", "@id": name, "name": name, "description": _WORDS[name]}
            found.append(described | {"field": list(fields)})
    return found


def _fields(
    path: str,
    table: str,
    columns: Sequence[str],
    objects: Mapping[str, Sequence[str]] = _LISTS,
    *,
    repeated: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    for column in columns:
        field = {"@type": "cr:Field", "@id": f"{table}/{column}", "name": f"{table}/{column}"}
        source = {"fileObject": {"@id": path}, "extract": {"column": column}}
        if column not in objects:
            repeated_flag = {}
            if column in repeated:
                repeated_flag = {"repeated": True}
            yield field | {"dataType": _TYPES.get(column, "sc:Text"), "source": source, **repeated_flag}
            continue
        inner = []
        for key in objects[column]:
            name = f"{table}/{column}/{key}"
            part = source | {"transform": {"jsonPath": f"$.{key}"}}
            inner.append(
                {
                    "@type": "cr:Field",
                    "@id": name,
                    "name": name,
                    "dataType": _TYPES.get(key, "sc:Text"),
                    "source": part,
                }
            )
        if column in _OBJECTS:
            yield field | {"subField": inner}
        else:
            yield field | {"repeated": True, "subField": inner}
