"""Decides what the judgments of a bundle count as; part of verify_run.py. Needs only Python 3.9.

The rules of docs/statistics.md, implemented independently: an error in one implementation is not
repeated in the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

JUDGED, EXCLUDED = "judged", "excluded"
FAILURES = UNPARSED, JUDGE_FAILED = "unparsed", "judge_failed"  # why a judgment has no verdict
NOT_ASKED = ("NoResponse", "NotJudged")


def failure_of(row: dict[str, Any]) -> str:
    """Why a failed judgment has no verdict."""
    return UNPARSED if row["error"] == "BrokenReply" else JUDGE_FAILED


def counted_verdict(row: dict[str, Any], outcome: str, rules: dict[str, str]) -> str:
    """The verdict that a judgment counts as; '' if it is not counted.

    Applies the rule for the outcome of its response, or for a failure of the judge.
    """
    rule = rules.get(outcome, JUDGED)
    if rule == JUDGED and not row["verdict"] and row["status"] == "failed" and row["error"] not in NOT_ASKED:
        rule = rules.get(failure_of(row), EXCLUDED)
    verdict: str = row["verdict"] if rule == JUDGED else "" if rule == EXCLUDED else rule
    return verdict


def majority(verdicts: Sequence[str]) -> str:
    """The verdict of more than half of the votes, or ''."""
    verdict, n = Counter(verdicts).most_common(1)[0]
    return verdict if 2 * n > len(verdicts) else ""


def is_disputed(votes: Sequence[Sequence[str]]) -> bool:
    """Whether the first two judges disagree, or one has no verdict."""
    first = {majority(verdicts) for verdicts in votes[:2]}
    return len(first) > 1 or "" in first


def decide(rule: str, votes: Sequence[Sequence[str]]) -> str:
    """The verdict of a panel from the votes of each judge; '' if its rule gives none.

    A failed vote is ''.
    """
    if rule == "unanimity":
        distinct = {verdict for verdicts in votes for verdict in verdicts}
        return distinct.pop() if len(distinct) == 1 else ""
    by_judge = [majority(verdicts) for verdicts in votes]
    return by_judge[0] if rule == "escalation" and not is_disputed(votes) else majority(by_judge)
