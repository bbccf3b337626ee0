"""Files made to exhaust their readers: each is refused in little memory, by place and reason."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.exceptions import ValidationError

from generation.common.fields import ShallowJSON
from generation.errors import WrongFile
from generation.sources import importers, services
from generation.sources.importers import medhallu, mesh, pmc_patients, pubmedqa, tables
from generation.sources.importers.base import Exhausting, Importer, Refusal, Row, WrongFormat
from tests.generation.rows import array, descriptor, entry, hub, jsonl, keyed, pair, vocabulary

ROOT = Path(__file__).parents[3]
DEEP = "[" * 100_000 + "]" * 100_000  # 200 KB, of which a parser that keeps its path makes 23 GB

READ_ALL = """
import resource, sys
from pathlib import Path
from generation.sources import importers
from generation.sources.importers.base import Layout, WrongFormat
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in map(Path, sys.argv[1:]):
    for name in importers.available():
        importer = importers.load(name)
        try:
            importer.sniff(path)
        except WrongFormat:
            pass
        for layout in ("json-v2", "json-object", "jsonl"):
            try:
                list(importer.rows(path, Layout(layout)))
            except WrongFormat:
                pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_nesting_without_end_costs_nothing(tmp_path: Path) -> None:
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
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, *map(str, paths)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < 50, "MB"


def nested(levels: int) -> object:
    return json.loads("[" * levels + "]" * levels)


@pytest.mark.parametrize(
    ("importer", "make", "around"),
    [
        (pmc_patients, lambda value: array({"patient_uid": "1-1", "patient": "He had fever.", "more": value}), 2),
        (pubmedqa, lambda value: keyed(entry(MORE=value)), 2),
        (pubmedqa, lambda value: jsonl(hub(more=value)), 1),
        (medhallu, lambda value: jsonl(pair(more=value)), 1),
    ],
    ids=["array", "object", "lines", "lines of pairs"],
)
def test_a_hundred_levels_are_read_and_one_more_is_not(tmp_path: Path, importer: Importer, make, around: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(make(nested(100 - around)))
    layout = importer.sniff(path)
    [row] = importer.rows(path, layout)
    assert isinstance(row, Row), row
    path.write_bytes(make(nested(101 - around)))
    with pytest.raises(WrongFormat, match="more than 100 deep"):
        importer.sniff(path)
    [refusal] = importer.rows(path, layout)
    assert isinstance(refusal, Refusal)
    assert "more than 100 deep" in refusal.reason


def test_records_before_the_one_that_is_too_deep_are_kept(tmp_path: Path) -> None:
    good = {"patient_uid": "1-1", "patient": "He had fever."}
    path = tmp_path / "file"
    path.write_bytes(array(good, {**good, "patient_uid": "2-1", "more": nested(99)}, {**good, "patient_uid": "3-1"}))
    row, refusal = pmc_patients.rows(path, pmc_patients.sniff(path))
    assert isinstance(row, Row)
    assert isinstance(refusal, Refusal)
    assert refusal.where == "record 2"
    assert "more than 100 deep" in refusal.reason


def test_a_form_takes_no_deep_json() -> None:
    with pytest.raises(ValidationError, match="nested too deeply"):
        ShallowJSON().clean(DEEP)
    assert ShallowJSON(required=False).clean("") is None
    assert ShallowJSON().clean('{"tries": [1]}') == {"tries": [1]}


def unfolding(path: Path, *records: dict[str, object]) -> Path:
    """A Parquet file of some kilobytes."""
    pq.write_table(pa.Table.from_pylist(list(records)), path, compression="zstd")
    assert path.stat().st_size < 100_000
    return path


@pytest.mark.parametrize("records", [[pair(), pair(Question="x" * 2**26)], [pair(Question="x" * 2**22)] * 99])
def test_a_cell_that_unfolds_ends_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: list[dict[str, object]]
) -> None:
    """The same in small: 64 MB in a cell, 4 MB in each of many, where there is room for some 50."""
    path = unfolding(tmp_path / "file", *records)
    monkeypatch.setattr(tables, "MEMORY", 300 * 2**20)
    with pytest.raises(Exhausting, match="need more than 300 MB of memory"):
        list(medhallu.rows(path, medhallu.sniff(path)))


def test_a_large_cell_that_can_be_read_is_a_record_that_is_too_long(tmp_path: Path) -> None:
    path = unfolding(tmp_path / "file", pair(), pair(Question="x" * 9 * 2**20), pair())
    results = list(medhallu.rows(path, medhallu.sniff(path)))
    assert [type(one) for one in results] == [Row, Refusal, Row]
    assert results[1] == Refusal("row 2", "The record is longer than 8,388,608 bytes.")


def test_a_reader_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unfolding(tmp_path / "file", pair())
    started = "import signal; signal.alarm(1); signal.pause()"
    monkeypatch.setattr(tables, "_command", lambda path: [sys.executable, "-c", started])
    with pytest.raises(Exhausting, match="longer than 30 seconds"):
        medhallu.sniff(path)


def test_whoever_reads_a_file_of_others_knows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHB_SECRET_KEY", "s" * 40)
    with tables._reader(unfolding(tmp_path / "file", pair())) as reader:
        assert b"MHB_SECRET_KEY" not in Path(f"/proc/{reader.pid}/environ").read_bytes()
    assert reader.returncode is not None


def as_said(encoding: str, *, written: str = "utf-8", bom: bytes = b"") -> bytes:
    text = vocabulary(descriptor(), head="").decode()
    body = text[text.index("<Descriptor") :]
    return bom + f'<?xml version="1.0" encoding="{encoding}"?>\n{body}'.encode(written)


ENCODINGS = [
    *((name, "utf-8") for name in ("zlib", "hex", "base64", "idna", "punycode", "undefined", "rot13", "nothing", "mbcs")),
    *((name, "utf-8") for name in ("utf-7", "utf-16", "utf-32", "shift_jis", "cp037", "latin-1", "unicode_escape")),
    ("utf-16", "utf-16-le"), ("utf-16", "utf-16-be"), ("utf-8", "utf-16-le"), ("utf-32", "utf-32-be"),
    ("cp037", "cp037"), ("utf-7", "utf-7"), ("utf-16", "utf-16"),
]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(("said", "written"), ENCODINGS)
def test_an_encoding_that_is_not_utf_8_is_refused_by_name(tmp_path: Path, said: str, written: str) -> None:
    path = tmp_path / "desc.xml"
    path.write_bytes(as_said(said, written=written))
    with pytest.raises(WrongFile, match=r"desc\.xml: .*(UTF-8|not XML)"):
        services.start_import(path, format_name="mesh", name="mesh")


def test_utf_8_and_ascii_are_read(tmp_path: Path) -> None:
    path = tmp_path / "desc.xml"
    for said, bom in (("UTF-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("us-ascii", b"")):
        path.write_bytes(as_said(said, bom=bom))
        assert [type(one) for one in mesh.rows(path, mesh.sniff(path))] == [Row]


def test_another_encoding_in_the_middle_is_a_refusal(tmp_path: Path) -> None:
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
def test_what_xml_can_unfold_or_fetch_is_refused_where_it_is_declared(tmp_path: Path, doctype: str) -> None:
    path = tmp_path / "desc.xml"
    path.write_bytes(vocabulary(descriptor(1, "&l9;&x;"), head=doctype))
    with pytest.raises(WrongFile, match=r"desc\.xml: .*It declares"):
        services.start_import(path, format_name="mesh", name="mesh")


@pytest.mark.parametrize(
    ("data", "what"),
    [(gzip.compress(b"[]"), "gzip"), (b"\x28\xb5\x2f\xfd\0", "zstd"), (b"PK\x03\x04", "zip")],
    ids=["gzip", "zstd", "zip"],
)
def test_archives_are_never_unpacked(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    for name in importers.available():
        with pytest.raises(WrongFormat, match=what):
            importers.load(name).sniff(path)
