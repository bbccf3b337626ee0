"""Which verdicts count, and as what: said once, by the rules of a run and the scope of a rate.

Reports, validations, families of models, variances, leaderboards, comparisons and the check of a
bundle take their rows from here. Plain Python and numpy.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluation.panel import NO_MAJORITY
from evaluation.verdicts.rates import Rate

if TYPE_CHECKING:
    from evaluation.verdicts.table import VerdictTable, VoteGroup

# How a response with a given outcome is counted: by the verdicts on its text, or not at all. Any
# other rule is the verdict that its criteria count as.
JUDGED, EXCLUDED = "judged", "excluded"
# Why a response that should have been judged has no verdict: the judge's reply could not be read,
# there was none, or the judges of a panel voted without a majority.
JUDGE_FAILURES = UNPARSED, JUDGE_FAILED, UNDECIDED = "unparsed", "judge_failed", "no_majority"
PENDING = "pending"  # like JUDGE_FAILURES, a reason why an answered response has no verdict
UNJUDGED = "unjudged"
ANSWERED = "answered"
OUTCOMES = (ANSWERED, "refused", "empty", "filtered", "cut_off", "failed", "unknown", "unasked")  # of responses
TRAP, CONTROL = "trap", "control"
HELD_OUT = "held-out"  # the part of a release that is not published
COMBINED = "combined"  # the name of all data sets pooled
POLARITY = "polarity"  # the breakdown by polarity of rubrics, which is not a stored facet
RUBRIC = "key"  # membership by rubric key, for rates that count only one key

# Errors of judgments.
BROKEN = "BrokenReply"
NO_RESPONSE = "NoResponse"  # the response failed
NOT_JUDGED = "NotJudged"  # counts by the outcome of its response alone
NO_ANSWER = "NoEarlierAnswer"  # the error of a question that was not asked

Ints = NDArray[np.signedinteger[Any]]


def failure_of(status: str, error: str) -> str:
    """Why a failed judgment has no verdict: one of JUDGE_FAILURES; '' if it has not failed."""
    return {BROKEN: UNPARSED, NO_MAJORITY: UNDECIDED}.get(error, JUDGE_FAILED) if status == "failed" else ""


def failure_rule(rules: Mapping[str, str], failure: str) -> str:
    """How a failure of the judge counts.

    Plans from before there was a rule for votes without a majority count them as JUDGE_FAILED.
    """
    return rules.get(failure, rules.get(JUDGE_FAILED, EXCLUDED) if failure == UNDECIDED else EXCLUDED)


def counted_verdict(rules: Mapping[str, str], outcome: str, verdict: str, status: str, error: str) -> str:
    """The verdict that a judgment counts as; UNJUDGED if it is excluded or has none yet.

    `rules`: how each outcome of a response and each failure of the judge counts. The rule for the
    outcome comes first. A judgment that was never asked for has no failure of the judge.
    """
    rule = rules.get(outcome, JUDGED)
    if rule == JUDGED and not verdict and error not in (NO_RESPONSE, NOT_JUDGED):
        failure = failure_of(status, error)
        rule = failure_rule(rules, failure) if failure else JUDGED
    return verdict or UNJUDGED if rule == JUDGED else UNJUDGED if rule == EXCLUDED else rule


def kind_of(outcome: str, verdict: str, status: str, error: str) -> str:
    """Why a judgment has its verdict, or none: JUDGED, a failure of the judge, or an outcome."""
    if outcome != ANSWERED:
        return outcome
    return JUDGED if verdict else failure_of(status, error) or PENDING


def cluster_numbers(records: Sequence[int] | Ints, samples: Sequence[int] | Ints, ids: Sequence[int] | Ints) -> Ints:
    """The cluster of each released sample: its source record if several samples share it.

    Any other sample is a cluster of its own. Numbers below 0 are records. `records`, `samples`: the
    record and the sample behind each of the released `ids`, which may be several versions of one
    sample.
    """
    record, sample, released = (np.asarray(values, dtype=np.int64) for values in (records, samples, ids))
    pairs = np.unique(np.stack([record, sample]), axis=1)
    several, counts = np.unique(pairs[0], return_counts=True)
    return np.where(np.isin(record, several[counts > 1]), -record - 1, released)


def in_arm(table: "VerdictTable", rate: Rate) -> NDArray[np.bool_]:
    """Whether each unit is of the arm that the rate counts."""
    of_arm: NDArray[np.bool_] = table.unit_is_control == (rate.arm == CONTROL)
    return of_arm


def criteria_of(table: "VerdictTable", rate: Rate, rows: Ints | None = None) -> Ints | None:
    """The judgments on criteria that a rate is about, of either arm; None for all of them.

    `rows`: only these judgments.
    """
    if rate.only is None:
        return rows
    rows = np.arange(len(table.verdict)) if rows is None else rows
    has_value = table.members.get(rate.only.facet, {}).get(rate.only.value)
    return rows[has_value[table.rubric[rows]]] if has_value is not None else rows[:0]


def in_scope(table: "VerdictTable", rate: Rate) -> Ints:
    """The judgments in a rate: of its arm, on its criteria, with a verdict in its scope."""
    rows = criteria_of(table, rate)
    rows = np.arange(len(table.verdict)) if rows is None else rows
    is_counted = np.array([verdict in rate.scope_verdicts for verdict in table.verdicts], dtype=np.bool_)
    chosen: Ints = rows[in_arm(table, rate)[table.unit[rows]] & is_counted[table.verdict[rows]]]
    return chosen


def has_verdict(table: "VerdictTable", verdicts: frozenset[str], rows: Ints) -> NDArray[np.bool_]:
    """Whether each of these judgments counts as one of these verdicts."""
    among = np.array([verdict in verdicts for verdict in table.verdicts], dtype=np.bool_)
    result: NDArray[np.bool_] = among[table.verdict[rows]]
    return result


def counts_against(table: "VerdictTable", rate: Rate, failing: frozenset[str]) -> dict[str, tuple[int, int]]:
    """Model -> (verdicts against it, verdicts), of those in a rate."""
    rows = in_scope(table, rate)
    against = rows[has_verdict(table, failing, rows)]
    counts = [
        np.bincount(table.endpoint[chosen], minlength=len(table.endpoints)).tolist() for chosen in (against, rows)
    ]
    return {name: (counts[0][place], counts[1][place]) for place, name in enumerate(table.endpoints)}


class JudgeVote(NamedTuple):
    """A judge's vote on the judgment in row `row` of a table."""

    judge: str
    repeat: int
    row: int
    failed: bool


def votes_in_scope(
    table: "VerdictTable", rate: Rate, failing: frozenset[str], groups: Iterable["VoteGroup"]
) -> list[JudgeVote]:
    """The votes of a panel that a rate would count if each were the verdict.

    Not those on responses that count by their outcome alone.
    """
    criteria = criteria_of(table, rate)
    is_chosen = np.zeros(len(table.verdict), dtype=np.bool_)
    is_chosen[slice(None) if criteria is None else criteria] = True
    is_chosen &= in_arm(table, rate)[table.unit] & np.isin(np.array(table.kinds)[table.kind], (JUDGED, *JUDGE_FAILURES))
    votes = []
    for group in groups:
        if group.verdict in rate.scope_verdicts:
            rows = table.places(group.responses, group.rubrics)
            rows = rows[rows >= 0]
            failed = group.verdict in failing
            votes += [JudgeVote(group.judge, group.repeat, row, failed) for row in rows[is_chosen[rows]].tolist()]
    return votes
