"""How the votes of several judges become one verdict. Plain Python; what has no majority is never guessed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

NO_MAJORITY = "NoMajority"  # the error of a judgment whose votes came to no verdict


class Rule(StrEnum):
    """How a panel decides."""

    MAJORITY = "majority"
    UNANIMITY = "unanimity"
    ESCALATION = "escalation"


FIRST = 2  # judges that an escalating panel asks before anything is disputed

# The verdicts of a panel: one entry a judge, in the order of the panel, with the judge's own repeats; '' where a vote failed.
Votes = Sequence[Sequence[str]]


def majority(verdicts: Sequence[str]) -> str:
    """The verdict that more than half of all have; '' where none does. A failed vote is one of all, and for nothing."""
    said, count = Counter(verdicts).most_common(1)[0] if verdicts else ("", 0)
    return said if 2 * count > len(verdicts) else ""


def unanimous(verdicts: Sequence[str]) -> str:
    """The verdict that all have; '' where one differs or failed."""
    return verdicts[0] if len(set(verdicts)) == 1 else ""


def is_disputed(votes: Votes) -> bool:
    """Whether the first two judges of an escalating panel came to no common verdict."""
    return unanimous([majority(own) for own in votes[:FIRST]]) == ""


def decide(rule: str, votes: Votes) -> str:
    """The verdict of a panel; '' where the rule gives none.

    The repeats of a judge come to the judge's verdict by majority, and the judges' verdicts to the panel's by the rule. Under
    unanimity every single vote must agree. Escalation: what the first two agree on; else the majority of all.
    """
    if rule == Rule.UNANIMITY:
        return unanimous([verdict for own in votes for verdict in own])
    own = [majority(verdicts) for verdicts in votes]
    if rule == Rule.ESCALATION and not is_disputed(votes):
        return own[0]
    return majority(own)


def tally(votes: Votes) -> str:
    """The votes in words, for the detail of what stayed unjudged."""
    counts = Counter(verdict or "failed" for own in votes for verdict in own)
    return ", ".join(f"{verdict} {n}" for verdict, n in sorted(counts.items()))


def explanation(verdict: str, explanations: Sequence[tuple[str, str]]) -> str:
    """The first explanation that was given with the verdict that won; `explanations`: (verdict, explanation) in their order."""
    return next((text for said, text in explanations if said == verdict and text.strip()), "")


def escalation_order(families: Mapping[str, str], judges: Sequence[str]) -> list[str] | None:
    """The judges of an escalating panel, the one of another family last; None where no judge after the first is.

    `families`: of each judge. Of several that could be last, it is the one named last.
    """
    for last in reversed(judges[1:]):
        others = [judge for judge in judges if judge != last]
        if families[last] not in {families[judge] for judge in others}:
            return [*others, last]
    return None
