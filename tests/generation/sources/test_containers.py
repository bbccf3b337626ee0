"""What is not plain text is opened in a process with limits, never by the web or the worker."""

import io
import json
import pickle
import re
import struct
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import PIL.Image
import pyarrow.parquet as pq
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from generation.common import limited
from generation.models import Import, Source, SourceRecord, StoredImage
from generation.sources import importers, reading, services
from generation.sources.importers import bundles, pickles
from generation.sources.importers.base import HEAD, LimitsExceeded, WrongFormat
from review.models import User
from tests.generation.images.drawing import picture
from tests.generation.rows import keyed, pair, parquet

START = b"\x80\x04"
ROOT = Path(__file__).parents[3]


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


# Pickles

ONE_LIST_IN_TWO = b"".join(b"]\x94(h%ch%ce" % (n, n) for n in range(100))
PICKLES = {
    "lists in one another": (b"]" * 100_000 + b"a" * 99_999, "nested more than 100 deep"),
    "tuples in one another": (b")" + b"\x85" * 100_000, "nested more than 100 deep"),
    "objects in one another": (b"X\x01\0\0\0k".join([b"}"] * 1000) + b"s" * 999, "nested more than 100 deep"),
    "a list in itself": (b"]\x94h\x00a", "uses a list or an object twice"),
    "lists that double": (b"]\x94" + ONE_LIST_IN_TWO, "uses a list or an object twice"),
    "a tuple used twice": (b")\x85\x94h\x00\x86", "uses a list or an object twice"),
    "numbers as keys": (b"}K\x01K\x02s", "a key that is not a text"),
    "tuples as keys": (b"})\x85K\x02s", "a key that is not a text"),
    "a number of 2 GB": (b"\x8b\xff\xff\xff\x7f", "damaged"),
    "a number of 100 bytes": (b"\x8a\x64" + b"\x7f" * 100, "more than 64 bits"),
    "a text of 2 GB": (b"\x8d" + struct.pack("<Q", 2**31), "damaged"),
    "a text of 4 GB": (b"X\xff\xff\xff\xff", "damaged"),
    "bytes of 2 GB": (b"\x8e" + struct.pack("<Q", 2**31), "damaged"),
    "bytes that can grow": (b"\x96" + struct.pack("<Q", 3) + b"abc", "could run code"),
    "a function": (b"cos\nsystem\n(S'true'\ntR", "could run code"),
    "a class": (b"\x8c\x02os\x8c\x06system\x93", "could run code"),
    "an extension": (b"\x82\x01", "could run code"),
    "an object outside": (b"Pname\n", "could run code"),
    "a set": (b"\x8f", "could run code"),
    "nothing on the stack": (b"aaa", "damaged"),
    "an unknown memory": (b"h\x05", "damaged"),
}


@pytest.mark.plain
@pytest.mark.parametrize("attack", PICKLES)
def test_a_pickle_is_lists_texts_and_numbers_and_nothing_else(tmp_path: Path, attack: str) -> None:
    body, reason = PICKLES[attack]
    with pytest.raises(WrongFormat, match=reason):
        pickles.load_plain(written(tmp_path / "test_qa.pkl", START + body + b"."))


@pytest.mark.plain
def test_the_size_of_a_pickle_is_bounded_as_if_nothing_were_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickles, "MAX_TEXT", 1_000_000)
    shared = "x" * 100_000
    good, bad = (written(tmp_path / str(n), pickle.dumps([{"q": shared} for _ in range(n)])) for n in (9, 20))
    assert pickles.load_plain(good) == [{"q": shared}] * 9
    with pytest.raises(LimitsExceeded, match="texts of the pickle have more than 1,000,000"):
        pickles.load_plain(bad)
    monkeypatch.setattr(pickles, "MAX_VALUES", 1000)
    for body in (
        b"](" + b"]" * 1001 + b"e",
        b"(" * 1001,
        b"N" + b"".join(b"r" + struct.pack("<I", n) for n in range(1001)),
    ):
        with pytest.raises(LimitsExceeded, match="more than 1,000 values"):
            pickles.load_plain(written(tmp_path / "many", START + body + b"."))


@pytest.mark.plain
@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_are_read_in_every_protocol(tmp_path: Path, protocol: int) -> None:
    value = [
        {"image": "a\u00e9\n", "number": number, "more": [None, True, False, 1.5, "a\u00e9\n"]}
        for number in (1, -5, 10**9)
    ]
    assert pickles.load_plain(written(tmp_path / "p", pickle.dumps(value, protocol))) == value


def test_a_crash_of_the_reader_is_an_answer(tmp_path: Path, settings: Any) -> None:
    """Whatever the list of instructions lets through ends in the limits of the process."""
    settings.MHB_READER_MEMORY = 256 * 2**20
    path = written(tmp_path / "test_qa.pkl", START + b"](" + b"]" * 3_900_000 + b"e.")
    with pytest.raises(LimitsExceeded, match="more than 256 MB of memory"):
        reading.open_file(path, "pathvqa", "test_qa.pkl")


# Archives


def archive(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in files.items():
            opened.writestr(f"{name}.json", data)
    return path


def open_bundle(path: Path) -> int:
    with bundles.open_bundle(path, lambda name: name.endswith(".json")) as bundle:
        return len(bundle.data)


@pytest.mark.plain
def test_the_files_of_an_archive_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "a.zip", **{f"t{n}": b"[%d]" % n * 1000 for n in range(30)})
    assert open_bundle(path) == 30
    monkeypatch.setattr(bundles, "MAX_UNPACKED", 100_000)
    with pytest.raises(LimitsExceeded, match="more than 100,000 bytes, unpacked"):
        open_bundle(path)
    monkeypatch.setattr(bundles, "MAX_UNPACKED", 2**30)
    monkeypatch.setattr(bundles, "MAX_DATA_FILES", 29)
    with pytest.raises(LimitsExceeded, match="more than 29 files of rows"):
        open_bundle(path)


@pytest.mark.plain
def test_an_archive_that_lies_about_its_sizes_is_damaged(tmp_path: Path) -> None:
    data = bytearray(archive(tmp_path / "a.zip", testset=b" " * 400_000).read_bytes())
    at = data.rfind(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 100)
    with pytest.raises(WrongFormat, match="damaged"):
        open_bundle(written(tmp_path / "lying.zip", bytes(data)))


# The web and the worker

QUESTION = {"qid": 1, "question": "Is there fluid?", "answer": "yes", "image_name": "a.png"}


def good_files(folder: Path) -> dict[str, bytes]:
    """A good file of every container: format -> file."""
    images = folder / "images.zip"
    with zipfile.ZipFile(images, "w") as opened:
        opened.writestr("testset.json", json.dumps([QUESTION]))
        opened.writestr("images/a.png", picture("PNG"))
    question = {"image": {"bytes": picture("PNG"), "path": "a.png"}, "question": "Is it bone?", "answer": "yes"}
    table = io.BytesIO()
    pq.write_table(__import__("pyarrow").Table.from_pylist([question]), table)
    return {"vqa-rad": images.read_bytes(), "medhallu": parquet(pair()), "pathvqa": table.getvalue()}


@pytest.fixture
def nothing_opens_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, nothing can open a container or an image."""

    def forbidden(*_arguments: object, **_options: object) -> None:
        raise AssertionError("opened in the process of the web or of the worker")

    monkeypatch.setattr(zipfile, "ZipFile", forbidden)
    monkeypatch.setattr(pq, "ParquetFile", forbidden)
    monkeypatch.setattr(pickle, "Unpickler", forbidden)
    monkeypatch.setattr(pickles, "load_plain", forbidden)
    monkeypatch.setattr(PIL.Image, "open", forbidden)


@pytest.mark.django_db
def test_containers_are_uploaded_and_imported_without_being_opened_here(
    client: Client, adela: User, tmp_path: Path, settings: Any, request: pytest.FixtureRequest
) -> None:
    settings.MEDIA_ROOT, settings.MHB_IMAGES = tmp_path / "uploads", tmp_path / "stored"
    files = good_files(tmp_path)
    client.force_login(adela)
    request.getfixturevalue("nothing_opens_here")
    for name, data in files.items():
        form = {"format": name, "name": name, "file": SimpleUploadedFile("file", data)}
        assert client.post(reverse("generation:sources"), form).status_code == 302
        run = services.run_import(Import.objects.get(source__name=name).pk)
        assert (run.status, run.added, run.refused) == ("done", 1, 0), run.detail
    assert SourceRecord.objects.count() == 3
    assert StoredImage.objects.count() == 1
    for format_name in importers.available():
        for data in (*files.values(), START + b"]."):
            form = {"format": format_name, "name": "more", "file": SimpleUploadedFile("file", data)}
            assert client.post(reverse("generation:sources"), form).status_code in (302, 422)


@pytest.mark.django_db
def test_a_request_reads_the_first_kilobytes_by_the_chosen_format(
    adela: User, client: Client, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """600,000 keys in one object took 44 seconds. The import is queued at once."""
    settings.MEDIA_ROOT = tmp_path / "uploads"
    sniffed = []
    for name in importers.available():
        module = importers.load(name)

        def sniff(path: Path, name: str = name, original: Any = module.sniff) -> Any:
            sniffed.append((name, path.stat().st_size))
            return original(path)

        monkeypatch.setattr(module, "sniff", sniff)
    client.force_login(adela)
    data = keyed(*({"QUESTION": f"Is it {n}?", "CONTEXTS": ["It is."], "LONG_ANSWER": "Yes."} for n in range(2000)))
    assert len(data) > 2 * HEAD
    form = {"format": "pubmedqa", "name": "own", "file": SimpleUploadedFile("own.json", data)}
    assert client.post(reverse("generation:sources"), form).status_code == 302
    assert [name for name, _size in sniffed] == ["pubmedqa"]
    assert sniffed[0][1] <= HEAD
    assert services.run_import(Import.objects.get().pk).added == 2000


def _long(*lines: str) -> bytes:
    return "\n".join(lines).encode() + b"\n" * 2 * HEAD


@pytest.mark.plain
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (_long('{"a": 1}'), "lack|no 'prompt"),
        (_long("a,b", "1,2"), "not JSON"),
        (_long("<html>", "<p>Sign in</p>"), "web page"),
        (_long("[", "{}", "]"), "array"),
    ],
)
def test_a_long_text_of_another_format_is_refused_by_its_beginning(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(WrongFormat, match=reason):
        reading.recognise(written(tmp_path / "file", data), importers.load("healthbench"))


@pytest.mark.plain
def test_a_first_record_longer_than_the_beginning_is_left_to_the_import(tmp_path: Path) -> None:
    long_record = json.dumps({"first": 1, "text": "x" * 2 * HEAD}).encode()
    for data in (long_record, b"[" + long_record, b" " * 2 * HEAD + b"{}"):
        path = written(tmp_path / "file", data)
        assert reading.recognise(path, importers.load("healthbench")) is None


@pytest.mark.django_db
def test_a_source_that_could_never_be_read_may_be_given_another_format(tmp_path: Path, settings: Any) -> None:
    settings.MEDIA_ROOT = tmp_path
    damaged = written(tmp_path / "damaged.zip", b"PK\x03\x04 not really")
    run = services.start_import(damaged, format_name="vqa-rad", name="own", uploaded=True)
    assert services.run_import(run.pk).error == "WrongFormat"
    good = written(tmp_path / "good", parquet(pair()))
    assert services.run_import(services.start_import(good, format_name="medhallu", name="own").pk).added == 1
    assert Source.objects.get().format == "medhallu"


# The whole tree

OPENS = re.compile(
    r"^\s*(?:import|from) (?:zipfile|tarfile|gzip|bz2|lzma|pickle|pickletools|pyarrow|PIL)\b", re.MULTILINE
)
IN_THE_LIMITED_PROCESS = {
    "evaluation/interchange/files.py",
    "evaluation/interchange/tool_logs.py",
    "generation/images/checks.py",
    "generation/sources/importers/bundles.py",
    "generation/sources/importers/pickles.py",
    "generation/sources/importers/tables.py",
}
ONLY_WRITE = {
    "generation/releases/archive.py",
    "generation/releases/exporters/hf.py",
    "generation/releases/exporters/parquet.py",
    "mhb_site/demo/pictures.py",
}
READ_WHAT_THE_SITE_SIGNED = {"mhb_site/web/cache.py"}
READ_LINE_BY_LINE_FOR_THE_OPERATOR = {"mhb_site/backup/services.py"}  # after comparing checksums


@pytest.mark.plain
def test_every_module_that_can_open_a_container_is_known() -> None:
    """A new one belongs behind `limited.stream`, and its name here."""
    listed = subprocess.run(
        ["git", "ls-files", "mhb_site/*.py", "evaluation/*.py", "generation/*.py", "review/*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    opening = {name for name in listed if OPENS.search((ROOT / name).read_text(encoding="utf-8"))}
    read_here = READ_WHAT_THE_SITE_SIGNED | READ_LINE_BY_LINE_FOR_THE_OPERATOR
    assert opening == IN_THE_LIMITED_PROCESS | ONLY_WRITE | read_here


@pytest.mark.plain
def test_the_limits_are_those_of_the_settings(settings: Any) -> None:
    settings.MHB_READER_MEMORY, settings.MHB_READER_SECONDS = 2**29, 7
    assert (limited.configured().memory, limited.configured().seconds) == (2**29, 7)
