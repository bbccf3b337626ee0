"""Exports without the text of their sources: nothing of it is in them, and the original file gives the samples back."""

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
from generation.releases.exporters.programs import restore_release
from review.models import User
from tests.conftest import PHYSICIANS, cast
from tests.engine import Manage, conversations_file, frozen, reports_file
from tests.populations import population
from tests.profile import far

WORDS = 8
LINES = [name for name in available() if hasattr(load(name), "lines")]


@population
def made(folder: Path, models: str) -> Release:
    return frozen(folder, models, cast(*PHYSICIANS), conversations=2, reports=1)


@pytest.fixture
def release(made: Release, tmp_path: Path) -> Release:
    """With the files that its samples came from."""
    conversations_file(tmp_path / "own.jsonl", 2)
    reports_file(tmp_path / "own.json", 1)
    return made


def restored(folder: Path, *originals: Path) -> tuple[int, str]:
    program = folder / "restore_release.py"
    done = subprocess.run(
        [sys.executable, "-I", program, *originals], capture_output=True, text=True, check=False, cwd=folder.parent
    )
    return done.returncode, done.stdout + done.stderr


def sequences(text: str) -> set[tuple[str, ...]]:
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


@settings(max_examples=far(100, 300), deadline=None)
@given(content=contents, value=values, data=st.data())
def test_any_line_is_put_together_again(content, value, data):
    source = list(restore_release.strings(content))
    quoted = data.draw(st.lists(st.sampled_from(source) if source else texts, max_size=3))
    line = {"content": value, "quoted": [f"x{text}y" for text in quoted], "n": 1.5}
    written = references.SourceTexts([(("own", "1"), content)]).line(line)
    written = json.loads(json.dumps(written))
    found = {restore_release.digest(text): text for text in source}
    assert restore_release.whole(written["line"], [found[sha] for *_place, sha in written["texts"]]) == line
    own = [one for one in restore_release.strings(written["line"]) if one not in ("x", "from_source")]
    long = [text for text in source if len(text) >= references.SHARED and (" " in text or not text.isascii())]
    for text in long:
        for at in range(len(text) - references.SHARED + 1):
            assert not any(text[at : at + references.SHARED] in one for one in own)


@pytest.mark.django_db
@pytest.mark.both
@pytest.mark.parametrize("format_name", LINES)
def test_an_export_by_reference_is_restored_byte_for_byte(
    release: Release, tmp_path: Path, manage: Manage, format_name: str
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    export.export_release(release, format_name, whole)
    made = manage.json("export_release", "own", "--format", format_name, "--out", out, "--by-reference")
    assert "notice" not in made
    assert manage.json("verify_release", out)["faults"] == []
    name = json.loads((out / "manifest.json").read_text())["by_reference"]["path"]
    assert not (out / name).exists()
    code, said = restored(out, tmp_path / "own.jsonl", tmp_path / "own.json")
    assert code == 0, said
    assert (out / name).read_bytes() == (whole / name).read_bytes()
    assert manage.json("verify_release", out)["faults"] == []
    (out / name).write_text((out / name).read_text().replace("the", "teh", 1))
    assert f"{name}: altered" in json.loads(manage("verify_release", out, "--json")[1])["faults"]


@pytest.mark.django_db
@pytest.mark.parametrize("format_name", LINES)
def test_no_eight_words_of_the_source_are_in_it(release: Release, tmp_path: Path, format_name: str) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    export.export_release(release, format_name, whole)
    export.export_release(release, format_name, out, by_reference=True)
    source = {
        words
        for record in SourceRecord.objects.all()
        for text in restore_release.strings(record.content)
        for words in sequences(text)
    }
    assert len(source) > 100

    def held(folder: Path) -> set[tuple[str, ...]]:
        found = set()
        for path in folder.rglob("*"):
            text = path.read_text()
            found |= sequences(text)
            if path.suffix in (".json", ".jsonl"):
                lines = text.splitlines() if path.suffix == ".jsonl" else [text]
                found |= {
                    words
                    for line in lines
                    for one in restore_release.strings(json.loads(line))
                    for words in sequences(one)
                }
        return found & source

    assert held(whole)
    assert not held(out)


@pytest.mark.django_db
def test_a_wrong_or_altered_original_is_refused_by_record(release: Release, tmp_path: Path) -> None:
    out, original = tmp_path / "out", tmp_path / "own.jsonl"
    export.export_release(release, "jsonl", out, by_reference=True)
    code, said = restored(out, original)
    assert (code, said) == (1, "own-reports: record 1-1 is not in the original file, or was altered\n")
    altered = tmp_path / "altered.jsonl"
    altered.write_text(original.read_text().replace("case 2", "Case 2"))
    code, said = restored(out, altered, tmp_path / "own.json")
    record = SourceRecord.objects.get(title__contains="case 2").external_id
    assert (code, said) == (1, f"own-conversations: record {record} is not in the original file, or was altered\n")
    code, said = restored(out, tmp_path / "nothing.jsonl")
    assert code == 2
    assert "nothing.jsonl" in said
    assert restored(out)[0] == 2
    references_file = out / "samples.references.jsonl"
    references_file.write_text(references_file.read_text().replace('"must"', '"MUST"').replace("mhb", "MHB"))
    code, said = restored(out, original, tmp_path / "own.json")
    assert (code, said.strip()) == (
        1,
        "samples.references.jsonl: altered, the samples do not have the checksum of the release",
    )
    assert not (out / "samples.jsonl").exists()
    assert not list(out.glob(".*"))


def test_an_original_may_be_a_table_or_one_json_value(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('﻿patient,age\r\n"Two\nlines, a ""quote""","[\'one two\', ""it\'s""]"\r\n')
    found = {one for row in restore_release.rows(tmp_path / "a.csv") for one in restore_release.strings(row)}
    assert {'Two\nlines, a "quote"', "one two", "it's"} <= found
    (tmp_path / "b.json").write_text(json.dumps({"1": {"QUESTION": "Is it?"}}, indent=1))
    assert "Is it?" in {
        one for row in restore_release.rows(tmp_path / "b.json") for one in restore_release.strings(row)
    }
    (tmp_path / "c.parquet").write_bytes(b"PAR1....")
    with pytest.raises(ValueError, match="Parquet"):
        list(restore_release.rows(tmp_path / "c.parquet"))
    (tmp_path / "d.jsonl").write_text('{"a": 1}\n{"a"\n\n{"b": 2}\n')
    assert [row for row in restore_release.rows(tmp_path / "d.jsonl") if row] == [{"a": 1}, {"b": 2}], (
        "as an import does"
    )
    (tmp_path / "e.json").write_text('{"a"\n')
    with pytest.raises(ValueError, match="Expecting"):
        list(restore_release.rows(tmp_path / "e.json"))


@pytest.mark.django_db
def test_the_export_says_that_the_text_must_not_be_published(
    release: Release, tmp_path: Path, manage: Manage, rui: User, client: Client
) -> None:
    made = manage.json("export_release", "own", "--format", "jsonl", "--out", tmp_path / "out")
    assert made["notice"].startswith("The text of HealthBench must not be published")
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
def test_page_and_api_send_it(release: Release, tmp_path: Path, rui: User, client: Client) -> None:
    client.force_login(rui)
    pages = {
        reverse("generation:release-export", args=["own", 1, "jsonl"]): {"by-reference": "1"},
        reverse("api:release-export", args=["own", 1]): {"format": "jsonl", "by_reference": "true"},
    }
    for number, (address, query) in enumerate(pages.items()):
        answer = client.get(address, query)
        assert "own-v1-jsonl-by-reference.zip" in answer["Content-Disposition"]
        path = tmp_path / f"{number}.zip"
        path.write_bytes(b"".join(answer.streaming_content))  # type: ignore[attr-defined]
        with ZipFile(path) as archive:
            archive.extractall(tmp_path / str(number))
        assert restored(tmp_path / str(number) / "own-v1", tmp_path / "own.jsonl", tmp_path / "own.json")[0] == 0
    refused = client.get(reverse("api:release-export", args=["own", 1]), {"format": "csv", "by_reference": "true"})
    assert refused.status_code == 422
