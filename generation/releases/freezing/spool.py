"""Keeps a release's samples in a file between reading and storing: memory use stays flat."""

import json
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import Any

from django.db import connection, transaction

from generation.models import Facet, Release, ReleasedRubric, ReleasedSample
from generation.releases.exporters import jsonl
from generation.releases.exporters.base import canonical
from generation.releases.freezing.content import FrozenSample
from review.common.bulk_rows import insert_rows, reserve_keys

STORED_TOGETHER = 1000  # samples in one COPY
_LENGTH = 8  # bytes of the length in front of each sample in the file


class Spool:
    """Collects samples and their export's checksums, then stores them as rows of a release."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._digests = {split: sha256() for split in ReleasedSample.Split.values}

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, entry: FrozenSample) -> None:
        self._digests[entry.choice.split].update(jsonl.line(entry.fields).encode())
        sample = {name: value for name, value in entry.fields.items() if name not in ("rubrics", "split")}
        rubrics = [
            (
                *(rubric["key"], rubric["criterion"], canonical(rubric["traps"]), rubric["severity"]),
                *(rubric.get("polarity", ""), facets),
            )
            for rubric, facets in zip(entry.sample["rubrics"], entry.facets, strict=True)
        ]
        row = (entry.choice.version_id, str(entry.choice.split), entry.sample["sample_id"], entry.sample["task"])
        stored = json.dumps((*row, jsonl.as_object(sample), rubrics)).encode()
        self._file.write(len(stored).to_bytes(_LENGTH))
        self._file.write(stored)

    def digest(self, split: str = ReleasedSample.Split.PUBLIC) -> str:
        """The SHA-256 of one split's JSON Lines."""
        return self._digests[split].hexdigest()

    def digest_if_any(self, split: str) -> str:
        """The SHA-256 of one split's JSON Lines; empty if the split has no sample."""
        return "" if self.digest(split) == sha256().hexdigest() else self.digest(split)

    @transaction.atomic
    def store(self, release: Release) -> None:
        _compress_fast()
        self._file.seek(0)
        entries = enumerate(self._stored())
        while chunk := list(islice(entries, STORED_TOGETHER)):
            _store(release, chunk)

    def _stored(self) -> Iterator[tuple[Any, ...]]:
        while length := self._file.read(_LENGTH):
            yield json.loads(self._file.read(int.from_bytes(length)))


def _compress_fast() -> None:
    """Let PostgreSQL compress the texts of this transaction with lz4, if it can.

    It writes and reads faster than the default.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config(name, 'lz4', true) FROM pg_settings"
                " WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals)"
            )


def _store(release: Release, chunk: list[tuple[int, tuple[Any, ...]]]) -> None:
    keys = reserve_keys(ReleasedSample, len(chunk))
    insert_rows(
        ReleasedSample,
        ("id", "release_id", "position", "version_id", "key", "task", "exported", "split"),
        (
            (key, release.pk, position, version, name, task, exported, split)
            for key, (position, (version, split, name, task, exported, _rubrics)) in zip(keys, chunk, strict=True)
        ),
    )
    rubrics = [(key, rubric) for key, (_position, entry) in zip(keys, chunk, strict=True) for rubric in entry[-1]]
    rubric_keys = reserve_keys(ReleasedRubric, len(rubrics))
    insert_rows(
        ReleasedRubric,
        ("id", "sample_id", "key", "criterion", "traps", "severity", "polarity"),
        ((pk, sample, *rubric[:5]) for pk, (sample, rubric) in zip(rubric_keys, rubrics, strict=True)),
    )
    insert_rows(Facet, ("rubric_id", "name", "value"), _facets(rubric_keys, rubrics))


def _facets(keys: list[int], rubrics: list[tuple[int, Any]]) -> Iterator[tuple[int, str, str]]:
    for key, (_sample, rubric) in zip(keys, rubrics, strict=True):
        for name, value in rubric[5]:
            yield key, name, value
