"""A release composed by a benchmark's configuration: what is too long or made otherwise, and which records are drawn."""

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
TOGETHER = 100_000  # digests turned into an array at once


def _characters(texts: Iterable[str]) -> Any:
    """How many characters these texts of a sample's content have together, counted in the database."""
    return reduce(
        add,
        (Coalesce(Length(KeyTextTransform(text, "content")), Value(0), output_field=IntegerField()) for text in texts),
    )


def too_long(configuration: Configuration) -> list[When]:
    """The reason of what is too long, as a condition on versions; what it is bound to then lacks its partner."""
    if not configuration.below:
        return []
    return [When(GreaterThanOrEqual(_characters(configuration.texts), configuration.below), then=Value(TOO_LONG))]


def _made(name: str) -> Any:
    return Coalesce(KeyTextTransform(name, "made"), Value(""), output_field=TextField())


def made_otherwise(configuration: Configuration) -> list[When]:
    """The reason of what was not made as the configuration says, as conditions on versions."""
    return [
        When(~Q(Exact(_made(name), value)), then=Value(MADE_OTHERWISE)) for name, value in configuration.made.items()
    ]


@dataclass(frozen=True, slots=True)
class RecordDraw:
    """Which records of each group are in: those whose digest is at most the group's limit. Groups without one are whole."""

    seed: int
    limits: Mapping[str, int]

    def takes(self, group: str, source: str, external_id: str) -> bool:
        """Whether the samples of a record in this group are in."""
        return group not in self.limits or digest(self.seed, source, external_id) <= self.limits[group]


def digest(seed: int, source: str, external_id: str) -> int:
    """Where a record stands in the draw: the same in every release with this seed."""
    return int.from_bytes(sha256(f"configuration\n{seed}\n{source}\n{external_id}".encode()).digest()[:8])


def draw(configuration: Configuration, seed: int, rows: Iterable[tuple[str, str, str]]) -> RecordDraw:
    """From (group, source, id of the record) of every sample that could go in. Eight bytes a sample are held, and no more."""
    found: dict[str, list[NDArray[np.uint64]]] = {group: [] for group in configuration.balanced}
    waiting: dict[str, list[int]] = {group: [] for group in configuration.balanced}
    for group, source, external_id in rows:
        if group in waiting:
            waiting[group].append(digest(seed, source, external_id))
            if len(waiting[group]) == TOGETHER:
                found[group].append(np.array(waiting[group], dtype=np.uint64))
                waiting[group] = []
    whole = {name: np.concatenate([*parts, np.array(waiting[name], dtype=np.uint64)]) for name, parts in found.items()}
    sizes = [len(digests) for digests in whole.values() if len(digests)]
    most = min([*sizes, *([configuration.most] if configuration.most else [])], default=0)
    return RecordDraw(seed, {name: _limit(digests, most) for name, digests in whole.items() if len(digests) > most})


def group_of(configuration: Configuration) -> Any:
    """By what a configuration cuts, of a version."""
    if not configuration.by:
        return F("sample__task")
    return Coalesce(KeyTextTransform(configuration.by, "content"), Value(""), output_field=TextField())


def _limit(digests: NDArray[np.uint64], most: int) -> int:
    """The largest digest such that at most `most` samples are at or below it, a record's samples together."""
    known, counts = np.unique(digests, return_counts=True)
    fitting = int(np.searchsorted(np.cumsum(counts), most, side="right"))
    return int(known[fitting - 1]) if fitting else -1
