"""Natural language inference: what a premise entails is factual, what contradicts it is not; neutral hypotheses are dropped."""

from collections.abc import Mapping, Sequence
from typing import Any

from mhb_site.benchmarks.medhal.tasks.draw import drawn
from mhb_site.benchmarks.medhal.tasks.pair import Pair

ENTAILMENT, NEUTRAL, CONTRADICTION = KINDS = ("nli-entailment", "nli-neutral", "nli-contradiction")


def pairs(
    content: Mapping[str, Any], external_id: str, settings: Mapping[str, Any], joined: Sequence[Mapping[str, Any]]
) -> Sequence[Pair]:
    """The pair of an entailment, with a contradiction of the same premise wherever that stands in the file.

    Where there are several, one is drawn.
    """
    if content["kind"] == NEUTRAL:
        return [Pair("nli", out="neutral")]
    own = sorted(
        {
            other["hypothesis"]
            for other in joined
            if other["kind"] == CONTRADICTION
            and other["split"] == content["split"]
            and other["dataset"] == content["dataset"]
        }
    )
    if not own:
        return [Pair("nli", out="no-contradiction")]
    wrong = own[drawn(len(own), settings["seed"], "contradiction", external_id)]
    return [Pair("nli", field="premise", right=content["hypothesis"], wrong=wrong)]
