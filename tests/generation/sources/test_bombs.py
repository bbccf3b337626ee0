"""Files made to exhaust their readers are refused in little memory, with place and reason."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.exceptions import ValidationError

from generation.common.fields import JSONValueField
from generation.errors import WrongFile
from generation.sources import importers, reading, services
from generation.sources.importers import medhallu, mesh, pmc_patients, pubmedqa
from generation.sources.importers.base import Importer, LimitsExceeded, Refusal, Row, WrongFormat
from tests.generation.rows import array, descriptor, entry, hub, jsonl, keyed, pair, vocabulary

ROOT = Path(__file__).parents[3]
DEEP = "[" * 100_000 + "]" * 100_000  # 200 KB; a parser that keeps its path needs 23 GB for it

READ_ALL = """
import resource, sys
from pathlib import Path
from generation.sources import importers
from generation.sources.importers.base import Layout, WrongFormat
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
layouts = {"pmc-patients": ["json-v2"], "pubmedqa": ["json-object", "jsonl"], "healthbench": ["jsonl"], "medhallu": ["jsonl"]}
for path in map(Path, sys.argv[1:]):
    for name in importers.available():
        importer = importers.load(name)
        try:
            importer.sniff(path)
        except WrongFormat:
            pass
        for layout in layouts.get(name, []):
            try:
                list(importer.rows(path, Layout(layout)))
            except WrongFormat:
                pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_endless_nesting_needs_almost_no_memory(tmp_path: Path) -> None:
    attacks = [
        DEEP,
        f'[{{"patient_uid": "1-1", "patient": "He had fever.", "age": {DEEP}}}]',
        f'{{"1": {DEEP}}}',
        '{"1": ' + '{"a":' * 100_000,
        f'{{"prompt_id": "1", "prompt": {DEEP}}}',
        f'{{"Question": "Why?", "Knowledge": {DEEP}}}',
    ]
    paths = [tmp_path / str(number) for number in range(len(attacks))]
    for path, attack in zip(paths, attacks, strict=True):
        path.write_text(attack)
    result = subprocess.run(
        [sys.executable, "-c", READ_ALL, *map(str, paths)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert int(result.stdout) < 50, "MB"


def nested_lists(levels: int) -> object:
    return json.loads("[" * levels + "]" * levels)


@pytest.mark.parametrize(
    ("importer", "make", "outer_levels"),
    [
        (pmc_patients, lambda value: array({"patient_uid": "1-1", "patient": "He had fever.", "more": value}), 2),
        (pubmedqa, lambda value: keyed(entry(MORE=value)), 2),
        (pubmedqa, lambda value: jsonl(hub(more=value)), 1),
        (medhallu, lambda value: jsonl(pair(more=value)), 1),
    ],
    ids=["array", "object", "lines", "lines of pairs"],
)
def test_a_hundred_levels_are_read_but_not_one_more(
    tmp_path: Path, importer: Importer, make, outer_levels: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(make(nested_lists(100 - outer_levels)))
    layout = importer.sniff(path)
    [row] = importer.rows(path, layout)
    assert isinstance(row, Row), row
    path.write_bytes(make(nested_lists(101 - outer_levels)))
    with pytest.raises(WrongFormat, match="more than 100 deep"):
        importer.sniff(path)
    [refusal] = importer.rows(path, layout)
    assert isinstance(refusal, Refusal)
    assert "more than 100 deep" in refusal.reason


def test_records_beside_a_too_deep_one_are_kept(tmp_path: Path) -> None:
    good = {"patient_uid": "1-1", "patient": "He had fever."}
    path = tmp_path / "file"
    path.write_bytes(
        array(good, {**good, "patient_uid": "2-1", "more": nested_lists(99)}, {**good, "patient_uid": "3-1"})
    )
    row, refusal, last = pmc_patients.rows(path, pmc_patients.sniff(path))
    assert isinstance(row, Row)
    assert isinstance(last, Row)
    assert isinstance(refusal, Refusal)
    assert refusal.where == "record 2"
    assert "more than 100 deep" in refusal.reason


def test_a_form_refuses_deep_json() -> None:
    with pytest.raises(ValidationError, match="nested too deeply"):
        JSONValueField().clean(DEEP)
    typed = {"1": 1, "true": True, "high": "high", '"1"': "1", "NaN": "NaN", '{"tries": [1]}': {"tries": [1]}}
    assert {text: JSONValueField().clean(text) for text in typed} == typed
    assert [JSONValueField.typed(value) for value in typed.values()] == list(typed)


def compressed_parquet(path: Path, *records: dict[str, object]) -> Path:
    """Write a Parquet file of a few kilobytes, whatever the size of the records."""
    pq.write_table(pa.Table.from_pylist(list(records)), path, compression="zstd")
    assert path.stat().st_size < 100_000
    return path


@pytest.mark.parametrize("records", [[pair(), pair(Question="x" * 2**26)], [pair(Question="x" * 2**22)] * 99])
def test_a_cell_that_expands_too_much_ends_the_reading(
    tmp_path: Path, settings: Any, records: list[dict[str, object]]
) -> None:
    """In small: 64 MB in one cell, or 99 cells of 4 MB with memory for about 50 of them."""
    path = compressed_parquet(tmp_path / "file", *records)
    settings.MHB_READER_MEMORY = 300 * 2**20
    with pytest.raises(LimitsExceeded, match="needs more than 300 MB of memory"):
        list(reading.open_file(path, "medhallu", "file")[1])


def test_a_large_but_readable_cell_is_refused_as_a_too_long_record(tmp_path: Path) -> None:
    path = compressed_parquet(tmp_path / "file", pair(), pair(Question="x" * 9 * 2**20), pair())
    results = list(medhallu.rows(path, medhallu.sniff(path)))
    assert [type(result) for result in results] == [Row, Refusal, Row]
    assert results[1] == Refusal("row 2", "The record is longer than 8,388,608 bytes.")


def vocabulary_declaring(encoding: str, *, written: str = "utf-8", bom: bytes = b"") -> bytes:
    text = vocabulary(descriptor(), head="").decode()
    body = text[text.index("<Descriptor") :]
    return bom + f'<?xml version="1.0" encoding="{encoding}"?>\n{body}'.encode(written)


ENCODINGS = [
    *((name, "utf-8") for name in ("zlib", "hex", "base64", "idna", "punycode", "undefined", "rot13", "nothing", "mbcs")),
    *((name, "utf-8") for name in ("utf-7", "utf-16", "utf-32", "shift_jis", "cp037", "latin-1", "unicode_escape")),
    ("utf-16", "utf-16-le"), ("utf-16", "utf-16-be"), ("utf-32", "utf-32-be"),
    ("cp037", "cp037"), ("utf-7", "utf-7"), ("utf-16", "utf-16"),
]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(("declared", "written"), ENCODINGS)
def test_an_encoding_that_is_not_utf_8_is_refused_by_name(tmp_path: Path, declared: str, written: str) -> None:
    path = tmp_path / "desc.xml"
    path.write_bytes(vocabulary_declaring(declared, written=written))
    with pytest.raises(WrongFile, match=r"desc\.xml: .*(UTF-8|XML)"):
        services.start_import(path, format_name="mesh", name="mesh")


def test_utf_8_and_ascii_are_read(tmp_path: Path) -> None:
    path = tmp_path / "desc.xml"
    for declared, bom in (("UTF-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("us-ascii", b"")):
        path.write_bytes(vocabulary_declaring(declared, bom=bom))
        assert [type(row) for row in mesh.rows(path, mesh.sniff(path))] == [Row]


def test_bytes_in_another_encoding_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "desc.xml"
    path.write_bytes(vocabulary(descriptor(1), descriptor(2, "Madeup\u00eftis")).replace("\u00ef".encode(), b"\xef"))
    row, refusal = mesh.rows(path, mesh.sniff(path))
    assert isinstance(row, Row)
    assert isinstance(refusal, Refusal)
    assert "not XML" in refusal.reason


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
DOCTYPES = [
    f'<!DOCTYPE DescriptorRecordSet [<!ENTITY l0 "lol">{LAUGHS}]>',
    '<!DOCTYPE DescriptorRecordSet [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
    '<!DOCTYPE DescriptorRecordSet [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x.dtd">%p;]>',
    f'<!DOCTYPE DescriptorRecordSet [<!ATTLIST a b CDATA "{"x" * 2**20}">]>',
]


@pytest.mark.django_db
@pytest.mark.parametrize("doctype", DOCTYPES, ids=["laughs", "file", "parameter", "attributes"])
def test_xml_that_expands_or_fetches_entities_is_refused_at_the_declaration(tmp_path: Path, doctype: str) -> None:
    path = tmp_path / "desc.xml"
    path.write_bytes(vocabulary(descriptor(1, "&l9;&x;"), head=doctype))
    with pytest.raises(WrongFile, match=r"desc\.xml: .*It declares"):
        services.start_import(path, format_name="mesh", name="mesh")


@pytest.mark.parametrize(
    ("data", "archive_format"),
    [(gzip.compress(b"[]", mtime=0), "gzip"), (b"\x28\xb5\x2f\xfd\0", "zstd"), (b"PK\x03\x04", "zip")],
    ids=["gzip", "zstd", "zip"],
)
def test_archives_are_never_unpacked(tmp_path: Path, data: bytes, archive_format: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    for name in importers.available():
        with pytest.raises(WrongFormat, match=archive_format):
            importers.load(name).sniff(path)


def test_a_record_of_very_many_parts_is_refused_and_the_others_are_kept(tmp_path: Path) -> None:
    rubric = {"criterion": "Names the dose.", "points": 5, "tags": []}
    turns = [{"role": "user", "content": "{[" * 5_000}]  # brackets in a text are no parts
    records = [{"prompt_id": str(count), "prompt": turns, "rubrics": [rubric] * count} for count in (3, 20_000, 2_000)]
    path = tmp_path / "healthbench.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    _layout, entries = reading.open_file(path, "healthbench", path.name)
    first, refused, last = entries
    assert isinstance(refused, Refusal)
    assert "parts" in refused.reason
    assert isinstance(first, Row)
    assert isinstance(last, Row)
