"""The samples of a release between reading and storing: a file on the disk, so that memory stays flat."""

import marshal
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import Any

from django.db import connection, transaction

from generation.models import Facet, Release, ReleasedRubric, ReleasedSample
from generation.releases.exporters import jsonl
from generation.releases.exporters.base import canonical
from generation.releases.freezing.content import Written
from review.common.bulk_rows import insert_rows, new_keys

STORED_TOGETHER = 1000  # samples in one COPY
_LENGTH = 8  # bytes before each sample in the file: how many it has


class Spool:
    """Takes samples as they are read, with the checksums of their export, and stores them as rows of a release."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._digests = {split: sha256() for split in ReleasedSample.Split.values}

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, one: Written) -> None:
        self._digests[one.choice.split].update(jsonl.line(one.fields).encode())
        sample = {name: value for name, value in one.fields.items() if name not in ("rubrics", "split")}
        rubrics = [
            (
                *(rubric["key"], rubric["criterion"], canonical(rubric["traps"]), rubric["severity"]),
                *(rubric.get("polarity", ""), facets),
            )
            for rubric, facets in zip(one.sample["rubrics"], one.facets, strict=True)
        ]
        row = (one.choice.version_id, str(one.choice.split), one.sample["sample_id"], one.sample["task"])
        stored = marshal.dumps((*row, jsonl.as_object(sample), rubrics))
        self._file.write(len(stored).to_bytes(_LENGTH))
        self._file.write(stored)

    def digest(self, split: str = ReleasedSample.Split.PUBLIC) -> str:
        """Of the JSON Lines of one part."""
        return self._digests[split].hexdigest()

    def digest_if_any(self, split: str) -> str:
        """The same, and nothing where the part has no sample."""
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
            yield marshal.loads(self._file.read(int.from_bytes(length)))  # noqa: S302 - what `add` wrote


def _compress_fast() -> None:
    """Have PostgreSQL keep the texts that this transaction stores as lz4, if it can: faster written and read than its own."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config(name, 'lz4', true) FROM pg_settings"
                " WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals)"
            )


def _store(release: Release, chunk: list[tuple[int, tuple[Any, ...]]]) -> None:
    keys = new_keys(ReleasedSample, len(chunk))
    insert_rows(
        ReleasedSample,
        ("id", "release_id", "position", "version_id", "key", "task", "exported", "split"),
        (
            (key, release.pk, position, version, name, task, exported, split)
            for key, (position, (version, split, name, task, exported, _rubrics)) in zip(keys, chunk, strict=True)
        ),
    )
    rubrics = [(key, rubric) for key, (_position, entry) in zip(keys, chunk, strict=True) for rubric in entry[-1]]
    rubric_keys = new_keys(ReleasedRubric, len(rubrics))
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
