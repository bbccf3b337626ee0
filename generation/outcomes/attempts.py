"""Attempts to approval."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from generation.models import SampleVersion
from review.rules.shown_fields import Hidden, shown
from review.rules.state_machine import Ground

GROUPINGS = ("trap", "prompt", "generator")


@dataclass(frozen=True, slots=True)
class Attempts:
    """Decided versions of one group: `of` has its value for each of `GROUPINGS`, if grouped by it.

    `first` counts decided first versions, `first_approved` those that were approved. `tries` is the
    sum of the numbers of the approved versions, which is how many attempts the approved samples
    took.
    """

    of: Hidden[Mapping[str, str | None]]
    decided: int
    approved: int
    first: int
    first_approved: int
    tries: Hidden[int]

    @property
    def key(self) -> tuple[str, ...]:
        """Its values for what it is grouped by."""
        return tuple(value for value in self.of.values() if value is not None)

    @property
    @shown
    def mean(self) -> float | None:
        """The mean number of attempts to approval, over approved samples."""
        if self.approved:
            return self.tries / self.approved
        return None

    @property
    @shown
    def trap(self) -> str | None:
        return self.of["trap"]

    @property
    @shown
    def prompt(self) -> str | None:
        return self.of["prompt"]

    @property
    @shown
    def generator(self) -> str | None:
        return self.of["generator"]


def grouping(by: Collection[str]) -> tuple[str, ...]:
    """What attempts are grouped by, in order; by default, all."""
    return tuple(name for name in GROUPINGS if name in by) or GROUPINGS


def attempts(benchmark: str, by: Collection[str] = ()) -> list[Attempts]:
    """Attempts to approval by trap, prompt and generator, or by some of them. One query, streamed.

    A version counts under each of its traps. Withdrawn versions, those still in review, and those
    not sampled for review have not been decided on and do not count.
    """
    by = grouping(by)
    rows = SampleVersion.objects.filter(
        sample__benchmark=benchmark, status__in=[SampleVersion.Status.APPROVED, SampleVersion.Status.REJECTED]
    )
    rows = rows.exclude(case__ground=Ground.UNREVIEWED)
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for traps, prompt, generator, number, status in rows.values_list(
        "traps", "prompt", "generator", "number", "status"
    ).iterator():
        approved = status == SampleVersion.Status.APPROVED
        for key in _keys(by, traps, prompt, generator):
            cell = counts.setdefault(key, Counter())
            cell["decided"] += 1
            cell["approved"] += approved
            cell["first"] += number == 1
            cell["first_approved"] += approved and number == 1
            cell["tries"] += number * approved
    groups = []
    for key, cell in sorted(counts.items()):
        values = dict.fromkeys(GROUPINGS) | dict(zip(by, key, strict=True))
        groups.append(Attempts(values, **cell))
    return groups


def _keys(by: Sequence[str], traps: Iterable[str], prompt: str, generator: str) -> set[tuple[str, ...]]:
    trap_values = [""]
    if "trap" in by:
        trap_values = list(traps)
    keys = set()
    for trap in trap_values:
        values = {"trap": trap, "prompt": prompt, "generator": generator}
        keys.add(tuple(values[name] for name in by))
    return keys
