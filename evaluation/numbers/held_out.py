"""Each model's rate on public samples beside that on held-out ones: what contamination would show.

Which samples are held out is drawn by cluster, so that the two parts differ by chance alone. A
model that does better on what is public may have seen it. Releases of MHB 0.2 and earlier drew
source records: where records of both parts share an image or a document, the parts vary together,
and the interval is a little too wide.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evaluation.metrics import measure
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


def held_out_gaps(all_totals: Iterable[UnitTotals], minimum: int) -> Iterator[HeldOutGap]:
    """The gaps of all models that have verdicts on both parts, by rate and data set."""
    for totals in all_totals:
        rate, held_out = totals.rate, totals.units["is_held_out"]
        if not held_out.any() or held_out.all():
            continue
        for public, private in zip(totals.groups(~held_out), totals.groups(held_out), strict=True):
            ones = measure(rate, totals.by_cluster(public), minimum=minimum, with_bounds=False)
            others = measure(rate, totals.by_cluster(private), minimum=minimum, with_bounds=False)
            for model, one, other in zip(totals.models, ones, others, strict=True):
                if one.value is None or other.value is None:
                    continue
                limits = independent_difference((one.value, one.interval), (other.value, other.interval))
                low, high = limits or (None, None)
                yield HeldOutGap(
                    dataset=public.name,
                    rate=rate.name,
                    endpoint=model,
                    public=one.value,
                    held_out=other.value,
                    difference=one.value - other.value,
                    low=low,
                    high=high,
                    public_clusters=one.clusters,
                    held_out_clusters=other.clusters,
                )
