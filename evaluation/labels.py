"""Labels of verdicts and facet values, and the badge states of verdicts."""

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy, pgettext_lazy

from evaluation.numbers.rules import NO_ANSWER, NO_RESPONSE, NOT_JUDGED, RUBRIC, UNJUDGED
from evaluation.panel import NO_MAJORITY
from evaluation.protocol import Protocol
from generation.jobs.endpoint_choices import error_words

# Defaults for verdicts that the protocol has no words for.
VERDICTS: dict[str, Promise] = {
    "met": pgettext_lazy("verdict on a criterion", "met"),
    "not_met": pgettext_lazy("verdict on a criterion", "not met"),
    UNJUDGED: pgettext_lazy("verdict on a criterion", "unjudged"),
}

# Why there is no response or verdict, where no call failed.
FAILURES: dict[str, Promise] = {
    NO_ANSWER: gettext_lazy("Not asked: an earlier question has no response."),
    NO_MAJORITY: gettext_lazy("The votes of the judges have no majority."),
    NO_RESPONSE: gettext_lazy("There was no response to judge."),
    NOT_JUDGED: gettext_lazy("Not judged: the outcome of the response decides how it is counted."),
}

# What the clusters of intervals and comparisons are: what samples share, or the samples themselves.
CLUSTERS: dict[str, Promise] = {
    "sample": gettext_lazy("Samples"),
    "record": gettext_lazy("Source records"),
    "image": gettext_lazy("Images"),
    "document": gettext_lazy("Documents"),
    "patient": gettext_lazy("Patients"),
    "video": gettext_lazy("Videos"),
}


def cluster_label(unit: str) -> str:
    """What the clusters are, in words. `unit`: of a frame; may name several kinds."""
    return ", ".join([str(CLUSTERS.get(kind, kind)) for kind in unit.split(", ")])


def failure_words(code: str, detail: str = "") -> str:
    """Why there is no response or verdict, in the reader's language."""
    if code in FAILURES:
        return str(FAILURES[code])
    return error_words(code, detail)


def verdict_label(verdict: str, protocol: Protocol) -> str:
    """The label of a verdict in the reader's language; '' stands for unjudged."""
    if verdict in protocol.verdicts:
        return gettext(protocol.verdicts[verdict])
    return str(VERDICTS.get(verdict or UNJUDGED, verdict))


def verdict_state(verdict: str, protocol: Protocol) -> str:
    """The badge state of a verdict.

    'failed' if the verdict counts against a model; 'queued' if there is none, or if the first rate
    and the rates of single rubrics exclude it; else 'finished'.
    """
    if verdict in protocol.failing_verdicts:
        return "failed"
    if verdict in protocol.rates[0].scope_verdicts:
        return "finished"
    for rate in protocol.rates:
        if rate.only and rate.only.facet == RUBRIC and verdict in rate.scope_verdicts:
            return "finished"
    return "queued"


def value_name(value: str, label: str) -> str:
    """A facet value with its code before the label, as in 'A1 Non-existent Entity'.

    A lowercase value is not a code but a name for files and URLs, and is left out.
    """
    is_code = value != value.lower() and value.casefold() != label.casefold()
    if is_code:
        return f"{value} {label}"
    return label
