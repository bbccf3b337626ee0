"""Natural language inference: an entailed hypothesis is factual, a contradiction is not.

Neutral hypotheses are dropped.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mhb_site.benchmarks.medhal.tasks.pair import Pair, draw_index

ENTAILMENT, NEUTRAL, CONTRADICTION = KINDS = ("nli-entailment", "nli-neutral", "nli-contradiction")


def pairs(
    content: Mapping[str, Any], external_id: str, settings: Mapping[str, Any], joined: Sequence[Mapping[str, Any]]
) -> Sequence[Pair]:
    """The pair of an entailment and a contradiction of the same premise.

    The contradiction can be anywhere in the file; of several, one is drawn.
    """
    if content["kind"] == NEUTRAL:
        return [Pair("nli", out="neutral")]
    hypotheses = set()
    for other in joined:
        if other["kind"] != CONTRADICTION:
            continue
        if other["split"] == content["split"] and other["dataset"] == content["dataset"]:
            hypotheses.add(other["hypothesis"])
    if not hypotheses:
        return [Pair("nli", out="no-contradiction")]
    contradictions = sorted(hypotheses)
    wrong = contradictions[draw_index(len(contradictions), settings["seed"], "contradiction", external_id)]
    return [Pair("nli", field="premise", right=content["hypothesis"], wrong=wrong)]
