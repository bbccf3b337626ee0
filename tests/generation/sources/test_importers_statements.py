"""MedHal and the data sets it is made of: every layout, every refusal, and the real rows."""

from pathlib import Path
from typing import Any

import pytest

from generation.sources.importers import medhal
from generation.sources.importers.base import Importer, Refusal, Row, WrongFormat
from tests.generation.rows import jsonl, parquet, table
from tests.generation.statement_rows import published


@pytest.fixture
def read(tmp_path):
    def rows(importer: Importer, data: bytes, name: str = "file") -> list[Row | Refusal]:
        path = tmp_path / name
        path.write_bytes(data)
        return list(importer.rows(path, importer.sniff(path)))

    return rows


def why_not(tmp_path: Path, importer: Importer, data: bytes) -> str:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(WrongFormat) as found:
        importer.sniff(path)
    return str(found.value)


# MedHal

PUBLISHED: dict[str, Any] = {
    "kind": "statement",
    "statement": "The patient is 11 years old.",
    "context": "A 10-year-old girl had a swollen knee.",
    "label": "non-factual",
    "explanation": "The patient is 10 years old.",
    "task": "ie",
    "source": "acn",
    "pair": "",
    "inner_id": "155216",
    "split": "",
    "synthetic": True,
}


@pytest.mark.parametrize(
    ("make", "layout", "where"), [(jsonl, "jsonl", "line 1"), (table, "csv", "line 2"), (parquet, "parquet", "row 1")]
)
def test_all_layouts_of_medhal_give_the_same_row(tmp_path, make, layout, where):
    path = tmp_path / "file"
    path.write_bytes(make(published()))
    found = medhal.sniff(path)
    assert found.name == layout
    [row] = medhal.rows(path, found)
    assert isinstance(row, Row)
    assert (row.external_id, row.language, row.where, row.content) == ("made-up-1", "en", where, PUBLISHED)
    assert row.facets == {"source": "acn", "label": "non-factual", "split": "unknown"}


@pytest.mark.parametrize("nothing", ["None", None, "nan", ""])
def test_a_statement_of_medhal_may_have_no_context(read, nothing):
    rows = read(medhal, jsonl(published(context=nothing, source="medqa", label="True")))
    assert isinstance(rows[0], Row)
    assert {name: rows[0].content[name] for name in ("context", "task", "label")} == {
        "context": "",
        "task": "qa",
        "label": "factual",
    }


def test_the_split_of_medhal_is_that_of_the_row_else_of_the_file(read):
    first, second = read(medhal, jsonl(published(), published(2, split="val")), "medhal-lf_train-00001.jsonl")
    assert [row.content["split"] for row in (first, second)] == ["train", "val"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"statement": " "}, "'statement' is blank"),
        ({"statement": None}, "'statement' is not a text"),
        ({"label": "maybe"}, "'label' is neither true nor false"),
        ({"source": "elsewhere"}, "'source' is none of acm, acn, medmcqa"),
        ({"explanation": ["x"]}, "'explanation' is not a text"),
        ({"id": "two words"}, "id is longer"),
    ],
)
def test_a_bad_row_of_medhal_is_refused_and_the_others_stay(read, changes, reason):
    first, refusal, last = read(medhal, jsonl(published(), published(2, **changes), published(3)))
    assert isinstance(first, Row)
    assert isinstance(last, Row)
    assert isinstance(refusal, Refusal)
    assert refusal.where == "line 2"
    assert reason in refusal.reason


def test_a_row_of_medhal_without_an_id_has_one_of_its_text(read):
    bare = {key: value for key, value in published().items() if key != "id"}
    first, second, third = read(medhal, jsonl(bare, bare, bare | {"label": True}))
    assert first.external_id == second.external_id != third.external_id


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "JSON array"),
        (jsonl({"statement": "x", "label": True}), "lack 'source'"),
        (table({"statement": "x"}), "no column 'label', 'source'"),
    ],
)
def test_what_is_not_medhal(tmp_path, data, reason):
    assert reason in why_not(tmp_path, medhal, data)
