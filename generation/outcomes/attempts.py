"""Attempts to approval."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from generation.models import SampleVersion
from review.rules.state_machine import Ground

BY = ("trap", "prompt", "generator")


@dataclass(frozen=True, slots=True)
class Attempts:
    """Versions of one kind that physicians have decided on. `key` has a value for each of `by`.

    `first` counts decided first versions, `first_approved` those approved at once. `tries` adds up the numbers of the approved
    versions: the attempts that the approved samples took.
    """

    key: tuple[str, ...]
    decided: int
    approved: int
    first: int
    first_approved: int
    tries: int

    @property
    def mean(self) -> float | None:
        """Attempts to approval, over approved samples."""
        return self.tries / self.approved if self.approved else None


def attempts(benchmark: str, by: Sequence[str] = BY) -> list[Attempts]:
    """Attempts to approval by trap, prompt and generator, or by some of them. One query, streamed.

    A version counts under each of its traps. What was withdrawn, or is still in review, has not been decided on; nor has what
    nobody was to review.
    """
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
    names = ("decided", "approved", "first", "first_approved", "tries")
    return [Attempts(key, *(cell[name] for name in names)) for key, cell in sorted(counts.items())]


def _keys(by: Sequence[str], traps: Iterable[str], prompt: str, generator: str) -> set[tuple[str, ...]]:
    given = {"prompt": prompt, "generator": generator}
    each = traps if "trap" in by else [""]
    return {tuple(trap if name == "trap" else given[name] for name in by) for trap in each}
