"""Keeps a release's samples in a file between reading and storing: memory use stays flat."""

import json
import tempfile
from hashlib import sha256
from itertools import islice
from typing import Any

from django.db import transaction

from generation.models import Facet, Release, ReleasedRubric, ReleasedSample
from generation.releases.exporters.jsonl import JsonLinesExporter
from generation.releases.freezing.content import FrozenSample

STORED_TOGETHER = 1000  # samples
LINES = JsonLinesExporter()


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
        self._digests[entry.split].update(f"{LINES.line(entry.sample)}\n".encode())
        sample = dict(entry.sample)
        del sample["split"]
        rubrics = list(zip(sample.pop("rubrics"), entry.facets, strict=True))
        row = (entry.row["pk"], entry.split, entry.sample["sample_id"], entry.sample["task"])
        self._file.write(json.dumps((*row, sample, rubrics)).encode() + b"\n")

    def digest(self, split: str = ReleasedSample.Split.PUBLIC) -> str:
        """The SHA-256 of one split's JSON Lines."""
        return self._digests[split].hexdigest()

    def digest_if_any(self, split: str) -> str:
        """The SHA-256 of one split's JSON Lines; empty if the split has no sample."""
        if self.digest(split) == sha256().hexdigest():
            return ""
        return self.digest(split)

    @transaction.atomic
    def store(self, release: Release) -> None:
        self._file.seek(0)
        entries = enumerate(map(json.loads, self._file))
        while chunk := list(islice(entries, STORED_TOGETHER)):
            _store(release, chunk)


def _store(release: Release, chunk: list[tuple[int, tuple[Any, ...]]]) -> None:
    samples = []
    for position, (version, split, key, task, exported, _rubrics) in chunk:
        samples.append(
            ReleasedSample(
                release=release,
                position=position,
                version_id=version,
                split=split,
                key=key,
                task=task,
                exported=exported,
            )
        )
    samples = ReleasedSample.objects.bulk_create(samples)
    rubrics, facets = [], []
    for sample, (_position, entry) in zip(samples, chunk, strict=True):
        for fields, pairs in entry[-1]:
            rubric = ReleasedRubric(sample=sample, **fields)
            rubrics.append(rubric)
            facets += [Facet(rubric=rubric, name=name, value=value) for name, value in pairs]
    ReleasedRubric.objects.bulk_create(rubrics)
    Facet.objects.bulk_create(facets)
