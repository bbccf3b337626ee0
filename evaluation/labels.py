"""The words for verdicts, and the sign that stands before each."""

from collections.abc import Collection

from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

from evaluation.metrics import UNJUDGED

# What the benchmarks' protocols call their verdicts; another benchmark's own words stand as they are.
VERDICTS: dict[str, Promise] = {
    "met": pgettext_lazy("verdict on a criterion", "met"),
    "not_met": pgettext_lazy("verdict on a criterion", "not met"),
    UNJUDGED: pgettext_lazy("verdict on a criterion", "unjudged"),
}


def verdict_label(verdict: str) -> str:
    """The word for a verdict in the reader's language; '' is unjudged."""
    return str(VERDICTS.get(verdict or UNJUDGED, verdict))


def verdict_state(verdict: str, hits: Collection[str]) -> str:
    """The badge's state for a verdict: what the rate counts as a hit looks failed, what was not judged looks queued."""
    if not verdict:
        return "queued"
    return "failed" if verdict in hits else "finished"
