"""The variance of a run, split into samples, answers and judges."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.protocol import Protocol
from evaluation.statistics.repeats import VarianceComponents, variance_components
from evaluation.verdicts.selection import JudgeVote, has_verdict, in_scope, votes_in_scope
from evaluation.verdicts.table import VerdictTable, VoteGroup


@dataclass(frozen=True, slots=True)
class ModelVariance:
    """For one model, the variance of the share of an answer's criteria that failed."""

    endpoint: str
    components: VarianceComponents


def variances(table: VerdictTable, protocol: Protocol, groups: Sequence[VoteGroup] | None) -> tuple[ModelVariance, ...]:
    """The split for each model. `groups`: the votes of a panel; None if there is none."""
    rate, failing = protocol.rates[0], protocol.failing_verdicts
    if groups is not None:
        votes = votes_in_scope(table, rate, failing, groups)
    else:
        rows = in_scope(table, rate)
        failed = has_verdict(table, failing, rows)
        votes = [JudgeVote("", 0, row, bad) for row, bad in zip(rows.tolist(), failed.tolist(), strict=True)]
    # (judge, vote, answer) -> criteria that failed, and all
    counts: dict[tuple[str, int, int], list[int]] = defaultdict(lambda: [0, 0])
    unit_of, responses, units = {}, table.response.tolist(), table.unit.tolist()
    for vote in votes:
        answer = responses[vote.row]
        unit_of[answer] = units[vote.row], int(table.endpoint[vote.row])
        count = counts[vote.judge, vote.repeat, answer]
        count[0] += vote.failed
        count[1] += 1
    # model -> question, answer, share of criteria that failed
    shares: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
    for (_judge, _repeat, answer), (bad, n) in counts.items():
        unit, endpoint = unit_of[answer]
        shares[endpoint].append((unit, answer, bad / n))
    return tuple(
        ModelVariance(name, variance_components(*zip(*shares[endpoint], strict=True)))
        for endpoint, name in enumerate(table.endpoints)
        if shares[endpoint]
    )
