"""The rules by which the votes of several judges become one verdict.

Plain Python. A criterion without a majority gets no verdict; none is guessed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import chain

NO_MAJORITY = "NoMajority"  # the error of a judgment whose votes gave no verdict


class Rule(StrEnum):
    """The rule by which a panel decides."""

    MAJORITY = "majority"
    UNANIMITY = "unanimity"
    ESCALATION = "escalation"


INITIAL_JUDGES = 2  # how many judges an escalating panel asks at first

# The verdicts of a panel: for each judge, in the order of the panel, the verdicts of the repeats.
# A failed vote is ''.
Votes = Sequence[Sequence[str]]


def majority(verdicts: Sequence[str]) -> str:
    """The verdict of more than half of the votes, or ''.

    Failed votes count towards their number.
    """
    if not verdicts:
        return ""
    verdict, count = Counter(verdicts).most_common(1)[0]
    if 2 * count > len(verdicts):
        return verdict
    return ""


def unanimous_verdict(verdicts: Sequence[str]) -> str:
    """The verdict of all votes; '' if one differs or failed."""
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return ""


def is_disputed(votes: Votes) -> bool:
    """Whether the initial two judges of an escalating panel disagree, or one has no verdict."""
    return unanimous_verdict([majority(verdicts) for verdicts in votes[:INITIAL_JUDGES]]) == ""


def decide(rule: str, votes: Votes) -> str:
    """The verdict of a panel; '' if its rule gives none.

    A judge's verdict is the majority of the judge's repeats; the rule combines the verdicts of the
    judges. Under unanimity every single vote must agree. Under escalation the verdict is the one
    that the initial two judges agree on, or else the majority of all judges.
    """
    if rule == Rule.UNANIMITY:
        return unanimous_verdict(list(chain.from_iterable(votes)))
    by_judge = [majority(verdicts) for verdicts in votes]
    if rule == Rule.ESCALATION and not is_disputed(votes):
        return by_judge[0]
    return majority(by_judge)


def vote_summary(votes: Votes) -> str:
    """The number of votes for each verdict, as the error detail of a judgment without a verdict."""
    counts = Counter[str]()
    for verdict in chain.from_iterable(votes):
        counts[verdict or "failed"] += 1
    return ", ".join(f"{verdict} {n}" for verdict, n in sorted(counts.items()))


def explanation(verdict: str, explanations: Sequence[tuple[str, str]]) -> str:
    """The first non-empty explanation of a vote for `verdict`, or ''.

    `explanations`: (verdict, explanation) of the votes in their order.
    """
    for vote, text in explanations:
        if vote == verdict and text.strip():
            return text
    return ""


def escalation_order(families: Mapping[str, str], judges: Sequence[str]) -> list[str] | None:
    """The judges of an escalating panel, with one of a different model family moved to the end.

    `families`: the model family of each judge. The first judge stays first. If several others
    qualify, the last named is chosen; None if none does.
    """
    judges_of_family = Counter([families[judge] for judge in judges])
    for last in reversed(judges[1:]):
        if judges_of_family[families[last]] == 1:
            others = [judge for judge in judges if judge != last]
            return [*others, last]
    return None
