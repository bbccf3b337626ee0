"""Exports by reference contain no source text, and are restored from the original file."""

import json
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from generation.models import Release, Source, SourceRecord
from generation.releases import export
from generation.releases.exporters import available, load, references
from generation.releases.programs import restore_release
from review.models import User
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import Manage, conversations_file, make_release, reports_file
from tests.populations import population
from tests.profile import by_profile

WORDS = 8
LINES = [name for name in available() if load(name).lines]


@population
def frozen_release(folder: Path, models: str) -> Release:
    return make_release(folder, models, accounts_of(*PHYSICIANS), conversations=2, reports=1)


@pytest.fixture
def release(frozen_release: Release, tmp_path: Path) -> Release:
    """A release, with the files that its samples were imported from in `tmp_path`."""
    conversations_file(tmp_path / "own.jsonl", 2)
    reports_file(tmp_path / "own.json", 1)
    return frozen_release


def restore(folder: Path, *originals: Path) -> tuple[int, str]:
    program = folder / "restore_release.py"
    result = subprocess.run(
        [sys.executable, "-I", program, *originals], capture_output=True, text=True, check=False, cwd=folder.parent
    )
    return result.returncode, result.stdout + result.stderr


def word_sequences(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[at : at + WORDS]) for at in range(len(words) - WORDS + 1)}


texts = st.text(st.sampled_from("ab cé中 \n\"\\'😀"), max_size=60)
contents = st.recursive(texts | st.none() | st.integers(), lambda inner: st.lists(inner, max_size=4), max_leaves=6)
values = st.recursive(
    texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "from_source"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@settings(max_examples=by_profile(100, 300), deadline=None)
@given(content=contents, value=values, data=st.data())
def test_any_line_can_be_restored(content, value, data):
    source = list(restore_release.strings(content))
    quoted = data.draw(st.lists(st.sampled_from(source) if source else texts, max_size=3))
    line = {"content": value, "quoted": [f"x{text}y" for text in quoted], "n": 1.5}
    written = references.SourceTexts([(("own", "1"), content)]).line(line)
    written = json.loads(json.dumps(written))
    texts_by_digest = {restore_release.digest(text): text for text in source}
    assert restore_release.whole(written["line"], [texts_by_digest[sha] for *_place, sha in written["texts"]]) == line
    remaining = [part for part in restore_release.strings(written["line"]) if part not in ("x", "from_source")]
    long = [text for text in source if len(text) >= references.SHARED and (" " in text or not text.isascii())]
    for text in long:
        for at in range(len(text) - references.SHARED + 1):
            assert not any(text[at : at + references.SHARED] in part for part in remaining)


@pytest.mark.django_db
@pytest.mark.both
@pytest.mark.parametrize("format_name", LINES)
def test_an_export_by_reference_is_restored_byte_for_byte(
    release: Release, tmp_path: Path, manage: Manage, format_name: str
) -> None:
    original, out = tmp_path / "whole", tmp_path / "out"
    export.Export(release, format_name).write(original)
    result = manage.json("export_release", "own", "--format", format_name, "--out", out, "--by-reference")
    assert "notice" not in result
    assert manage.json("verify_release", out)["faults"] == []
    name = json.loads((out / "manifest.json").read_text())["by_reference"]["path"]
    assert not (out / name).exists()
    code, output = restore(out, tmp_path / "own.jsonl", tmp_path / "own.json")
    assert code == 0, output
    assert (out / name).read_bytes() == (original / name).read_bytes()
    assert manage.json("verify_release", out)["faults"] == []
    (out / name).write_text((out / name).read_text().replace("the", "teh", 1))
    assert f"{name}: altered" in json.loads(manage("verify_release", out, "--json")[1])["faults"]


@pytest.mark.django_db
@pytest.mark.parametrize("format_name", LINES)
def test_an_export_by_reference_has_no_eight_words_of_the_source(
    release: Release, tmp_path: Path, format_name: str
) -> None:
    original, out = tmp_path / "whole", tmp_path / "out"
    export.Export(release, format_name).write(original)
    export.Export(release, format_name, by_reference=True).write(out)
    source = {
        words
        for record in SourceRecord.objects.all()
        for text in restore_release.strings(record.content)
        for words in word_sequences(text)
    }
    assert len(source) > 100

    def source_words(folder: Path) -> set[tuple[str, ...]]:
        sequences = set()
        for path in filter(Path.is_file, folder.rglob("*")):
            text = path.read_text()
            sequences |= word_sequences(text)
            if path.suffix in (".json", ".jsonl"):
                lines = text.splitlines() if path.suffix == ".jsonl" else [text]
                sequences |= {
                    words
                    for line in lines
                    for value in restore_release.strings(json.loads(line))
                    for words in word_sequences(value)
                }
        return sequences & source

    assert source_words(original)
    assert not source_words(out)


@pytest.mark.django_db
def test_a_wrong_or_altered_original_is_refused_by_record(release: Release, tmp_path: Path) -> None:
    out, original = tmp_path / "out", tmp_path / "own.jsonl"
    export.Export(release, "jsonl", by_reference=True).write(out)
    code, output = restore(out, original)
    assert (code, output) == (1, "own-reports: record 1-1 is not in the original file, or was altered\n")
    altered = tmp_path / "altered.jsonl"
    altered.write_text(original.read_text().replace("case 2", "Case 2"))
    code, output = restore(out, altered, tmp_path / "own.json")
    record = SourceRecord.objects.get(title__contains="case 2").external_id
    assert (code, output) == (1, f"own-conversations: record {record} is not in the original file, or was altered\n")
    code, output = restore(out, tmp_path / "nothing.jsonl")
    assert code == 2
    assert "nothing.jsonl" in output
    assert restore(out)[0] == 2
    references_file = out / "samples.references.jsonl"
    references_file.write_text(references_file.read_text().replace('"must"', '"MUST"').replace("mhb", "MHB"))
    code, output = restore(out, original, tmp_path / "own.json")
    assert (code, output.strip()) == (
        1,
        "samples.references.jsonl: altered, the samples do not have the checksum of the release",
    )
    assert not (out / "samples.jsonl").exists()
    assert not list(out.glob(".*"))


def test_an_original_may_be_a_table_or_one_json_value(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('﻿patient,age\r\n"Two\nlines, a ""quote""","[\'one two\', ""it\'s""]"\r\n')
    texts = {text for row in restore_release.rows(tmp_path / "a.csv") for text in restore_release.strings(row)}
    assert {'Two\nlines, a "quote"', "one two", "it's"} <= texts
    (tmp_path / "b.json").write_text(json.dumps({"1": {"QUESTION": "Is it?"}}, indent=1))
    assert "Is it?" in {
        text for row in restore_release.rows(tmp_path / "b.json") for text in restore_release.strings(row)
    }
    (tmp_path / "c.parquet").write_bytes(b"PAR1....")
    with pytest.raises(ValueError, match="Parquet"):
        list(restore_release.rows(tmp_path / "c.parquet"))
    (tmp_path / "d.jsonl").write_text('{"a": 1}\n{"a"\n\n{"b": 2}\n')
    assert [row for row in restore_release.rows(tmp_path / "d.jsonl") if row] == [{"a": 1}, {"b": 2}], (
        "broken lines are skipped, as an import does"
    )
    (tmp_path / "e.json").write_text('{"a"\n')
    with pytest.raises(ValueError, match="Expecting"):
        list(restore_release.rows(tmp_path / "e.json"))


@pytest.mark.django_db
def test_the_export_says_that_the_text_must_not_be_published(
    release: Release, tmp_path: Path, manage: Manage, rui: User, client: Client
) -> None:
    result = manage.json("export_release", "own", "--format", "jsonl", "--out", tmp_path / "out")
    assert result["notice"].startswith("The text of HealthBench must not be published")
    assert "**Do not publish this export.**" in (tmp_path / "out" / "DATACARD.md").read_text()
    client.force_login(rui)
    page = reverse("generation:release", args=["own", 1])
    download = reverse("generation:release-export", args=["own", 1, "jsonl"]) + "?by-reference=1"
    assert download in client.get(page).content.decode()
    assert client.get(reverse("api:release", args=["own", 1])).json()["withheld"] == ["HealthBench"]
    Source.objects.update(format="pmc-patients")
    assert "by-reference" not in client.get(page).content.decode()
    assert "notice" not in manage.json("export_release", "own", "--format", "jsonl", "--out", tmp_path / "out")


@pytest.mark.django_db
def test_exports_by_reference_are_downloaded_from_page_and_api(
    release: Release, tmp_path: Path, rui: User, client: Client
) -> None:
    client.force_login(rui)
    pages = {
        reverse("generation:release-export", args=["own", 1, "jsonl"]): {"by-reference": "1"},
        reverse("api:release-export", args=["own", 1]): {"format": "jsonl", "by_reference": "true"},
    }
    for number, (address, query) in enumerate(pages.items()):
        response = client.get(address, query)
        assert "own-v1-jsonl-by-reference.zip" in response["Content-Disposition"]
        path = tmp_path / f"{number}.zip"
        path.write_bytes(b"".join(response.streaming_content))  # type: ignore[attr-defined]
        with ZipFile(path) as archive:
            archive.extractall(tmp_path / str(number))
        assert restore(tmp_path / str(number) / "own-v1", tmp_path / "own.jsonl", tmp_path / "own.json")[0] == 0
    refused = client.get(reverse("api:release-export", args=["own", 1]), {"format": "csv", "by_reference": "true"})
    assert refused.status_code == 422
