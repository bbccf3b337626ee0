"""The claims of a benchmark: each with its measurement and what would contradict it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from evaluation.claims.measures import Turns, settled_share, trap_effect, turns
from evaluation.numbers.comparing import ModelComparison
from evaluation.numbers.frame import Frame
from evaluation.numbers.late import pl
from evaluation.numbers.plans import AGREEMENT, EQUIVALENCE, ERROR, Plan
from evaluation.numbers.policies import PolicyScore, PolicyScores, policy_scores
from evaluation.numbers.rates import Rate
from evaluation.numbers.rates import gettext_noop as _
from evaluation.numbers.rules import COMBINED
from evaluation.protocol import Protocol

TOST = 0.9  # of the interval that two one-sided tests at 5 % look at

UNREAD, BLIND, TRAP, REWORDED, FLOOR, PEOPLE, COVERAGE = NAMES = (
    _("cannot be told without reading"),
    _("no blind policy wins"),
    _("the trap does it"),
    _("rewording does not"),
    _("models differ more than the floor"),
    _("people and judge agree"),
    _("nothing is missing"),
)
CONTRADICTED_BY = {
    UNREAD: _("a probe that does not read tells right from wrong answers better than chance"),
    BLIND: _("a policy that does not look scores better than a model"),
    TRAP: _("the interval of trap minus control reaches 0"),
    REWORDED: _("reworded minus original is not 0, and its interval at .90 goes beyond ±.05"),
    FLOOR: _("no difference of two models is above the floor with its whole interval"),
    PEOPLE: _("the whole interval of κ is below 0.6"),
    COVERAGE: _("a criterion is not settled"),
}


@dataclass(frozen=True, slots=True)
class BenchmarkClaim:
    """A claim with its measurement.

    `holds`: True, False, or None where it is not measured; `why` then says what is missing.
    `low`, `high`: the 95 % interval; None for what is counted and not estimated. `detail`: what was
    compared or counted, in names and numbers. `confirmed`: whether it holds on held-out samples
    alone; None where there are none, or too few.
    """

    name: str
    contradicted_by: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    holds: bool | None = None
    why: str = ""
    detail: str = ""
    confirmed: bool | None = None

    @property
    def sentence(self) -> str:
        """The claim in English, for the card of a data set."""
        if self.holds is None:
            return f"Not measured: {self.name}. {self.why}"
        result = "Fails"
        if self.holds:
            result = "Holds"
        if self.value is None:
            measured = ""
        else:
            measured = f" Measured: {self.value:.3f}"
        if self.low is not None and self.high is not None:
            measured += f" ({self.low:.3f} to {self.high:.3f})"
        return f"{result}: {self.name}.{measured}. It would be contradicted if {self.contradicted_by}."


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a run.

    `floor`: how often verdicts turn. `below`: pairs of models below it on a data set. `policies`:
    what fixed texts score by `rate`, the primary metric.
    """

    claims: tuple[BenchmarkClaim, ...]
    floor: tuple[Turns, ...]
    below: tuple[tuple[str, str], ...]
    rate: Rate
    policies: tuple[PolicyScore, ...] = ()

    @property
    def limit(self) -> float | None:
        """By how much the difference of two models moves where only the asking changes."""
        return max((each.moved for each in self.floor if each.moved is not None), default=None)

    def is_below(self, comparison: ModelComparison) -> bool:
        """Whether a difference by the primary metric is no larger than `limit`."""
        if self.limit is None or comparison.difference is None or comparison.rate != self.rate.name:
            return False
        return abs(comparison.difference) <= self.limit

    @property
    def failing(self) -> tuple[BenchmarkClaim, ...]:
        """The measured claims that fail."""
        return tuple(claim for claim in self.claims if claim.holds is False)

    @property
    def winning(self) -> tuple[PolicyScore, ...]:
        """The fixed texts that beat a model."""
        return tuple(score for score in self.policies if score.beats)

    @property
    def failed(self) -> int:
        """How many measured claims fail."""
        return len(self.failing)

    def as_json(self) -> dict[str, Any]:
        """As the command prints it, and as `claims.json` has it."""
        return {
            "policies": [self._policy(score) for score in self.policies],
            "claims": list(map(asdict, self.claims)),
            "floor": list(map(_turns, self.floor)),
            "below_the_floor": list(map(list, self.below)),
        }

    def _policy(self, score: PolicyScore) -> dict[str, Any]:
        measured = score.measured
        return {
            "name": score.policy,
            "dataset": score.dataset,
            "rate": self.rate.name,
            "value": measured.value,
            "low": measured.low,
            "high": measured.high,
            "n": measured.n,
            "excluded": measured.excluded,
            "clusters": measured.clusters,
            "beats": list(score.beats),
        }


def _turns(turns: Turns) -> dict[str, Any]:
    return {
        "kind": turns.kind,
        "who": turns.who,
        "turned": turns.turned.value,
        "low": turns.turned.low,
        "high": turns.turned.high,
        "criteria": turns.turned.n,
        "moved": turns.moved,
    }


def claims_of(
    frame: Frame,
    votes: pl.DataFrame,
    protocol: Protocol,
    plan: Plan,
    comparisons: Sequence[ModelComparison],
    validation: Mapping[str, Any] | None,
    probe: BenchmarkClaim,
    fixed: Frame | None = None,
    twins: Frame | None = None,
    again: pl.DataFrame | None = None,
) -> Claims:
    """All claims of a run.

    Args:
        frame: of the run.
        votes: of a panel; empty without one.
        comparisons: those of the report.
        validation: of the report, as JSON.
        probe: the claim that rests on the probes of the release (`unread`).
        fixed: of the fixed texts; None if none was judged.
        twins: of controls, and of their rewordings in the place of samples with a trap; None if the
            release has none.
        again: what was asked or judged again on a sample (`measures.turns`).
    """
    frame = frame.current
    rate = next((rate for rate in protocol.rates if rate.name == plan.metric), protocol.rates[0])
    floor = turns(frame, rate, protocol.failing_verdicts, votes, plan.comparisons, plan.minimum, again)
    planned = planned_comparisons(comparisons, rate.name, plan)
    limit = max((each.moved for each in floor if each.moved is not None), default=None)
    below = dict.fromkeys(
        (each.first, each.second) for each in planned if limit is not None and _reach(each)[1] <= limit
    )
    blind = _policy_scores(frame, fixed, protocol, plan, rate)
    found: tuple[BenchmarkClaim, ...] = (
        probe,
        _blind(blind, protocol.is_lower_better(rate), len(frame.models)),
        _trap(frame, rate, plan),
        _reworded(twins, rate, plan),
        _floor(planned, limit),
        _people(validation, plan),
        _coverage(frame),
    )
    if frame.units["is_held_out"].any():
        held_out = frame.held_out
        of_held_out = _policy_scores(held_out, None if fixed is None else fixed.held_out, protocol, plan, rate)
        confirmed = {
            BLIND: _blind(of_held_out, protocol.is_lower_better(rate), len(frame.models)),
            TRAP: _trap(held_out, rate, plan),
            REWORDED: _reworded(None if twins is None else twins.held_out, rate, plan),
        }
        found = tuple(_confirmed(claim, confirmed) for claim in found)
    return Claims(found, floor, tuple(below), rate, () if blind is None else blind.scores)


def _confirmed(claim: BenchmarkClaim, confirmed: Mapping[str, BenchmarkClaim]) -> BenchmarkClaim:
    """The claim with whether it holds on held-out samples alone."""
    if claim.name in confirmed:
        return replace(claim, confirmed=confirmed[claim.name].holds)
    return claim


def _policy_scores(
    frame: Frame, fixed: Frame | None, protocol: Protocol, plan: Plan, rate: Rate
) -> PolicyScores | None:
    if fixed is None:
        return None
    return policy_scores(frame, fixed.current, protocol, plan, rate)


def unread(
    tells: bool | None, value: float | None = None, low: float | None = None, high: float | None = None, why: str = ""
) -> BenchmarkClaim:
    """The claim that answers cannot be told without reading, by the strongest probe."""
    if tells is None:
        return _not_measured(UNREAD, why or _("The release was not probed."))
    return BenchmarkClaim(UNREAD, CONTRADICTED_BY[UNREAD], value, low, high, not tells)


def planned_comparisons(comparisons: Sequence[ModelComparison], metric: str, plan: Plan) -> list[ModelComparison]:
    """The planned pairs by the primary metric: on the plan's data set, or on all together."""
    of_metric = [each for each in comparisons if each.rate == metric and each.difference is not None]
    names = {each.dataset for each in of_metric}
    if plan.dataset in names:
        whole = plan.dataset
    else:
        whole = COMBINED if COMBINED in names else ""
    return [each for each in of_metric if not whole or each.dataset == whole]


def _trap(frame: Frame, rate: Rate, plan: Plan) -> BenchmarkClaim:
    effect = trap_effect(frame, rate, plan.minimum)
    if effect is None:
        return _not_measured(TRAP, _("The release has no controls beside its samples."))
    if effect.low is None:
        return _not_measured(TRAP, _("Too few records have a sample and its control."), str(effect.clusters))
    return BenchmarkClaim(TRAP, CONTRADICTED_BY[TRAP], effect.difference, effect.low, effect.high, effect.low > 0)


def _reworded(twins: Frame | None, rate: Rate, plan: Plan) -> BenchmarkClaim:
    """A wide interval alone does not show that rewording acts: the claim is then not measured."""
    if twins is None:
        effect = None
    else:
        effect = trap_effect(twins.current, rate, plan.minimum, TOST)
    if effect is None:
        return _not_measured(REWORDED, _("The release has no controls that only reword."))
    if effect.low is None or effect.high is None or effect.p is None:
        return _not_measured(REWORDED, _("Too few records have a control and its rewording."), str(effect.clusters))
    margin = plan.thresholds[EQUIVALENCE]
    ends = effect.difference, effect.low, effect.high
    if -margin < effect.low and effect.high < margin:
        return BenchmarkClaim(REWORDED, CONTRADICTED_BY[REWORDED], *ends, holds=True)
    if effect.p < plan.thresholds[ERROR]:
        return BenchmarkClaim(REWORDED, CONTRADICTED_BY[REWORDED], *ends, holds=False)
    why = _("The interval is wider than ±.05 and contains 0: more records are needed.")
    return BenchmarkClaim(REWORDED, CONTRADICTED_BY[REWORDED], *ends, why=why)


def _reach(comparison: ModelComparison) -> tuple[float, float]:
    """The size of a difference: the end of its interval nearest to 0, and its own size."""
    size = abs(comparison.difference or 0.0)
    if comparison.low is None or comparison.high is None or comparison.low <= 0 <= comparison.high:
        return 0.0, size
    return min(abs(comparison.low), abs(comparison.high)), size


def _floor(planned: Sequence[ModelComparison], limit: float | None) -> BenchmarkClaim:
    if limit is None:
        return _not_measured(FLOOR, _("Nothing was asked or judged twice."))
    measured = [each for each in planned if each.low is not None and each.high is not None]
    if not measured:
        return _not_measured(FLOOR, _("No difference of two models has an interval."))
    largest = max(measured, key=lambda each: (_reach(each)[0], _reach(each)[1]))
    nearest, size = _reach(largest)
    farthest = max(abs(largest.low or 0.0), abs(largest.high or 0.0))
    detail = f"{largest.first} – {largest.second}; {limit:.3f}"
    return BenchmarkClaim(FLOOR, CONTRADICTED_BY[FLOOR], size, nearest, farthest, nearest > limit, detail=detail)


def _people(validation: Mapping[str, Any] | None, plan: Plan) -> BenchmarkClaim:
    if validation is None:
        models = []
    else:
        models = validation["models"]
    known = [model["judge"]["kappa"] for model in models if model["judge"]["kappa"]["low"] is not None]
    if not known:
        return _not_measured(PEOPLE, _("Physicians have not checked enough verdicts of the judge."))
    worst = min(known, key=lambda kappa: kappa["value"])
    said = ""
    if validation and validation["simulated_physicians"]:
        said = _("Simulated physicians: not evidence.")
    ends = worst["value"], worst["low"], worst["high"]
    holds = worst["high"] >= plan.thresholds[AGREEMENT]
    return BenchmarkClaim(PEOPLE, CONTRADICTED_BY[PEOPLE], *ends, holds, said)


def _blind(blind: PolicyScores | None, lower: bool, models: int) -> BenchmarkClaim:
    if blind is None:
        return _not_measured(BLIND, _("No fixed text was judged as the answer of a model."))
    closest = blind.closest
    if closest is None or closest.difference is None or closest.low is None or closest.high is None:
        return _not_measured(BLIND, _("Fixed texts were judged on too few samples."))
    ends = closest.difference, closest.low, closest.high
    if lower:
        ends = -closest.difference, -closest.high, -closest.low
    detail = f"{closest.first} – {closest.second}"
    if blind.winners:
        detail = f"{', '.join(blind.winners)}: {len(blind.beaten)}/{models}"
    return BenchmarkClaim(BLIND, CONTRADICTED_BY[BLIND], *ends, not blind.winners, detail=detail)


def _coverage(frame: Frame) -> BenchmarkClaim:
    settled, criteria = settled_share(frame)
    if not criteria:
        return _not_measured(COVERAGE, _("There is nothing to judge."))
    detail = f"{settled}/{criteria}"
    return BenchmarkClaim(
        COVERAGE, CONTRADICTED_BY[COVERAGE], settled / criteria, holds=settled == criteria, detail=detail
    )


def _not_measured(name: str, why: str, detail: str = "") -> BenchmarkClaim:
    return BenchmarkClaim(name, CONTRADICTED_BY[name], why=why, detail=detail)
