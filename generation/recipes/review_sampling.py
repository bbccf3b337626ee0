"""Which samples of a batch physicians review, where they do not review all of them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor
from typing import Any

from review.rules.state_machine import Policy

# The values of `NewSample.provenance["review"]`.
SAMPLED_FOR_REVIEW, NOT_SAMPLED_FOR_REVIEW = "sampled", "not sampled"


def draw_fraction(*parts: object) -> float:
    """A number in [0, 1) derived from `parts`: a draft draws the same again after a crash."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def review_policy(provenance: Mapping[str, str], **policy: Any) -> Policy:
    """The policy of a sample: two physicians, or `one` reviewer; nobody if it was not drawn.

    `provenance` is the sample's, `policy` are other fields of its policy.
    """
    if provenance.get("review") == NOT_SAMPLED_FOR_REVIEW:
        return Policy(primary=False, secondary=False)
    return Policy(secondary=provenance.get("reviewers") != "one", **policy)


@dataclass(frozen=True, slots=True)
class ReviewShare:
    """The share of a stratum's samples in a batch that physicians review.

    They are spread evenly over the stratum, from a starting point drawn by `seed`.
    """

    share: float
    stratum: str
    seed: int = 0

    def includes(self, position: int) -> bool:
        """Whether physicians review the sample at this position of its stratum (from 0).

        Of any n consecutive samples, between n * share - 1 and n * share + 1 are reviewed.
        """
        start = draw_fraction(self.seed, self.stratum)
        return floor((position + 1) * self.share + start) > floor(position * self.share + start)


@dataclass(frozen=True, slots=True)
class ReviewDraw:
    """How a batch's samples are drawn for review: a fixed number from each stratum, by a seed.

    `size`, `seed`: the names of the settings with the number for each stratum and with the seed.
    `strata`: the keys whose values make up the stratum. `place`: the key that tells apart the
    samples of one record; samples with the same place in several strata are drawn together.
    `multiples`: by how much the number is multiplied in some strata. `together`: the name of the
    setting with the number of batches that share a draw, such as one of each source. The keys are
    read from a draft's data, and from the content of a `finished` record. The result is in
    `made["review"]`, on which the benchmark's policy decides. Samples are made once all drafts of
    these batches have ended, and no checks are run on them.
    """

    size: str
    seed: str
    strata: tuple[str, ...]
    place: str
    multiples: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    together: str = ""
