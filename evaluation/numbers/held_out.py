"""Each model's rate on public samples beside that on held-out ones: what contamination would show.

Which samples are held out is drawn by cluster, so that the two parts differ by chance alone. A
model that does better on what is public may have seen it. Releases of MHB 0.2 and earlier drew
source records: where records of both parts share an image or a document, the parts vary together,
and the interval is a little too wide.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evaluation.metrics import MeasuredRate, measure
from evaluation.numbers.totals import UnitTotals
from evaluation.statistics.comparisons import independent_difference


@dataclass(frozen=True, slots=True)
class HeldOutGap:
    """A model's rate on the public samples of a data set, and on those held out.

    `difference`: public minus held out. `low`, `high`: of the difference; None where either rate
    has no interval.
    """

    dataset: str
    rate: str
    endpoint: str
    public: float
    held_out: float
    difference: float
    low: float | None
    high: float | None
    public_clusters: int
    held_out_clusters: int


def held_out_gaps(all_totals: Iterable[UnitTotals], *, pooled: bool, minimum: int) -> Iterator[HeldOutGap]:
    """The gaps of all models that have verdicts on both parts, by rate and data set."""
    for totals in all_totals:
        held_out = totals.units.is_held_out
        if not held_out.any() or held_out.all():
            continue
        public_groups, private_groups = (totals.groups(pooled=pooled, where=where) for where in (~held_out, held_out))
        for public, private in zip(public_groups, private_groups, strict=True):
            for model in totals.models:
                one, other = (
                    measure(totals.rate, totals.by_cluster(model, group), minimum=minimum, with_bounds=False)
                    for group in (public, private)
                )
                if one.value is not None and other.value is not None:
                    yield _gap((public.name, totals.rate.name, model), one, one.value, other, other.value)


def _gap(
    key: tuple[str, str, str], one: MeasuredRate, public: float, other: MeasuredRate, held_out: float
) -> HeldOutGap:
    low, high = independent_difference((public, one.interval), (held_out, other.interval)) or (None, None)
    return HeldOutGap(*key, public, held_out, public - held_out, low, high, one.clusters, other.clusters)
