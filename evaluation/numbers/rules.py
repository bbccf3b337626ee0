"""What a verdict counts as: the words for outcomes and failures, and a plan's rules for them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from evaluation.panel import NO_MAJORITY

# How a response with a given outcome is counted: by the verdicts on its text, or not at all. Any
# other rule is the verdict that its criteria count as.
JUDGED, EXCLUDED = "judged", "excluded"
# Why a response that should have been judged has no verdict: the judge's reply could not be read,
# there was none, or the judges of a panel voted without a majority.
JUDGE_FAILURES = UNPARSED, JUDGE_FAILED, UNDECIDED = "unparsed", "judge_failed", "no_majority"
# Why an answered response has no verdict yet, and why a criterion has no response.
PENDING, MISSING = "pending", "missing"
UNJUDGED = "unjudged"
ANSWERED = "answered"
FAILED = "failed"
OUTCOMES = (ANSWERED, "refused", "empty", "filtered", "cut_off", FAILED, "unknown", "unasked")  # of responses
# Why a verdict that was given is void: the tool that made it, or a person, marked it so.
VOIDS = INVALIDATED, LIMIT, EDITED, SUPERSEDED, CANCELLED = (
    "invalidated",
    "limit",
    "edited",
    "superseded",
    "cancelled",
)
# All reasons why a criterion has its verdict, or none.
KINDS = (JUDGED, *OUTCOMES[1:], *JUDGE_FAILURES, PENDING, MISSING, *VOIDS)
TRAP, CONTROL, REWORDED = ARMS = "trap", "control", "reworded"  # a control in other words, which no rate counts
HELD_OUT = "held-out"  # the part of a release that is not published
COMBINED = "combined"  # the name of all data sets pooled
POLARITY = "polarity"  # the breakdown by polarity of rubrics, which is not a stored facet
RUBRIC = "key"  # membership by rubric key, for rates that count only one key

# Errors of judgments.
BROKEN = "BrokenReply"
NO_RESPONSE = "NoResponse"  # the response failed
NOT_JUDGED = "NotJudged"  # counts by the outcome of its response alone
NO_ANSWER = "NoEarlierAnswer"  # the error of a question that was not asked

ENDED = ("done", "failed")  # statuses of judgments that nobody works on any more


def can_pool(tasks: Iterable[str]) -> bool:
    """Whether there are several data sets, of these tasks, to pool.

    Never two variants of one task: each of its samples would count twice.
    """
    names = list(tasks)
    return len(names) > 1 and len(set(names)) == len(names)


class CriterionState(NamedTuple):
    """All that decides what a criterion counts as.

    `outcome`: of the response, '' if it has none. `said`: the verdict that was given, '' if none.
    `status`, `error`: of the judgment, '' if there is none. `void`: one of `VOIDS`, or ''.
    """

    outcome: str
    said: str
    status: str
    error: str
    void: str


class Counted(NamedTuple):
    """What a criterion counts as.

    `verdict`: UNJUDGED if none. `why`: one of `KINDS`. `settled`: whether nothing of it is missing:
    a verdict was given, its judge failed, or its response ended in another way than by failing. A
    run all of whose criteria are settled is complete.
    """

    verdict: str
    why: str
    settled: bool


def counted(rules: Mapping[str, str], state: CriterionState) -> Counted:
    """What a criterion in this state counts as.

    `rules`: how each outcome of a response and each failure of the judge counts.
    """
    if state.void:
        return Counted(UNJUDGED, state.void, False)
    if not state.outcome:
        return Counted(UNJUDGED, PENDING, False)
    failure = ""  # of the judge
    if state.status == "failed":
        failure = {BROKEN: UNPARSED, NO_MAJORITY: UNDECIDED}.get(state.error, JUDGE_FAILED)
    # The rule for the outcome comes first; a judgment that was never asked for has no failure.
    rule = rules.get(state.outcome, JUDGED)
    is_judged = rule == JUDGED
    if is_judged and failure and not state.said and state.error not in (NO_RESPONSE, NOT_JUDGED):
        rule = failure_rule(rules, failure)
    verdict = rule
    if rule == JUDGED:
        verdict = state.said or UNJUDGED
    elif rule == EXCLUDED:
        verdict = UNJUDGED
    why = state.outcome
    if state.outcome == ANSWERED and state.said:
        why = JUDGED
    elif state.outcome == ANSWERED:
        why = failure or PENDING
    settled = state.outcome != FAILED and (state.status in ENDED or not is_judged)
    return Counted(verdict, why, settled)


def failure_rule(rules: Mapping[str, str], failure: str) -> str:
    """How a failure of the judge counts.

    Plans from before there was a rule for votes without a majority count them as JUDGE_FAILED.
    """
    if failure == UNDECIDED and failure not in rules:
        return rules.get(JUDGE_FAILED, EXCLUDED)
    return rules.get(failure, EXCLUDED)
