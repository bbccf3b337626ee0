"""How verdicts become a rate: plain values that a benchmark defines."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from evaluation.numbers.scores import Score
from review.rules.shown_fields import Hidden, shown


class FacetValue(NamedTuple):
    """A value of a facet, of `POLARITY` or of `RUBRIC`, the key of a criterion."""

    facet: str
    value: str


class Weights(NamedTuple):
    """The weight of criteria by their value of a facet, as whole numbers. Readers may change it."""

    facet: str
    of: Mapping[str, int]


def gettext_noop(text: str) -> str:
    """The text itself, marked for translation where it is shown; as Django's, without Django."""
    return text


@dataclass(frozen=True, slots=True)
class Rate:
    """How a rate is counted: the weights of verdicts in its numerator and denominator.

    `hits` has the weights of the verdicts in the numerator, `counted` those in the denominator. All
    weights of a proportion are 1; F1 = 2 TP / (2 TP + FP + FN) is also such a rate.
    Criteria that were not judged, or whose verdict is outside `scope` (default: the verdicts in
    `counted`), are excluded. The number of exclusions is always shown beside the rate.

    `unit`: whether criteria are counted, or samples; a sample is a hit if any of its criteria is.
    `arm`: which samples are counted, those with a trap or the controls.
    `only`: restricts the rate to criteria that have this value.
    `weights`: of criteria. Those without a weight are excluded.
    `score`: how the verdicts of a sample become a number, of which the rate is the mean, for a
    benchmark with a rule of its own.
    A rate is omitted for a release that has none of the samples or facet values it needs.
    """

    name: str
    label: str
    rule: str  # one sentence for readers: what is counted, and what is excluded
    hits: Hidden[Mapping[str, int]]
    counted: Hidden[Mapping[str, int]]
    scope: Hidden[frozenset[str]] = frozenset()
    percent: Hidden[bool] = True  # False: shown with three decimals, as papers print F1
    unit: Literal["criterion", "sample"] = "criterion"
    arm: Literal["trap", "control"] = "trap"
    only: Hidden[FacetValue | None] = None
    weights: Hidden[Weights | None] = None
    score: Hidden[Score | None] = None

    @property
    def scope_verdicts(self) -> frozenset[str]:
        """The verdicts that are not excluded from this rate."""
        return self.scope or frozenset(self.counted)

    @property
    def is_proportion(self) -> bool:
        """Whether each criterion or sample that is counted weighs the same."""
        return not self.score and not self.weights and {*self.hits.values(), *self.counted.values()} == {1}

    @property
    def is_share(self) -> bool:
        """Whether it is a plain share of criteria, of which each in scope is counted."""
        return self.is_proportion and self.unit == "criterion" and self.scope_verdicts == frozenset(self.counted)

    @property
    @shown
    def interval(self) -> Literal["wilson", "skew-corrected-t"]:
        """The kind of its interval over clusters."""
        if self.score:
            return "skew-corrected-t"
        return "wilson"

    def as_json(self) -> dict[str, Any]:
        """Everything that defines how the rate is counted."""
        return {
            **{name: getattr(self, name) for name in ("name", "label", "rule", "interval", "unit", "arm", "percent")},
            "hits": dict(self.hits),
            "counted": dict(self.counted),
            "scope": sorted(self.scope),
            "only": self.only and self.only._asdict(),
            "weights": self.weights and {"facet": self.weights.facet, "of": dict(self.weights.of)},
            "score": self.score and {"class": self.score.name(), "fields": asdict(self.score)},  # type: ignore[call-overload]
        }


class _NamesRate(Protocol):
    @property
    def rate(self) -> str: ...


Row = TypeVar("Row", bound=_NamesRate)


def of_rate(rows: Iterable[Row], rate: Rate) -> tuple[Row, ...]:
    """Those of the rows that are about this rate."""
    return tuple(row for row in rows if row.rate == rate.name)


def rate_named(rates: Iterable[Rate], name: str) -> Rate | None:
    """The rate of this name, if it is one of these."""
    for rate in rates:
        if rate.name == name:
            return rate
    return None


def rate_from_json(value: Mapping[str, Any]) -> Rate:
    """The rate that `as_json` describes.

    The class of its score must be known (`Score.known`): nothing is imported by a name in a file.
    """
    only = weights = score = None
    if stored := value["only"]:
        only = FacetValue(**stored)
    if stored := value["weights"]:
        weights = Weights(**stored)
    if stored := value["score"]:
        score = Score.known[stored["class"]](**stored["fields"])
    names = ("name", "label", "rule", "hits", "counted", "percent", "unit", "arm")
    same = {name: value[name] for name in names}
    return Rate(**same, scope=frozenset(value["scope"]), only=only, weights=weights, score=score)
