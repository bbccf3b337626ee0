"""The trail of a release: what travels with an export, and the program that checks it without the site."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generation.batches import services as batches_services
from generation.models import Release
from generation.releases import export, queries
from generation.releases import services as releases_services
from generation.releases.exporters.base import canonical
from generation.samples import services as samples_services
from review.audit.trail import record, recording_events
from review.models import Case, Event, User
from tests.conftest import PHYSICIANS, cast
from tests.engine import approved, conversations_file, endpoint, generated, imported
from tests.populations import population
from tests.review.approve import approve_everything, rejection
from tests.review.factories import say

pytestmark = pytest.mark.django_db

Lines = list[dict[str, Any]]


@population
def made(folder: Path, models: str) -> tuple[Release, Path]:
    source = imported(conversations_file(folder / "own.jsonl", 5))
    approved(source, models, cast(*PHYSICIANS), 3)
    release = releases_services.freeze_release("own", benchmark="mhb")
    export.export_release(release, "jsonl", folder / "out")
    return release, folder / "out"


@pytest.fixture
def release(made: tuple[Release, Path]) -> Release:
    """Three approved samples among others that are still with physicians."""
    return made[0]


@pytest.fixture
def exported(made: tuple[Release, Path], tmp_path: Path) -> Path:
    """The export of `release`."""
    return Path(shutil.copytree(made[1], tmp_path / "out"))


def checked(folder: Path) -> tuple[int, str]:
    """What the exported program says, run as a receiver of the export would: without the site and its libraries."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(folder / "verify_trail.py")], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def lines_of(folder: Path) -> Lines:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text(encoding="utf-8").splitlines()]


def put(folder: Path, lines: Lines) -> None:
    """Write the trail anew, and the checksums with it."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / "audit.jsonl").write_text(text, encoding="utf-8")
    sums = folder / "SHA256SUMS"
    names = [line[66:] for line in sums.read_text().splitlines()]
    sums.write_text("".join(f"{hashlib.sha256((folder / n).read_bytes()).hexdigest()}  {n}\n" for n in names))


def hashed_anew(event: dict[str, Any]) -> None:
    content = {key: value for key, value in event.items() if key != "hash"}
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    event["hash"] = hashlib.sha256(text.encode()).hexdigest()


def test_a_good_export(exported: Path, release: Release) -> None:
    code, said = checked(exported)
    head, *rest = lines_of(exported)
    groups, events = [line for line in rest if "hash" not in line], [line for line in rest if "hash" in line]
    assert code == 0, said
    assert f"3 samples, {len(events)} events: nothing is altered or missing" in said
    assert head["end"] == {
        "sequence": release.trail_end,
        "hash": Event.objects.get(sequence=release.trail_end).hash,
    }
    text = (exported / "audit.jsonl").read_text(encoding="utf-8")
    assert text == "".join(f"{canonical(line)}\n" for line in [head, *rest])
    assert [group["sample"] for group in groups] == list(release.samples.values_list("key", flat=True))
    kinds = [event["kind"] for event in events if event["sample"] == groups[0]["sample"]]
    assert kinds[:2] == ["opened", "claimed"]
    assert kinds[-1] == "closed"
    manifest = json.loads((exported / "manifest.json").read_text())
    assert {"audit.jsonl", "verify_trail.py"} < {entry["path"] for entry in manifest["files"]}


@pytest.mark.parametrize("format_name", ["csv", "parquet"])
def test_other_formats(release: Release, tmp_path: Path, format_name: str) -> None:
    export.export_release(release, format_name, tmp_path / format_name)
    assert checked(tmp_path / format_name)[0] == 0


def test_nobody_is_named(exported: Path, release: Release, physicians: list[User]) -> None:
    text = (exported / "audit.jsonl").read_text(encoding="utf-8")
    for physician in physicians:
        assert physician.username not in text.replace("sample", "")
        assert physician.last_name not in text
    who: dict[str, set[str]] = {}
    for event in lines_of(exported)[1:]:
        if event.get("kind") == "submitted":
            who.setdefault(event["sample"], set()).add(event["actor"])
            assert set(event["data"]) == {"role", "phase", "review", "meaning", "guideline", "digest"}
    assert all(len(people) == 2 for people in who.values()), "two people told apart"
    assert len(set.union(*who.values())) == 2 * len(who), "and nobody followed from one sample to another"


def test_the_same_release_gives_the_same_bytes(release: Release, exported: Path, ana: User, tmp_path: Path) -> None:
    case = release.samples.all()[0].version.case
    with recording_events():
        record(case, Event.Kind.REMARKED, ana)  # after the release: it belongs to the next one
    export.export_release(release, "jsonl", tmp_path / "again")
    for name in ("audit.jsonl", "verify_trail.py", "SHA256SUMS"):
        assert (tmp_path / "again" / name).read_bytes() == (exported / name).read_bytes()


def test_a_second_version_brings_the_trail_of_the_first(tmp_path: Path, models: str, physicians: list[User]) -> None:
    batch = generated(imported(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models))
    ana, bo, *_others = physicians
    against = rejection(Case.objects.get().frozen.form, "Implausible.")
    say(ana, against)
    say(bo, against, against)
    samples_services.apply_outcomes()
    batches_services.work_on_batch(batch.pk)
    approve_everything(physicians)
    samples_services.apply_outcomes()
    export.export_release(releases_services.freeze_release("own", benchmark="mhb"), "jsonl", tmp_path / "out")
    events = [line for line in lines_of(tmp_path / "out") if "hash" in line]
    assert {event["version"] for event in events} == {1, 2}
    assert [event["data"]["after"] for event in events if event["kind"] == "closed"] == ["rejected", "approved"]
    assert checked(tmp_path / "out")[0] == 0


def alter(lines: Lines) -> None:
    lines[4]["kind"] = "remarked"


def alter_with_its_hash(lines: Lines) -> None:
    lines[4]["at"] = "2020-01-01T00:00:00.000000Z"
    hashed_anew(lines[4])


def remove(lines: Lines) -> None:
    del lines[4]
    lines[1]["events"] -= 1


def exchange(lines: Lines) -> None:
    lines[4], lines[5] = lines[5], lines[4]


def cut_off(lines: Lines) -> None:
    del lines[-1]


def cut_off_and_say_so(lines: Lines) -> None:
    del lines[-1]
    [group] = [line for line in lines if line.get("sample") == lines[-1]["sample"] and "events" in line]
    group["events"] -= 1


def leave_out_a_sample(lines: Lines) -> None:
    second = [place for place, line in enumerate(lines) if "events" in line][1]
    del lines[second:]
    lines[0]["samples"] = 1


def one_person_in_two_roles(lines: Lines) -> None:
    first, *others = [
        line for line in lines if line.get("kind") == "submitted" and line["sample"] == lines[1]["sample"]
    ]
    for line in others:
        line["actor"] = first["actor"]
        hashed_anew(line)


def beyond_the_end(lines: Lines) -> None:
    lines[0]["end"]["sequence"] -= 1000


def another_end(lines: Lines) -> None:
    lines[0]["end"] = {"sequence": lines[-1]["sequence"], "hash": "0" * 64}


def another_sample(lines: Lines) -> None:
    lines[4]["sample"] = "mhb-999999"


def not_approved(lines: Lines) -> None:
    lines[-1]["data"]["after"] = "rejected"
    hashed_anew(lines[-1])


TAMPERED: dict[Callable[[Lines], None], str] = {
    alter: "altered",
    alter_with_its_hash: "does not follow from event",
    remove: "number 4 of version 1 where 3 should be",
    exchange: "out of order",
    cut_off: "events, and there should be",
    cut_off_and_say_so: "nothing says that version 1 was approved",
    leave_out_a_sample: "in the data, version None in the trail",
    one_person_in_two_roles: "one person in the roles primary and secondary",
    beyond_the_end: "stands beyond the end of the chain",
    another_end: "is not the end that the file names",
    another_sample: "belongs to sample mhb-999999",
    not_approved: "nothing says that version 1 was approved",
}


@pytest.mark.parametrize("tamper", TAMPERED)
def test_a_tampered_export(exported: Path, tamper: Callable[[Lines], None]) -> None:
    lines = lines_of(exported)
    tamper(lines)
    put(exported, lines)
    code, said = checked(exported)
    assert code == 1
    assert TAMPERED[tamper] in said


def test_files_that_are_not_those_of_the_checksums(exported: Path) -> None:
    with (exported / "samples.jsonl").open("a") as file:
        file.write("\n")
    (exported / "DATACARD.md").unlink()
    code, said = checked(exported)
    assert code in (1, 2)
    assert code == 2 or {"DATACARD.md: missing", "samples.jsonl: not the file that SHA256SUMS names"} <= set(
        said.splitlines()
    )


@pytest.mark.parametrize("text", ["", "{}\n", "not JSON\n", '{"trail": 2}\n'])
def test_what_is_no_trail(exported: Path, text: str) -> None:
    (exported / "audit.jsonl").write_text(text)
    assert checked(exported)[0] == 2


@pytest.mark.parametrize("together", [1, 2])
def test_an_export_is_read_in_chunks(
    release: Release, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(queries, "READ", together)
    export.export_release(release, "jsonl", tmp_path / "again")
    assert (tmp_path / "again" / "SHA256SUMS").read_bytes() == (exported / "SHA256SUMS").read_bytes()
