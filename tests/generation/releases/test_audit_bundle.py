"""The audit trail in an export, and the exported program that checks it without the site."""

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
from generation.outcomes import services as outcomes_services
from generation.releases import export, queries
from generation.releases import services as releases_services
from generation.releases.exporters.base import canonical
from review.audit.trail import record, recording_events
from review.models import Case, Event, User
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import approve_samples, conversations_file, endpoint, import_file, run_batch
from tests.populations import population
from tests.review.approve import approve_everything, rejection_of
from tests.review.factories import claim_and_submit

pytestmark = pytest.mark.django_db

Lines = list[dict[str, Any]]


@population
def export_of_release(folder: Path, models: str) -> tuple[Release, Path]:
    source = import_file(conversations_file(folder / "own.jsonl", 5))
    approve_samples(source, models, accounts_of(*PHYSICIANS), 3)
    release = releases_services.freeze_release("own", benchmark="mhb")
    export.Export(release, "jsonl").write(folder / "out")
    return release, folder / "out"


@pytest.fixture
def release(export_of_release: tuple[Release, Path]) -> Release:
    """A release of three samples; others of the batch are still in review."""
    return export_of_release[0]


@pytest.fixture
def exported(export_of_release: tuple[Release, Path], tmp_path: Path) -> Path:
    """The export of `release`."""
    return Path(shutil.copytree(export_of_release[1], tmp_path / "out"))


def run_checker(folder: Path) -> tuple[int, str]:
    """Run the exported program as its recipient would, without the site and its libraries.

    Returns the exit code and the output.
    """
    result = subprocess.run(
        [sys.executable, "-I", "-S", str(folder / "verify_trail.py")], capture_output=True, text=True, check=False
    )
    return result.returncode, result.stdout + result.stderr


def read_trail(folder: Path) -> Lines:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text(encoding="utf-8").splitlines()]


def write_trail(folder: Path, lines: Lines) -> None:
    """Replace the trail, and update the checksums."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / "audit.jsonl").write_text(text, encoding="utf-8")
    sums = folder / "SHA256SUMS"
    names = [line[66:] for line in sums.read_text().splitlines()]
    sums.write_text("".join(f"{hashlib.sha256((folder / n).read_bytes()).hexdigest()}  {n}\n" for n in names))


def rehash(event: dict[str, Any]) -> None:
    content = {key: value for key, value in event.items() if key != "hash"}
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    event["hash"] = hashlib.sha256(text.encode()).hexdigest()


def test_the_checker_accepts_an_unchanged_export(exported: Path, release: Release) -> None:
    code, output = run_checker(exported)
    head, *rest = read_trail(exported)
    groups, events = [line for line in rest if "hash" not in line], [line for line in rest if "hash" in line]
    assert code == 0, output
    assert f"3 samples, {len(events)} events: nothing is altered or missing" in output
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


def test_the_trail_names_nobody(exported: Path, release: Release, physicians: list[User]) -> None:
    text = (exported / "audit.jsonl").read_text(encoding="utf-8")
    for physician in physicians:
        assert physician.username not in text.replace("sample", "")
        assert physician.last_name not in text
    actors_by_sample: dict[str, set[str]] = {}
    for event in read_trail(exported)[1:]:
        if event.get("kind") == "submitted":
            actors_by_sample.setdefault(event["sample"], set()).add(event["actor"])
            assert set(event["data"]) == {"role", "phase", "review", "meaning", "guideline", "digest", "anchor"}
    assert all(len(actors) == 2 for actors in actors_by_sample.values()), "the two reviewers have different pseudonyms"
    assert len(set.union(*actors_by_sample.values())) == 2 * len(actors_by_sample), (
        "nobody has the same pseudonym in two samples"
    )


def test_the_same_release_gives_the_same_bytes(release: Release, exported: Path, ana: User, tmp_path: Path) -> None:
    case = release.samples.all()[0].version.case
    with recording_events():
        record(case, Event.Kind.REMARKED, ana)  # after freezing, for the next release
    export.Export(release, "jsonl").write(tmp_path / "again")
    for name in ("audit.jsonl", "verify_trail.py", "SHA256SUMS"):
        assert (tmp_path / "again" / name).read_bytes() == (exported / name).read_bytes()


def test_the_trail_of_a_second_version_includes_the_first(tmp_path: Path, models: str, physicians: list[User]) -> None:
    batch = run_batch(import_file(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models))
    ana, bo, *_others = physicians
    rejected = rejection_of(Case.objects.get().frozen.form, "Implausible.")
    claim_and_submit(ana, rejected)
    claim_and_submit(bo, rejected, rejected)
    outcomes_services.apply_outcomes()
    batches_services.work_on_batch(batch.pk)
    approve_everything(physicians)
    outcomes_services.apply_outcomes()
    export.Export(releases_services.freeze_release("own", benchmark="mhb"), "jsonl").write(tmp_path / "out")
    events = [line for line in read_trail(tmp_path / "out") if "hash" in line]
    assert {event["version"] for event in events} == {1, 2}
    assert [event["data"]["after"] for event in events if event["kind"] == "closed"] == ["rejected", "approved"]
    assert run_checker(tmp_path / "out")[0] == 0


def change_kind(lines: Lines) -> None:
    lines[4]["kind"] = "remarked"


def change_time_and_hash(lines: Lines) -> None:
    lines[4]["at"] = "2020-01-01T00:00:00.000000Z"
    rehash(lines[4])


def remove_event(lines: Lines) -> None:
    del lines[4]
    lines[1]["events"] -= 1


def swap_events(lines: Lines) -> None:
    lines[4], lines[5] = lines[5], lines[4]


def cut_off_the_end(lines: Lines) -> None:
    del lines[-1]


def cut_off_the_end_and_adjust_count(lines: Lines) -> None:
    del lines[-1]
    [group] = [line for line in lines if line.get("sample") == lines[-1]["sample"] and "events" in line]
    group["events"] -= 1


def leave_out_a_sample(lines: Lines) -> None:
    second = [position for position, line in enumerate(lines) if "events" in line][1]
    del lines[second:]
    lines[0]["samples"] = 1


def merge_reviewers(lines: Lines) -> None:
    first, *others = [
        line for line in lines if line.get("kind") == "submitted" and line["sample"] == lines[1]["sample"]
    ]
    for line in others:
        line["actor"] = first["actor"]
        rehash(line)


def move_end_back(lines: Lines) -> None:
    lines[0]["end"]["sequence"] -= 1000


def change_end_hash(lines: Lines) -> None:
    lines[0]["end"] = {"sequence": lines[-1]["sequence"], "hash": "0" * 64}


def change_sample(lines: Lines) -> None:
    lines[4]["sample"] = "mhb-999999"


def change_outcome(lines: Lines) -> None:
    lines[-1]["data"]["after"] = "rejected"
    rehash(lines[-1])


TAMPERED: dict[Callable[[Lines], None], str] = {
    change_kind: "altered",
    change_time_and_hash: "does not follow from event",
    remove_event: "number 4 of version 1 where 3 should be",
    swap_events: "out of order",
    cut_off_the_end: "events, and there should be",
    cut_off_the_end_and_adjust_count: "no event says that version 1 was approved",
    leave_out_a_sample: "in the data, version None in the trail",
    merge_reviewers: "one person in the roles primary and secondary",
    move_end_back: ": beyond the end of the chain",
    change_end_hash: "is not the end of the chain that the file names",
    change_sample: "belongs to sample mhb-999999",
    change_outcome: "no event says that version 1 was approved",
}


@pytest.mark.parametrize("tamper", TAMPERED)
def test_the_checker_detects_tampering(exported: Path, tamper: Callable[[Lines], None]) -> None:
    lines = read_trail(exported)
    tamper(lines)
    write_trail(exported, lines)
    code, output = run_checker(exported)
    assert code == 1
    assert TAMPERED[tamper] in output


def test_the_checker_detects_changed_and_missing_files(exported: Path) -> None:
    with (exported / "samples.jsonl").open("a") as file:
        file.write("\n")
    (exported / "DATACARD.md").unlink()
    code, output = run_checker(exported)
    assert code in (1, 2)
    assert code == 2 or {"DATACARD.md: missing", "samples.jsonl: altered"} <= set(output.splitlines())


def test_missing_checksums_are_a_fault_and_the_trail_is_checked(exported: Path) -> None:
    (exported / "SHA256SUMS").unlink()
    code, output = run_checker(exported)
    assert code == 1
    assert output.startswith("SHA256SUMS is missing\n")
    assert "events: 1 faults" in output


@pytest.mark.parametrize("text", ["", "{}\n", "not JSON\n", '{"trail": 2}\n'])
def test_a_file_that_is_no_trail_is_a_fault(exported: Path, text: str) -> None:
    (exported / "audit.jsonl").write_text(text)
    code, output = run_checker(exported)
    assert (code, "audit.jsonl: cannot be read" in output) == (1, True)


@pytest.mark.parametrize("chunk_size", [1, 2])
def test_the_size_of_chunks_does_not_change_the_export(
    release: Release, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_size: int
) -> None:
    monkeypatch.setattr(queries, "READ", chunk_size)
    export.Export(release, "jsonl").write(tmp_path / "again")
    assert (tmp_path / "again" / "SHA256SUMS").read_bytes() == (exported / "SHA256SUMS").read_bytes()
