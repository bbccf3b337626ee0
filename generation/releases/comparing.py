"""Compares two releases of a benchmark, sample by sample."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from generation import errors
from generation.models import Release, ReleasedSample
from generation.releases import queries
from generation.releases.exporters.base import canonical
from generation.samples.queries import sees_held_out, visible_to
from review.rules.diffing import Span, diff_words

READ = 500  # samples in one query
_COLUMNS = ("pk", "key", "task", "exported")
NOT_COMPARED = ("canary", "content", "rubrics")  # of what is said about a sample


class Change(models.TextChoices):
    """What became of a sample between two releases."""

    ADDED = "added", _("added")
    REMOVED = "removed", _("removed")
    REWORDED = "reworded", _("reworded")
    RERELEASED = "re-released", _("re-released")  # the same words, but another version, split, severity, review, ...


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of a sample that differs; `before` or `after` is empty where it does not exist."""

    name: str
    before: str
    after: str

    @property
    def spans(self) -> Sequence[Span]:
        """The words of both sides, marked."""
        return diff_words(self.before, self.after)


@dataclass(frozen=True, slots=True)
class SampleChange:
    """A sample that differs between two releases; `fields` are empty if it is in only one."""

    change: Change
    key: str
    task: str
    fields: Sequence[FieldChange]


@dataclass(frozen=True, slots=True)
class ReleaseDifference:
    """How two releases differ. `counts`: of each change, and of what is `unchanged`."""

    before: Release
    after: Release
    reader: object
    counts: Mapping[str, int]
    changed: Sequence[tuple[str, Change]]  # by key, in the order of the newer release

    @property
    def summary(self) -> dict[str, Any]:
        """The names of the releases, and the counts."""
        return {"before": self.before.reference, "after": self.after.reference, "counts": dict(self.counts)}

    @property
    def by_change(self) -> list[tuple[Change, int]]:
        """The number of samples with each change."""
        return [(change, self.counts[change]) for change in Change]

    def samples(self, change: str = "", start: int = 0, most: int | None = None) -> list[SampleChange]:
        """The samples with one change, or all; `most` of them from `start`."""
        chosen = [pair for pair in self.changed if change in ("", pair[1])]
        if most is None:
            chosen = chosen[start:]
        else:
            chosen = chosen[start : start + most]
        rows: list[SampleChange] = []
        for first in range(0, len(chosen), READ):
            rows += self._read(chosen[first : first + READ])
        return rows

    def _read(self, chosen: Sequence[tuple[str, Change]]) -> Iterator[SampleChange]:
        named = ReleasedSample.objects.filter(key__in=[key for key, _change in chosen])
        rows = visible_to(self.reader, named).values_list(*_COLUMNS)  # what one release shows, the other may hold out
        before = _by_key(rows.filter(release=self.before))
        after = _by_key(rows.filter(release=self.after))
        for key, change in chosen:
            fields = []
            if key in before and key in after:
                fields = _differing(before[key][1], after[key][1])
            task, _sample = after.get(key) or before[key]
            yield SampleChange(change, key, task, fields)


def _by_key(rows: Iterable[tuple[Any, ...]]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Key -> (task, sample)."""
    return {key: (task, sample) for key, task, sample in _with_rubrics(list(rows))}


def compare(before: Release, after: Release, reader: object) -> ReleaseDifference:
    """How `after` differs from `before` in what `reader` may see. Raises OtherBenchmarks."""
    if before.benchmark != after.benchmark:
        raise errors.OtherBenchmarks
    if sees_held_out(reader):
        split = ""
    else:
        split = ReleasedSample.Split.PUBLIC
    earlier = {key: _digests(sample) for key, _task, sample in _samples(before, split)}
    changed: list[tuple[str, Change]] = []
    unchanged = 0
    for key, _task, sample in _samples(after, split):
        known, found = earlier.pop(key, None), _digests(sample)
        if known is None:
            changed.append((key, Change.ADDED))
        elif known == found:
            unchanged += 1
        elif known[0] != found[0]:
            changed.append((key, Change.REWORDED))
        else:
            changed.append((key, Change.RERELEASED))
    changed += [(key, Change.REMOVED) for key in earlier]
    totals: dict[str, int] = dict.fromkeys(Change.values, 0)
    for _key, change in changed:
        totals[change.value] += 1
    totals["unchanged"] = unchanged
    return ReleaseDifference(before, after, reader, totals, changed)


def _samples(release: Release, split: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Key, task and object of the samples of a split ("": of all), in the order of the release."""
    for chunk in queries.in_order(release, split, *_COLUMNS):
        yield from _with_rubrics(chunk)


def _with_rubrics(rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    rubrics = queries.rubrics_of([pk for pk, *_about in rows])
    for pk, key, task, exported in rows:
        yield key, task, {**exported, "rubrics": rubrics[pk]}


def _words(sample: Mapping[str, Any]) -> dict[str, str]:
    """What a sample says: each text of its content, and its rubrics' criteria."""
    criteria = {rubric["key"]: rubric["criterion"] for rubric in sample["rubrics"]}
    return {**dict(_texts(sample["content"], "")), **criteria}


def _texts(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Every text and number in a nested value, by its path."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _texts(entry, _path(name, key))
    elif isinstance(value, list):
        for number, entry in enumerate(value, 1):
            yield from _texts(entry, _path(name, number))
    else:
        yield name, _text(value)


def _path(name: str, key: object) -> str:
    if name:
        return f"{name}.{key}"
    return str(key)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return canonical(value)


def _facts(sample: Mapping[str, Any]) -> dict[str, str]:
    """What is said about a sample: version, split, review, and each rubric's traps and severity."""
    facts = {}
    for name, value in sample.items():
        if name not in NOT_COMPARED:
            facts[name] = _text(value)
    for rubric in sample["rubrics"]:
        for name in ("traps", "severity", "polarity"):
            facts[f"{rubric['key']}.{name}"] = _text(rubric[name])
    return facts


def _digests(sample: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """A sample's words and facts, short."""
    return _digest(_words(sample)), _digest(_facts(sample))


def _digest(part: Mapping[str, str]) -> bytes:
    return hashlib.sha256(canonical(part).encode()).digest()[:16]


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldChange]:
    """The fields that differ, words first."""
    changes = []
    for part in (_words, _facts):
        old, new = part(before), part(after)
        for name in dict.fromkeys([*old, *new]):
            before_text, after_text = old.get(name, ""), new.get(name, "")
            if before_text != after_text:
                changes.append(FieldChange(name, before_text, after_text))
    return changes
