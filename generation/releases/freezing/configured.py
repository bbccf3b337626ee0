"""Applies a benchmark's configuration to a release.

Limits of length, conditions on making, and the draw of records.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from django.db.models import F, IntegerField, Q, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, Concat, Length
from django.db.models.lookups import Exact, GreaterThanOrEqual

from generation.recipes.configuration import Configuration

TOO_LONG, NOT_DRAWN, MADE_OTHERWISE = "too-long", "not-drawn", "made-otherwise"
_PART = "\x1f"  # between the name of a group and the value of its even part


def _characters(texts: Iterable[str]) -> Any:
    """The total characters of these texts of a sample's content, as a database expression."""
    total: Any = Value(0)
    for text in texts:
        total += Coalesce(Length(KeyTextTransform(text, "content")), Value(0), output_field=IntegerField())
    return total


def too_long(configuration: Configuration) -> list[When]:
    """Conditions for leaving out versions that are too long.

    Samples bound to such a version then lack their partner.
    """
    if not configuration.below:
        return []
    return [When(GreaterThanOrEqual(_characters(configuration.texts), configuration.below), then=Value(TOO_LONG))]


def made_otherwise(configuration: Configuration) -> list[When]:
    """Conditions for leaving out versions that were not made as the configuration says."""
    conditions = []
    for name, value in configuration.provenance.items():
        of_version = Coalesce(KeyTextTransform(name, "provenance"), Value(""), output_field=TextField())
        conditions.append(When(~Q(Exact(of_version, value)), then=Value(MADE_OTHERWISE)))
    return conditions


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
    digests_by_group: dict[str, array[int]] = defaultdict(lambda: array("Q"))
    for group, source, external_id in rows:
        if configuration.even_field or _name(group) in configuration.balanced:
            digests_by_group[group].append(digest(seed, source, external_id))
    sizes = _sizes(configuration, {group: len(digests) for group, digests in digests_by_group.items()})
    limits = {}
    for group, digests in digests_by_group.items():
        if len(digests) > sizes[group]:
            limits[group] = _limit(digests, sizes[group])
    return RecordDraw(seed, limits)


def _sizes(configuration: Configuration, counts: Mapping[str, int]) -> dict[str, int]:
    """How many samples of each group, or of each of its even parts, go in."""
    parts: dict[str, list[int]] = defaultdict(list)
    for group, count in counts.items():
        parts[_name(group)].append(count)
    smallest = {name: min(part_counts) for name, part_counts in parts.items()}
    totals = [smallest[name] * len(parts[name]) for name in configuration.balanced if name in parts]
    if configuration.max_group_size:
        totals.append(configuration.max_group_size)
    total = min(totals, default=0)
    sizes = {}
    for group in counts:
        name = _name(group)
        if name in configuration.balanced:
            sizes[group] = total // len(parts[name])
        else:
            sizes[group] = smallest[name]
    return sizes


def _name(group: str) -> str:
    """The name of a group without the value of its even part."""
    return group.partition(_PART)[0]


def group_of(configuration: Configuration) -> Any:
    """The group of a version in a configuration, with its even part, as a database expression."""
    if not configuration.even_field:
        return F("sample__task")
    part = Coalesce(KeyTextTransform(configuration.even_field, "content"), Value(""), output_field=TextField())
    return Concat(F("sample__task"), Value(_PART), part, output_field=TextField())


def _limit(digests: "array[int]", max_samples: int) -> int:
    """The largest digest with at most `max_samples` samples up to it; a record's stay together."""
    values, counts = np.unique(np.frombuffer(digests, np.uint64), return_counts=True)
    fitting_count = int(np.searchsorted(np.cumsum(counts), max_samples, side="right"))
    if fitting_count:
        return int(values[fitting_count - 1])
    return -1
