"""The claims of a benchmark: each with its measurement and what would contradict it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import NormalDist
from typing import Any, TypedDict

from evaluation.claims.measures import Turns, settled_share, trap_effect, turns
from evaluation.numbers.comparing import ModelComparison
from evaluation.numbers.frame import Frame
from evaluation.numbers.late import pl
from evaluation.numbers.plans import AGREEMENT, EQUIVALENCE, ERROR, Plan
from evaluation.numbers.policies import PolicyScore, PolicyScores, policy_scores
from evaluation.numbers.rates import Rate, of_rate, rate_named
from evaluation.numbers.rates import gettext_noop as _
from evaluation.numbers.rules import COMBINED
from evaluation.protocol import Protocol
from evaluation.statistics.comparisons import PairedDifference
from review.rules.wilson_interval import Z95

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
# With the thresholds of the plan.
CONTRADICTED_BY = {
    UNREAD: _("a probe that does not read tells right from wrong answers better than chance"),
    BLIND: _("a policy that does not look scores better than a model (p < %(error)s after Holm)"),
    TRAP: _("the interval of trap minus control reaches 0"),
    REWORDED: _(
        "reworded minus original is not 0 (p < %(error)s), and its interval at 90 %% goes beyond ±%(equivalence)s"
    ),
    FLOOR: _("no difference of two models is above the floor with its whole interval"),
    PEOPLE: _("the whole interval of κ is below %(agreement)s"),
    COVERAGE: _("a criterion is not settled"),
}
MEASURES = {
    UNREAD: _("accuracy of the strongest probe"),
    BLIND: _("lead of a fixed text over a model, by the primary metric"),
    TRAP: _("rate on samples with a trap minus rate on their controls"),
    REWORDED: _("rate on rewordings minus rate on the controls that they reword"),
    FLOOR: _("largest difference of two models, by the primary metric"),
    PEOPLE: _("κ of judge and physicians, for the model with the lowest interval"),
    COVERAGE: _("share of the criteria that are settled"),
}
NOT_PROBED = _("The release was not probed.")
# What a reader does about a claim that fails, and about one that is not measured.
AFTER_FAILURE = {
    UNREAD: _("Quote models beside the strongest rule. For new samples, let one author write right and wrong answers."),
    BLIND: _("Do not rank models by this benchmark before it has samples that a fixed text cannot pass."),
    TRAP: _("Do not put errors down to the traps: read some answers with and without the trap first."),
    REWORDED: _("Do not put errors down to the traps alone: a changed wording acts, too."),
    FLOOR: _("Call the models equal. To tell them apart, ask more samples."),
    PEOPLE: _("Quote no rates of this judge. Read where physicians differ, then try another judge or judge prompt."),
    COVERAGE: _("Ask again where calls failed, or state the coverage beside each rate."),
}
TO_MEASURE = {
    UNREAD: _("An admin can probe the release on its page."),
    BLIND: _("An admin can judge fixed texts: Check the benchmark, on the page of the run."),
    TRAP: _("The next batch can have controls, and the next release can include them."),
    REWORDED: _("The next batch can have controls with rewordings, and the next release can include them."),
    FLOOR: _("An admin can ask and judge some samples again: Check the benchmark, on the page of the run."),
    PEOPLE: _("An admin can let physicians check some answers: Validate judge, on the page of the run."),
    COVERAGE: "",
}
# What a measurement counts or compares.
PROBED, BESIDE, BEATEN, TWINS, REWORDINGS, APART, SETTLED = (
    _("%(probe)s; a guess has %(chance)s"),
    _("%(first)s beside %(second)s"),
    _("%(texts)s: better than %(beaten)s of %(models)s models"),
    _("%(clusters)s independent records have both"),
    _("%(clusters)s independent records have both; interval at 90 %%"),
    _("%(first)s and %(second)s; asking again moves a difference by %(floor)s"),
    _("%(settled)s of %(criteria)s criteria"),
)


def filled(template: str, values: Mapping[str, Any], translated: Callable[[str], str] = str) -> str:
    """A sentence of a claim with its values; words and lists of words among them are translated."""
    words: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, tuple):
            words[name] = ", ".join(map(translated, value))
        elif isinstance(value, str):
            words[name] = translated(value)
        elif isinstance(value, float):
            words[name] = f"{value:.3g}"
        else:
            words[name] = value
    if template and words:
        return translated(template) % words
    return translated(template)


class StatedClaim(TypedDict):
    """A claim with its measurement. `holds`: null where it is not measured, and `why` says what is
    missing. `measures`: what `value` is; `detail`: what it compares or counts. `low`, `high`: the
    95 % interval, of rewordings that at 90 %; null for what is counted. `confirmed`: whether it
    holds on held-out samples alone; null without them.
    """

    name: str
    measures: str
    contradicted_by: str
    why: str
    detail: str
    value: float | None
    low: float | None
    high: float | None
    holds: bool | None
    confirmed: bool | None


class StatedPolicy(TypedDict):
    """What a fixed text scores by the primary metric on one data set, or on all pooled. `beats`:
    the models that score worse on the same samples, by Holm over all pairs. It has no rank and is
    no model.
    """

    name: str
    dataset: str
    rate: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    excluded: int
    clusters: int
    beats: list[str]


class VerdictTurns(TypedDict):
    """How often verdicts turn where only the asking changes. `moved`: by how much the difference
    of two models does.
    """

    kind: str
    who: str
    turned: float | None
    low: float | None
    high: float | None
    moved: float | None
    criteria: int


class StatedClaims(TypedDict):
    """Whether a benchmark measures what it says, as a run tells it. `below_the_floor`: pairs of
    models whose difference is no larger than what asking again changes.
    """

    below_the_floor: list[list[str]]
    policies: list[StatedPolicy]
    claims: list[StatedClaim]
    floor: list[VerdictTurns]


@dataclass(frozen=True, slots=True)
class BenchmarkClaim:
    """A claim with its measurement.

    `holds`: True, False, or None where it is not measured; `why` then says what is missing.
    `low`, `high`: the 95 % interval, of rewordings that at 90 %, of κ that of all models at once;
    None for what is counted and not estimated. `measures`: what `value` is. `detail`: what it
    compares or counts. `values`: of `detail` and `contradicted_by`, for `filled`. `confirmed`:
    whether it holds on held-out samples alone; None where there are none, or too few.
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
    measures: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def next_step(self) -> str:
        """What a reader does about a claim that does not hold; "" for one that holds."""
        if self.holds:
            return ""
        if self.holds is False:
            return AFTER_FAILURE[self.name]
        if self.value is not None or (self.name == UNREAD and self.why != NOT_PROBED):
            return ""  # too few records, or none that can be measured: `why` says so
        return TO_MEASURE[self.name]

    @property
    def as_json(self) -> StatedClaim:
        """The claim with its sentences in English."""
        stated: Any = asdict(self)
        del stated["values"]
        for name in ("contradicted_by", "detail"):
            stated[name] = filled(stated[name], self.values)
        shown: StatedClaim = stated
        return shown

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
            measured = f" Measured: {self.measures}, {self.value:.3f}"
        if self.low is not None and self.high is not None:
            measured += f" ({self.low:.3f} to {self.high:.3f})"
        against = filled(self.contradicted_by, self.values)
        return f"{result}: {self.name}.{measured}. It would be contradicted if {against}."


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
        return _limit(self.floor)

    def is_below(self, comparison: ModelComparison) -> bool:
        """Whether a difference by the primary metric is no larger than `limit`."""
        if self.limit is None or comparison.difference is None or comparison.rate != self.rate.name:
            return False
        return abs(comparison.difference) <= self.limit

    @property
    def failing(self) -> tuple[BenchmarkClaim, ...]:
        """The measured claims that fail."""
        return tuple([claim for claim in self.claims if claim.holds is False])

    @property
    def winning(self) -> tuple[PolicyScore, ...]:
        """The fixed texts that beat a model."""
        return tuple([score for score in self.policies if score.beats])

    @property
    def failed(self) -> int:
        """How many measured claims fail."""
        return len(self.failing)

    def as_json(self) -> StatedClaims:
        """As the command prints it, and as `claims.json` has it."""
        return {
            "policies": [self._policy(score) for score in self.policies],
            "claims": [claim.as_json for claim in self.claims],
            "floor": list(map(_turns, self.floor)),
            "below_the_floor": list(map(list, self.below)),
        }

    def _policy(self, score: PolicyScore) -> StatedPolicy:
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


def _limit(floor: Sequence[Turns]) -> float | None:
    moved = [each.moved for each in floor if each.moved is not None]
    return max(moved, default=None)


def _turns(turns: Turns) -> VerdictTurns:
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
    rate = rate_named(protocol.rates, plan.metric) or protocol.rates[0]
    lower = protocol.is_lower_better(rate)
    floor = turns(frame, rate, protocol.failing_verdicts, votes, plan.comparisons, plan.minimum, again)
    limit = _limit(floor)
    planned = planned_comparisons(comparisons, rate, plan)
    below: dict[tuple[str, str], None] = {}
    for comparison in planned:
        if limit is not None and _reach(comparison)[1] <= limit:
            below[comparison.first, comparison.second] = None
    blind = _policy_scores(frame, fixed, protocol, plan, rate)
    found = [
        probe,
        _blind(blind, plan, len(frame.models), lower=lower),
        _trap(frame, rate, plan),
        _reworded(twins, rate, plan),
        _floor(planned, limit, plan),
        _people(validation, plan),
        _coverage(frame, plan),
    ]
    if frame.units["is_held_out"].any():
        held_out, held_out_texts, held_out_twins = frame.held_out, None, None
        if fixed is not None:
            held_out_texts = fixed.held_out
        if twins is not None:
            held_out_twins = twins.held_out
        of_held_out = _policy_scores(held_out, held_out_texts, protocol, plan, rate)
        confirmed = {
            BLIND: _blind(of_held_out, plan, len(frame.models), lower=lower),
            TRAP: _trap(held_out, rate, plan),
            REWORDED: _reworded(held_out_twins, rate, plan),
        }
        found = [_confirmed(claim, confirmed) for claim in found]
    scores: tuple[PolicyScore, ...] = ()
    if blind is not None:
        scores = blind.scores
    return Claims(tuple(found), floor, tuple(below), rate, scores)


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
    tells: bool | None,
    value: float | None = None,
    low: float | None = None,
    high: float | None = None,
    *,
    why: str = "",
    probe: str = "",
    chance: float = 0.5,
) -> BenchmarkClaim:
    """The claim that answers cannot be told without reading, by the strongest probe.

    Args:
        probe: its label in English; `chance`: the accuracy of a guess.
        why: the sentence why there is no number.
    """
    claim = BenchmarkClaim(UNREAD, CONTRADICTED_BY[UNREAD], measures=MEASURES[UNREAD])
    if tells is None:
        return replace(claim, why=why or NOT_PROBED)
    values = {"probe": probe, "chance": chance}
    return replace(claim, value=value, low=low, high=high, holds=not tells, detail=PROBED, values=values)


def planned_comparisons(comparisons: Sequence[ModelComparison], rate: Rate, plan: Plan) -> list[ModelComparison]:
    """The planned pairs by the primary metric: on the plan's data set, or on all together."""
    by_dataset: dict[str, list[ModelComparison]] = defaultdict(list)
    measured = []
    for comparison in of_rate(comparisons, rate):
        if comparison.difference is not None:
            measured.append(comparison)
            by_dataset[comparison.dataset].append(comparison)
    for whole in (plan.dataset, COMBINED):
        if whole in by_dataset:
            return by_dataset[whole]
    return measured


def _claim(plan: Plan, name: str, detail: str = "", **counts: Any) -> BenchmarkClaim:
    """A claim that is not measured yet."""
    values = {**plan.thresholds, **counts}
    return BenchmarkClaim(name, CONTRADICTED_BY[name], detail=detail, measures=MEASURES[name], values=values)


def _measured(claim: BenchmarkClaim, effect: PairedDifference, *, holds: bool | None) -> BenchmarkClaim:
    return replace(claim, value=effect.difference, low=effect.low, high=effect.high, holds=holds)


def _trap(frame: Frame, rate: Rate, plan: Plan) -> BenchmarkClaim:
    effect = trap_effect(frame, rate, plan.minimum)
    if effect is None:
        return replace(_claim(plan, TRAP), why=_("The release has no controls beside its samples."))
    claim = _claim(plan, TRAP, TWINS, clusters=effect.clusters)
    if effect.low is None:
        return replace(claim, why=_("Too few records have a sample and its control."))
    return _measured(claim, effect, holds=effect.low > 0)


def _reworded(twins: Frame | None, rate: Rate, plan: Plan) -> BenchmarkClaim:
    """A wide interval alone does not show that rewording acts: the claim is then not measured."""
    effect = None
    if twins is not None:
        effect = trap_effect(twins.current, rate, plan.minimum, TOST)
    if effect is None:
        return replace(_claim(plan, REWORDED), why=_("The release has no controls that only reword."))
    claim = _claim(plan, REWORDED, REWORDINGS, clusters=effect.clusters)
    if effect.low is None or effect.high is None or effect.p is None:
        return replace(claim, why=_("Too few records have a control and its rewording."))
    margin = plan.thresholds[EQUIVALENCE]
    if -margin < effect.low and effect.high < margin:
        return _measured(claim, effect, holds=True)
    if effect.p < plan.thresholds[ERROR]:
        return _measured(claim, effect, holds=False)
    why = _("The interval contains 0 and goes beyond the margin: more records are needed.")
    return replace(_measured(claim, effect, holds=None), why=why)


def _reach(comparison: ModelComparison) -> tuple[float, float]:
    """The size of a difference: the end of its interval nearest to 0, and its own size."""
    size = abs(comparison.difference or 0.0)
    if comparison.low is None or comparison.high is None or comparison.low <= 0 <= comparison.high:
        return 0.0, size
    return min(abs(comparison.low), abs(comparison.high)), size


def _floor(planned: Sequence[ModelComparison], limit: float | None, plan: Plan) -> BenchmarkClaim:
    if limit is None:
        return replace(_claim(plan, FLOOR), why=_("Nothing was asked or judged twice."))
    measured = [each for each in planned if each.low is not None and each.high is not None]
    if not measured:
        return replace(_claim(plan, FLOOR), why=_("No difference of two models has an interval."))
    largest = max(measured, key=_reach)
    nearest, size = _reach(largest)
    farthest = max(abs(largest.low or 0.0), abs(largest.high or 0.0))
    claim = _claim(plan, FLOOR, APART, first=largest.first, second=largest.second, floor=limit)
    return replace(claim, value=size, low=nearest, high=farthest, holds=nearest > limit)


def _people(validation: Mapping[str, Any] | None, plan: Plan) -> BenchmarkClaim:
    """The model whose κ is most surely low; the interval is that of all models together."""
    claim = _claim(plan, PEOPLE)
    known = []
    if validation is not None:
        for model in validation["models"]:
            if model["judge"]["kappa"]["low"] is not None:
                known.append(_interval_of_all(model["judge"]["kappa"], len(validation["models"])))
    if validation is None or not known:
        return replace(claim, why=_("Physicians have not checked enough verdicts of the judge."))
    value, low, high = min(known, key=lambda interval: interval[2])
    why = ""
    if validation["simulated_physicians"]:
        why = _("Simulated physicians: not evidence.")
    return replace(claim, value=value, low=low, high=high, holds=high >= plan.thresholds[AGREEMENT], why=why)


def _interval_of_all(kappa: Mapping[str, float], models: int) -> tuple[float, float, float]:
    """κ with an interval that holds for so many models at once (Bonferroni), by its two halves."""
    wider = NormalDist().inv_cdf(1 - 0.025 / models) / Z95
    value = kappa["value"]
    low = max(-1.0, value - wider * (value - kappa["low"]))
    high = min(1.0, value + wider * (kappa["high"] - value))
    return value, low, high


def _blind(blind: PolicyScores | None, plan: Plan, models: int, *, lower: bool) -> BenchmarkClaim:
    if blind is None:
        return replace(_claim(plan, BLIND), why=_("No fixed text was judged as the answer of a model."))
    closest = blind.closest
    if closest is None or closest.difference is None or closest.low is None or closest.high is None:
        return replace(_claim(plan, BLIND), why=_("Fixed texts were judged on too few samples."))
    if blind.winners:
        claim = _claim(plan, BLIND, BEATEN, texts=blind.winners, beaten=len(blind.beaten), models=models)
    else:
        claim = _claim(plan, BLIND, BESIDE, first=closest.first, second=closest.second)
    lead, low, high = closest.difference, closest.low, closest.high
    if lower:
        lead, low, high = -lead, -high, -low
    return replace(claim, value=lead, low=low, high=high, holds=not blind.winners)


def _coverage(frame: Frame, plan: Plan) -> BenchmarkClaim:
    settled, criteria = settled_share(frame)
    if not criteria:
        return replace(_claim(plan, COVERAGE), why=_("There is nothing to judge."))
    claim = _claim(plan, COVERAGE, SETTLED, settled=settled, criteria=criteria)
    return replace(claim, value=settled / criteria, holds=settled == criteria)
