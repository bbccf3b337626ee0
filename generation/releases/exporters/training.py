"""Conversations to train a model on, question and correct answer.

The files are `train.jsonl`, `validation.jsonl` and `test.jsonl`. Each line is `{"messages":
[...]}`. No origin (source record, pair, context) is in more than one file. Eight of ten origins are
for training, one for validation and one for testing, drawn by a digest of the origin. What its
publishers call validation or test stays there, with everything of the same origin.
"""

import json
import sqlite3
from array import array
from collections.abc import Iterable
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path

from generation.common.temporary import temporary_folder
from generation.releases.exporters.base import Exporter, Samples, WrongSample, canonical, gettext_noop, open_text

TRAIN, VALIDATION, TEST = "train", "validation", "test"
PARTS = (TRAIN, VALIDATION, TEST)
PUBLISHED_SPLITS = {"validation": 1, "val": 1, "valid": 1, "dev": 1, "test": 2}  # -> index in PARTS
TENTHS = (8, 9)  # of ten origins: below the first for training, below the second for validation


class Origins:
    """Groups samples by their origins: samples that share an origin are in the same group.

    The names are kept in a file, not in memory.
    """

    def __init__(self, folder: Path) -> None:
        self._names = sqlite3.connect(folder / "origins.sqlite")
        self._names.execute("PRAGMA journal_mode=OFF")
        self._names.execute("CREATE TABLE origin (name BLOB PRIMARY KEY, at INTEGER) WITHOUT ROWID")
        self._parent, self._published, self._first = array("q"), array("b"), array("Q")

    def close(self) -> None:
        self._names.close()

    def add(self, names: Iterable[str], published: str) -> int:
        """The group of a sample with these origins.

        `published`: the split that its publishers put it into.
        """
        digests = [sha256(name.encode("utf-8", "surrogatepass")).digest()[:16] for name in names]
        known = []
        for digest in digests:
            known.append(self._names.execute("SELECT at FROM origin WHERE name = ?", [digest]).fetchone())
        groups = {self._root(row[0]) for row in known if row}
        if groups:
            group = min(groups)
        else:
            group = self._new(digests[0])
        for other in groups - {group}:
            self._parent[other] = group
            self._published[group] = max(self._published[group], self._published[other])
        for digest, row in zip(digests, known, strict=True):
            if not row:
                self._names.execute("INSERT OR IGNORE INTO origin VALUES (?, ?)", [digest, group])
        self._published[group] = max(self._published[group], PUBLISHED_SPLITS.get(published.casefold(), 0))
        return group

    def part(self, group: int) -> str:
        """The file that a group belongs to; the same whenever the same samples are exported."""
        root = self._root(group)
        tenth = self._first[root] % 10
        drawn_part = sum(tenth >= limit for limit in TENTHS)
        return PARTS[self._published[root] or drawn_part]

    def _new(self, digest: bytes) -> int:
        self._parent.append(len(self._parent))
        self._published.append(0)
        self._first.append(int.from_bytes(digest[:8]))
        return len(self._parent) - 1

    def _root(self, at: int) -> int:
        while self._parent[at] != at:
            self._parent[at] = self._parent[self._parent[at]]
            at = self._parent[at]
        return at


class TrainingExporter(Exporter):
    """Conversations for fine-tuning, in three parts."""

    name = "training"
    label = gettext_noop("Training conversations")
    files = tuple(f"{part}.jsonl" for part in PARTS)
    trains = True

    def write_files(self, samples: Samples, paths: list[Path]) -> None:
        # The groups are known only at the end, so the lines are kept in another file.
        with temporary_folder() as work, closing(Origins(work)) as origins:
            pending = work / "lines"
            with open_text(pending) as file:
                for sample in samples:
                    training = sample.get("training")
                    if training is None:
                        raise WrongSample(f"Sample {sample.get('sample_id')!r} has no conversation to train on.")
                    sample_fields = {"sample_id": sample["sample_id"], "task": sample["task"]}
                    record = json.dumps([sample["source"]["dataset"], sample["source"]["id"]])
                    group = origins.add([record, *training["origins"]], training["split"])
                    row = {"messages": training["messages"], **sample_fields}
                    # The canary forbids training, so only lines for testing get it.
                    file.write(f"{group}\t{sample.get('canary', '')}\t{canonical(row)}\n")
            with ExitStack() as stack:
                files = [stack.enter_context(open_text(path)) for path in paths]
                for line in stack.enter_context(pending.open(encoding="utf-8", newline="\n")):
                    number, canary, text = line.split("\t", 2)
                    part = origins.part(int(number))
                    if part == TEST:
                        text = f"{canonical({**json.loads(text), 'canary': canary})}\n"
                    files[PARTS.index(part)].write(text)
