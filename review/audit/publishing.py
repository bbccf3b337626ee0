"""The audit trail of samples as published with a release. docs/audit.md describes the format."""

from collections.abc import Sequence

from review.audit import chain_entries
from review.models import Event


def trails(samples: Sequence[str], *, key: str, upto: int) -> dict[str, list[str]]:
    """Lineage -> the events of the sample up to position `upto` in the chain, in its order.

    Each event is one line, the canonical JSON of its entry together with its hash.

    Args:
        key: the installation's `pseudonym_key`.
    """
    lines: dict[str, list[str]] = {sample: [] for sample in samples}
    events = Event.objects.filter(case__lineage__in=samples, sequence__lte=upto).order_by("sequence", "id")
    for event in events.select_related("case").defer("case__spec"):
        line = chain_entries.canonical({**chain_entries.entry(event, key), "hash": event.hash})
        lines[event.case.lineage].append(line.decode("utf-8", "surrogatepass") + "\n")
    return lines
