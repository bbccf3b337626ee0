"""Applies a benchmark's configuration to a release.

Limits of length, conditions on making, and the draw of records.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from operator import add
from typing import Any

import numpy as np
from django.db.models import F, IntegerField, Q, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, Length
from django.db.models.lookups import Exact, GreaterThanOrEqual
from numpy.typing import NDArray

from generation.recipes.configuration import Configuration

TOO_LONG, NOT_DRAWN, MADE_OTHERWISE = "too-long", "not-drawn", "made-otherwise"
BUFFERED = 100_000  # digests collected before they become an array


def _characters(texts: Iterable[str]) -> Any:
    """The total characters of these texts of a sample's content, as a database expression."""
    return reduce(
        add,
        (Coalesce(Length(KeyTextTransform(text, "content")), Value(0), output_field=IntegerField()) for text in texts),
    )


def too_long(configuration: Configuration) -> list[When]:
    """Conditions for leaving out versions that are too long.

    Samples bound to such a version then lack their partner.
    """
    if not configuration.below:
        return []
    return [When(GreaterThanOrEqual(_characters(configuration.texts), configuration.below), then=Value(TOO_LONG))]


def _made(name: str) -> Any:
    return Coalesce(KeyTextTransform(name, "made"), Value(""), output_field=TextField())


def made_otherwise(configuration: Configuration) -> list[When]:
    """Conditions for leaving out versions that were not made as the configuration says."""
    return [
        When(~Q(Exact(_made(name), value)), then=Value(MADE_OTHERWISE)) for name, value in configuration.made.items()
    ]


@dataclass(frozen=True, slots=True)
class RecordDraw:
    """The records of each group that go in: those whose digest is at most the group's limit.

    Groups without a limit go in completely.
    """

    seed: int
    limits: Mapping[str, int]

    def includes(self, group: str, source: str, external_id: str) -> bool:
        """Whether the samples of a record in this group go in."""
        return group not in self.limits or digest(self.seed, source, external_id) <= self.limits[group]


def digest(seed: int, source: str, external_id: str) -> int:
    """A record's rank in the draw: the same in every release with this seed."""
    return int.from_bytes(sha256(f"configuration\n{seed}\n{source}\n{external_id}".encode()).digest()[:8])


def draw(configuration: Configuration, seed: int, rows: Iterable[tuple[str, str, str]]) -> RecordDraw:
    """Draw records, given (group, source, record id) of every sample that could go in.

    Keeps eight bytes for each sample.
    """
    arrays: dict[str, list[NDArray[np.uint64]]] = {group: [] for group in configuration.balanced}
    buffers: dict[str, list[int]] = {group: [] for group in configuration.balanced}
    for group, source, external_id in rows:
        if group in buffers:
            buffers[group].append(digest(seed, source, external_id))
            if len(buffers[group]) == BUFFERED:
                arrays[group].append(np.array(buffers[group], dtype=np.uint64))
                buffers[group] = []
    digests_by_group = {
        name: np.concatenate([*parts, np.array(buffers[name], dtype=np.uint64)]) for name, parts in arrays.items()
    }
    sizes = [len(digests) for digests in digests_by_group.values() if len(digests)]
    group_size = min([*sizes, *([configuration.max_group_size] if configuration.max_group_size else [])], default=0)
    return RecordDraw(
        seed,
        {name: _limit(digests, group_size) for name, digests in digests_by_group.items() if len(digests) > group_size},
    )


def group_of(configuration: Configuration) -> Any:
    """The group of a version in a configuration, as a database expression."""
    if not configuration.group_field:
        return F("sample__task")
    return Coalesce(KeyTextTransform(configuration.group_field, "content"), Value(""), output_field=TextField())


def _limit(digests: NDArray[np.uint64], max_samples: int) -> int:
    """The largest digest with at most `max_samples` samples up to it; a record's stay together."""
    values, counts = np.unique(digests, return_counts=True)
    fitting_count = int(np.searchsorted(np.cumsum(counts), max_samples, side="right"))
    return int(values[fitting_count - 1]) if fitting_count else -1
