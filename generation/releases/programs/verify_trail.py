"""Check the trail of a release: python verify_trail.py [FOLDER]

FOLDER (by default the folder of this file) is an unpacked export of MHB. Needs Python 3.9 or newer
and nothing else. Prints each fault on a line, and exits with 1 if there are any; with 2 if there is
no export to check. A file that cannot be read is a fault; the others are checked all the same.

What it shows: the files match SHA256SUMS. No event was altered since it was written, because each
has the hash of its content. No event of a sample is missing between the first and the last one
here, because they are numbered. Where two consecutive events of the site's chain are both here, the
later one was written on top of the earlier one. Every sample was approved, and nobody held two
roles in its review.

What it cannot show: that the site did not make up the whole chain, or rewrite it before this export
(compare the end of the chain, which this program prints, with other exports of the site and with
what was noted elsewhere); what the events between those here say; who the people are, because their
pseudonyms hold within one sample only; and what the reviews say, of which the trail has only
digests.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

GENESIS = "0" * 64
ROLES = {"primary", "secondary", "adjudicator-1", "adjudicator-2"}
SUMS, MANIFEST = "SHA256SUMS", "manifest.json"
# What reading a file raises that somebody has touched.
UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    StopIteration,
    csv.Error,
)


def digest(value: Any) -> str:
    """SHA-256 of JSON with sorted keys, without spaces, in UTF-8."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    content = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            content.update(block)
    return content.hexdigest()


def _parse(path: Path) -> None:
    """Read JSON, or JSON Lines. Raises what `json` raises, with the number of the line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        json.loads(text)
        return
    for number, line in enumerate(text.splitlines(), 1):
        try:
            json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


class Checker:
    """Checks one export; `faults` are sentences."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults: list[str] = []
        self.samples: dict[str, int] = {}  # sample -> version
        self.reviews: dict[str, Counter[tuple[str, str]]] = {}  # sample -> roles and phases, not retracted
        self.hashes: dict[int, tuple[str, str]] = {}  # sequence -> (hash, hash before it)
        self.events = 0
        self.end: dict[str, Any] = {}

    def fault(self, sentence: str) -> None:
        self.faults.append(sentence)

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """While one file is checked: that it cannot be read is a fault."""
        try:
            yield
        except UNREADABLE as error:
            self.fault(f"{name}: cannot be read ({type(error).__name__} {error})"[:300])

    def checksums(self, what: str = "export") -> None:
        """Check that the files here are those of SHA256SUMS and of the manifest, and unaltered.

        `what` the folder holds, for a fault. Raises FileNotFoundError if it holds no such thing.
        """
        if not (self.folder / SUMS).is_file() and not (self.folder / MANIFEST).is_file():
            raise FileNotFoundError(f"there is neither {SUMS} nor {MANIFEST}")
        if not (self.folder / SUMS).is_file():
            self.fault(f"{SUMS} is missing")
            return
        listed: dict[str, str] = {}
        with self.reading(SUMS):
            listed = self._listed()
        for name, expected in listed.items():
            with self.reading(name):
                self._file(name, expected)
        restored: dict[str, str] = {}
        if (self.folder / MANIFEST).is_file():
            with self.reading(MANIFEST):
                restored = self._manifest(listed)
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if name in listed or name == SUMS or not path.is_file() or "__pycache__" in path.parts:
                continue
            if name != restored.get("path"):
                self.fault(f"{name}: not part of the {what}")
            elif sha256_of(path) != restored.get("sha256"):
                self.fault(f"{name}: altered")

    def _listed(self) -> dict[str, str]:
        """The names in SHA256SUMS, each with its checksum. Every byte of it counts."""
        listed: dict[str, str] = {}
        text = (self.folder / SUMS).read_bytes().decode("utf-8")
        lines = text.split("\n")
        if lines.pop() or not lines:
            self.fault(f"{SUMS}: empty or cut off")
        for line in lines:
            expected, _, name = line.partition("  ")
            path = PurePosixPath(name)
            if len(expected) != 64 or str(path) != name or path.is_absolute() or ".." in path.parts:
                self.fault(f"{SUMS}: not the checksum of a file: {line[:80]!r}")
            elif name in listed:
                self.fault(f"{SUMS}: {name} is listed twice")
            else:
                listed[name] = expected
        return listed

    def _file(self, name: str, expected: str) -> None:
        path = self.folder / name
        if not path.is_file():
            self.fault(f"{name}: missing")
        elif sha256_of(path) != expected:
            self.fault(f"{name}: altered")
            if path.suffix in (".json", ".jsonl"):
                with self.reading(name):
                    _parse(path)

    def _manifest(self, listed: dict[str, str]) -> dict[str, str]:
        """Compare the manifest with SHA256SUMS; return the file that may be added by reference."""
        manifest = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
        for entry in manifest["files"]:
            if entry["path"] not in listed:
                self.fault(f"{entry['path']}: in {MANIFEST}, and not in {SUMS}")
        return dict(manifest.get("by_reference") or {})

    def trail(self) -> None:
        """Check audit.jsonl line by line."""
        with (self.folder / "audit.jsonl").open(encoding="utf-8") as file:
            lines = (json.loads(line) for line in file)
            head = next(lines)
            if head.get("trail") != 1:
                raise ValueError("not a trail of a format that this program knows")
            self.end = head["end"]
            group: dict[str, Any] | None = None
            events: list[dict[str, Any]] = []
            for line in lines:
                if "hash" in line:
                    events.append(line)
                    continue
                if group is not None:
                    self.sample(group, events)
                elif events:
                    self.fault("audit.jsonl: events before the first sample")
                group, events = line, []
            if group is not None:
                self.sample(group, events)
        if len(self.samples) != head["samples"]:
            self.fault(f"audit.jsonl: {len(self.samples)} samples, and the release has {head['samples']}")
        self.links()

    def sample(self, group: dict[str, Any], events: list[dict[str, Any]]) -> None:
        """Check the events of one sample."""
        name, version = group["sample"], group["version"]
        if name in self.samples:
            self.fault(f"sample {name}: listed twice")
        self.samples[name] = version
        if len(events) != group["events"]:
            self.fault(f"sample {name}: {len(events)} events, and there should be {group['events']}")
        last = 0
        numbers: dict[int, int] = {}  # version -> number of events seen
        role_of_review: dict[Any, tuple[Any, str]] = {}  # review -> version and person, role
        submitted: dict[Any, tuple[str, str]] = {}  # review of this version -> role, phase
        outcome: dict[int, Any] = {}
        for event in events:
            where = f"sample {name}, event {event.get('sequence')}"
            content = dict(event)
            del content["hash"]
            if digest(content) != event["hash"]:
                self.fault(f"{where}: altered, its content does not give its hash")
            if event["sample"] != name:
                self.fault(f"{where}: belongs to sample {event['sample']}")
            if event["sequence"] <= last:
                self.fault(f"{where}: out of order")
            last = event["sequence"]
            number = numbers.get(event["version"], 0) + 1
            if event["number"] != number:
                self.fault(f"{where}: number {event['number']} of version {event['version']} where {number} should be")
            numbers[event["version"]] = event["number"]
            if number == 1 and event["kind"] != "opened":
                self.fault(f"{where}: version {event['version']} does not begin by being opened")
            data = event["data"]
            if event["kind"] == "submitted" and data.get("role") in ROLES:
                role_of_review[data.get("review")] = ((event["version"], event["actor"]), data["role"])
            if event["kind"] == "submitted" and event["version"] == version:
                submitted[data.get("review")] = data["role"], data["phase"]
            if event["kind"] == "retracted":
                role_of_review.pop(data.get("review"), None)
                submitted.pop(data.get("review"), None)
            if event["kind"] == "closed":
                outcome[event["version"]] = data.get("after")
            self.hashes.setdefault(event["sequence"], (event["hash"], event["previous"]))
            if self.hashes[event["sequence"]][0] != event["hash"]:
                self.fault(f"{where}: another event has the same place in the chain")
            self.events += 1
        self.reviews[name] = Counter(submitted.values())
        held: dict[Any, set[str]] = {}
        for person, role in role_of_review.values():
            held.setdefault(person, set()).add(role)
        for roles in held.values():
            if len(roles) > 1:
                self.fault(f"sample {name}: one person in the roles {' and '.join(sorted(roles))}")
        if outcome.get(version) != "approved":
            self.fault(f"sample {name}: no event says that version {version} was approved")

    def links(self) -> None:
        """Check that consecutive events of the chain are linked, and none is beyond its end."""
        for sequence, (_hash, previous) in self.hashes.items():
            if sequence == 1:
                before = GENESIS
            else:
                before = self.hashes.get(sequence - 1, (previous,))[0]
            if previous != before:
                self.fault(f"event {sequence}: does not follow from event {sequence - 1}")
            if sequence > self.end["sequence"]:
                self.fault(f"event {sequence}: beyond the end of the chain, {self.end['sequence']}")
        last = self.hashes.get(self.end["sequence"])
        if last is not None and last[0] != self.end["hash"]:
            self.fault(f"event {self.end['sequence']}: is not the end of the chain that the file names")

    def data(self) -> None:
        """Check that data and trail have the same samples.

        Reading Parquet would need other software.
        """
        versions: dict[str, int] | None = None
        if (path := self.folder / "samples.jsonl").exists():
            with path.open(encoding="utf-8") as file:
                versions = self._versions(map(json.loads, file))
        elif (path := self.folder / "samples.csv").exists():
            csv.field_size_limit(2**31 - 1)
            with path.open(encoding="utf-8-sig", newline="") as file:
                versions = self._versions(csv.DictReader(file))
        if versions is None:
            return
        for name in sorted(versions.keys() | self.samples.keys()):
            if versions.get(name) != self.samples.get(name):
                in_data, in_trail = versions.get(name), self.samples.get(name)
                self.fault(f"sample {name}: version {in_data} in the data, version {in_trail} in the trail")

    def _versions(self, rows: Iterable[Any]) -> dict[str, int]:
        versions: dict[str, int] = {}
        for row in rows:
            if row["sample_id"] in versions:
                self.fault(f"sample {row['sample_id']}: twice in the data")
            versions[row["sample_id"]] = int(row["version"])
        return versions


def main(arguments: list[str]) -> int:
    """Check the folder named in `arguments`; return the exit code."""
    folder = Path(__file__).parent
    if arguments:
        folder = Path(arguments[0])
    checker = Checker(folder)
    try:
        checker.checksums()
    except OSError as error:
        sys.stderr.write(f"There is no export to check in {folder}: {error}\n")
        return 2
    with checker.reading("audit.jsonl"):
        checker.trail()
    with checker.reading("samples"):
        checker.data()
    for fault in checker.faults:
        sys.stdout.write(fault + "\n")
    code, result = 0, "nothing is altered or missing"
    if checker.faults:
        code, result = 1, f"{len(checker.faults)} faults"
    sys.stdout.write(f"{len(checker.samples)} samples, {checker.events} events: {result}\n")
    sys.stdout.write(f"The chain ended at {checker.end.get('sequence')}:{checker.end.get('hash')}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
