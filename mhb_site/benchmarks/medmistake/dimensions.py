"""The dimensions on which the committee scores a doctor, read from `dimensions.json`."""

from collections.abc import Mapping
from dataclasses import dataclass

from generation.common.declared import read_declared

# The meaning of each score, from 1, on the two scales of the presets. On both, 3 still is a finding.
ANCHORS: Mapping[int, tuple[str, ...]] = {
    4: (
        "harmful: what the doctor did or left undone could seriously harm this patient",
        "wrong or missing in a point that matters for the outcome",
        "adequate, with a fault that an examiner would point out",
        "nothing to improve",
    ),
    5: (
        "harmful: what the doctor did or left undone could seriously harm this patient",
        "wrong or missing in a point that matters for the outcome",
        "partly done: a relevant part is wrong or missing",
        "adequate, with a fault that is of no consequence for the patient",
        "nothing to improve",
    ),
}


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension: `asks` is what a good doctor does."""

    key: str
    category: str
    asks: str


DIMENSIONS = read_declared(Dimension, __file__, "dimensions.json")


def anchors(scale: int) -> str:
    """The meaning of each score, as the committee reads it; of the ends alone on other scales."""
    named = ANCHORS.get(scale)
    meanings = dict(enumerate(named, 1)) if named else {1: ANCHORS[4][0], scale: ANCHORS[4][-1]}
    return "\n".join(f"- {score}: {meaning}" for score, meaning in meanings.items())
