"""The words for verdicts, and the sign that stands before each."""

from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext_lazy

from evaluation.metrics import UNJUDGED
from evaluation.protocol import Protocol

# Where a protocol has no words of its own for its verdicts.
VERDICTS: dict[str, Promise] = {
    "met": pgettext_lazy("verdict on a criterion", "met"),
    "not_met": pgettext_lazy("verdict on a criterion", "not met"),
    UNJUDGED: pgettext_lazy("verdict on a criterion", "unjudged"),
}


def verdict_label(verdict: str, protocol: Protocol) -> str:
    """The word for a verdict in the reader's language; '' is unjudged."""
    if verdict in protocol.verdicts:
        return gettext(protocol.verdicts[verdict])
    return str(VERDICTS.get(verdict or UNJUDGED, verdict))


def verdict_state(verdict: str, protocol: Protocol) -> str:
    """The badge's state for a verdict: what speaks against a model looks failed, what was not judged or what the first rate
    and those of single rubrics leave out looks queued."""
    counted = frozenset[str]().union(
        protocol.rates[0].scope_verdicts, *(rate.scope_verdicts for rate in protocol.rates if rate.rubric)
    )
    if verdict not in counted | protocol.failing_verdicts:
        return "queued"
    return "failed" if verdict in protocol.failing_verdicts else "finished"


def value_name(value: str, label: str) -> str:
    """'A1 Non-existent Entity': the code of a value before its label. A value in small letters is no code, but a name for
    files and addresses: then it is the label alone."""
    is_code = value != value.lower() and value.casefold() != label.casefold()
    return f"{value} {label}" if is_code else label
