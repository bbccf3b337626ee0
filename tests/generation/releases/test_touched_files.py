"""Exports that somebody has touched: every fault is named, and no byte can be changed unseen."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from generation.models import Release
from generation.releases import export
from generation.releases.programs import verify_release, verify_trail
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import evaluate_release, make_release
from tests.populations import population
from tests.profile import by_profile

pytestmark = pytest.mark.django_db
MUTATIONS = by_profile(60, 2000)  # of the release and of the bundle together


@population
def exports(folder: Path, models: str) -> dict[str, Path]:
    """The folders of a release and of a run on it."""
    release: Release = make_release(folder, models, accounts_of(*PHYSICIANS), conversations=2)
    export.Export(release, "jsonl").write(folder / "release")
    run = evaluate_release(release, models, "sim-careful")
    bundle.export_run(run, folder / "bundle")
    return {"release": folder / "release", "bundle": folder / "bundle"}


@pytest.fixture
def release_folder(exports: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(exports["release"], tmp_path / "release"))


def by_spreadsheet(path: Path) -> None:
    """Save a table as a German spreadsheet does."""
    path.write_text(path.read_text("utf-8-sig").replace(",", ";"), encoding="utf-8")


def test_a_table_saved_by_a_spreadsheet_hides_no_other_fault(release_folder: Path) -> None:
    by_spreadsheet(release_folder / "ratings.csv")
    (release_folder / "audit.jsonl").write_text("no JSON\n")
    (release_folder / "added.txt").write_text("new")
    faults = verify_release.faults_of(release_folder)
    for begins in (
        "ratings.csv: altered",
        "ratings.csv: lacks the columns sample_id",
        "audit.jsonl: altered",
        "audit.jsonl: cannot be read (ValueError line 1",
        "audit.jsonl: trail: cannot be read",
        "added.txt: not part of the release",
    ):
        assert [fault for fault in faults if fault.startswith(begins)], (begins, faults)


@pytest.mark.parametrize("sums", ["", "\n", "no checksum\n", "{}  ../elsewhere\n".format("0" * 64)])
def test_checksums_that_name_nothing_are_a_fault(
    release_folder: Path, sums: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (release_folder / "SHA256SUMS").write_text(sums)
    for program in (verify_release, verify_trail):
        assert program.main([str(release_folder)]) == 1
        out = capsys.readouterr().out
        assert "SHA256SUMS: " in out
        assert "samples.jsonl: in manifest.json, and not in SHA256SUMS" in out


def test_a_file_whose_line_is_removed_from_the_checksums_is_named(release_folder: Path) -> None:
    path = release_folder / "SHA256SUMS"
    lines = path.read_text().splitlines(keepends=True)
    without = [line for line in lines if "croissant.json" not in line]
    (release_folder / "croissant.json").write_text("{}")
    path.write_text("".join(without))
    assert "croissant.json: in manifest.json, and not in SHA256SUMS" in verify_release.faults_of(release_folder)


def test_a_folder_that_holds_nothing_of_the_kind_is_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for program in (verify_release, verify_trail, verify_run):
        assert program.main([str(tmp_path)]) == 2
        assert "to check in" in capsys.readouterr().err


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Another content: bytes changed, removed, added or moved, or what programs do to files."""
    place = chance.randrange(len(content) + 1) if content else 0
    length = chance.choice((1, 1, 1, 2, 8, 200))
    noise = chance.choice(
        (b"\x00", b"\xff", b"\n", b'"', b"{", b"]", b"-1", b"1e999", b"9" * 5000, b"null", b"\r", b"0")
    )
    change: list[Callable[[], bytes]] = [
        lambda: content[:place] + noise + content[place + length :],
        lambda: content[:place] + content[place + length :],
        lambda: content[:place] + noise + content[place:],
        lambda: content[:place],
        lambda: content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :],
        lambda: content.replace(b"\n", b"\r\n"),
        lambda: b"\xef\xbb\xbf" + content,
        lambda: content.replace(b",", b";"),
        lambda: content.replace(b": ", b":"),
        lambda: b"\n".join(reversed(content.split(b"\n"))),
        lambda: content.rstrip(b"\n"),
        lambda: b"[" * 100_000,
        lambda: b"",
        lambda: b"{}\n",
        lambda: b"null",
        lambda: b"[1]\n" * 3,
    ]
    return chance.choice(change)()


def touched(folder: Path, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Change one file of a folder after the other; each is put back."""
    chance = random.Random(seed)
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    while count:
        path = chance.choice(paths)
        before = path.read_bytes()
        after = mutated(before, chance)
        if after == before:
            continue
        path.write_bytes(after)
        yield path.relative_to(folder).as_posix(), after
        path.write_bytes(before)
        count -= 1


def hide(folder: Path, name: str) -> None:
    """Write the checksum of a changed file into the manifest and SHA256SUMS."""
    about = json.loads((folder / "manifest.json").read_text())
    [entry] = [entry for entry in about["files"] if entry["path"] == name]
    entry["sha256"] = verify_trail.sha256_of(folder / name)
    (folder / "manifest.json").write_text(json.dumps(about))
    names = [line.partition("  ")[2] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    sums = [f"{verify_trail.sha256_of(folder / each)}  {each}\n" for each in names]
    (folder / "SHA256SUMS").write_text("".join(sums))


# No other file tells of these rows; of `calls.jsonl` the cost does, and these calls cost nothing.
WITHOUT_A_WITNESS = {("release", "highlights.csv", "lacks"), ("bundle", "calls.jsonl", "lacks")}
WITHOUT_A_WITNESS |= {("bundle", "prompts.jsonl", "lacks"), ("bundle", "judge_replies.jsonl", "lacks")}
WITHOUT_A_WITNESS |= {("bundle", "judge_replies.jsonl", "doubles")}


@pytest.mark.parametrize("kind", ["release", "bundle"])
def test_a_sealed_file_whose_last_row_is_missing_or_there_twice_is_told(
    exports: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(exports[kind], tmp_path / kind))
    program = verify_run if kind == "bundle" else verify_release
    sums, manifest = folder / "SHA256SUMS", folder / "manifest.json"
    before = sums.read_bytes(), manifest.read_bytes()
    untold = set()
    for path in sorted([*folder.glob("*.csv"), *folder.glob("*.jsonl")]):
        content = path.read_bytes()
        *first, last = content.splitlines(keepends=True)
        for what, rows in (("lacks", first), ("doubles", [*first, last, last])):
            path.write_bytes(b"".join(rows))
            hide(folder, path.name)
            if program.main([str(folder)]) == 0:
                untold.add((kind, path.name, what))
        path.write_bytes(content)
        sums.write_bytes(before[0])
        manifest.write_bytes(before[1])
    assert untold <= WITHOUT_A_WITNESS


@pytest.mark.parametrize("kind", ["release", "bundle"])
def test_no_byte_changes_unseen_and_nothing_ends_in_a_traceback(
    exports: dict[str, Path], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(exports[kind], tmp_path / kind))
    programs = [verify_run] if kind == "bundle" else [verify_release, verify_trail]
    for program in programs:
        assert program.main([str(folder)]) == 0, capsys.readouterr()
    sums, manifest = folder / "SHA256SUMS", folder / "manifest.json"
    before = sums.read_bytes(), manifest.read_bytes()
    for number, (name, content) in enumerate(touched(folder, MUTATIONS // 2, seed=56)):
        for program in programs:
            assert program.main([str(folder)]) == 1, (program.__name__, name, content[:200])
        if number % 4 == 0 and name not in (sums.name, manifest.name):
            hide(folder, name)
            for program in programs:
                assert program.main([str(folder)]) in (0, 1), (program.__name__, name, content[:200])
            sums.write_bytes(before[0])
            manifest.write_bytes(before[1])
    for program in programs:
        assert program.main([str(folder)]) == 0


def test_the_programs_in_an_export_need_nothing_of_the_site(release_folder: Path) -> None:
    by_spreadsheet(release_folder / "ratings.csv")
    for name in ("verify_trail.py", "verify_release.py"):
        command = [sys.executable, "-I", str(release_folder / name)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        assert (ended.returncode, ended.stderr) == (1, "")
        assert "ratings.csv: altered" in ended.stdout


def test_the_numbers_of_an_altered_bundle_are_a_fault_of_their_own(exports: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(exports["bundle"], tmp_path / "bundle"))
    about = json.loads((folder / "run.json").read_text())
    del about["release"]
    (folder / "run.json").write_text(json.dumps(about))
    faults = verify_run.check(folder)["faults"]
    assert faults[0] == "run.json: altered"
    assert faults[-1].startswith("the numbers cannot be read (KeyError")
