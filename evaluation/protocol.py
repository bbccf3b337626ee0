"""What a benchmark's folder says about measuring models: plain values and functions, run by the evaluation engine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from generation.llm.types import Message, Request

JUDGED, EXCLUDED = "judged", "excluded"  # how an outcome is counted: as what was said is judged, or not at all


@dataclass(frozen=True, slots=True)
class Rubric:
    """A released rubric, in the wording physicians approved."""

    key: str
    criterion: str
    traps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """A released sample; `content` is the benchmark's own."""

    key: str
    task: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a model under test. `variant` tells several questions about one sample apart.

    `about`: what was decided in putting it and is kept with the response (which of two answers is shown). The sampling
    settings win over the endpoint's own, unless the run is to ask with those (`Run.Sampling`).
    `prompt` names the prompt of this variant, of this benchmark alone, as `Request.prompt` does: an estimate takes what
    was asked under one name to be alike.
    """

    messages: tuple[Message, ...]
    variant: str = ""
    about: Mapping[str, str] = field(default_factory=dict)
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    prompt: str = ""

    @property
    def request(self) -> Request:
        """What the model is sent."""
        return Request(
            self.messages,
            prompt=self.prompt,
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_tokens,
        )


@dataclass(frozen=True, slots=True)
class DataSet:
    """What is reported side by side: the samples of one task, put in one variant of the question.

    `name` is its address ('combined' is taken). No two data sets of a protocol share both task and variant.
    """

    name: str
    label: str
    task: str
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided on one rubric: one of the protocol's verdicts (1 to 20 characters), and why."""

    verdict: str
    explanation: str


@dataclass(frozen=True, slots=True)
class Rate:
    """How a rate is counted: verdicts in `counted` make the denominator, those in `hits` the numerator, each with its weight.

    So F1 = 2 TP / (2 TP + FP + FN) is such a rate, too; a proportion has no weight but 1.
    Verdicts outside `scope` (the same as `counted` where empty) and whatever was not judged are excluded, and their number is
    always shown beside the rate. `interval`: Wilson's score interval over samples, for a proportion; or the bootstrap over
    samples, for what is no mean.

    `unit`: what is counted, each criterion, or each sample, which is a hit where any criterion of it is. `arm`: on which
    samples; `polarity`: on which criteria, '' for all. `weights`: by value of the facet `weighted`, where criteria weigh
    differently: whole numbers, which a reader may change; criteria without a value are excluded. `points`: the facet whose
    values are numbers of points, some below 0; the rate is the mean over samples of the points of the criteria whose verdict is
    in `hits`, over all positive points of the sample, cut off at 0 and 1. A sample with a criterion that has points and no
    verdict is excluded. Such a rate is left out where a release has no such samples or values.
    """

    name: str
    label: str
    rule: str  # one sentence for readers: what counts, what is excluded
    hits: Mapping[str, int]
    counted: Mapping[str, int]
    scope: frozenset[str] = frozenset()
    interval: Literal["wilson", "bootstrap"] = "wilson"
    percent: bool = True  # shown as a percentage; else as a figure of three decimals, as papers print F1
    unit: Literal["criterion", "sample"] = "criterion"
    arm: Literal["trap", "control"] = "trap"
    polarity: str = ""
    weighted: str = ""
    weights: Mapping[str, int] = field(default_factory=dict)
    points: str = ""

    @property
    def within(self) -> frozenset[str]:
        """The verdicts that it does not leave out."""
        return self.scope or frozenset(self.counted)


@dataclass(frozen=True, slots=True)
class FacetView:
    """A facet by which rates are reported. `picture`: 'radar', or 'heat' for a heat map alone.

    `values`: its values with their labels, in the order of the report; empty: the terms of the taxonomy, by code.
    `rate`: the one that is drawn under it until a reader chooses another, where it is not the protocol's first. `note`: a
    sentence for readers on what is counted under it.
    """

    name: str
    label: str
    picture: str = "radar"
    values: tuple[tuple[str, str], ...] = ()
    rate: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Whole:
    """How a judge decides on all rubrics of a sample in one call.

    `judge` builds the request from sample, rubrics, variant and response text; `decide` reads (rubric key, decision)
    pairs out of a reply of `shape`. A rubric on which it decides not at all or several times stays unjudged.
    """

    judge: Callable[[Sample, Sequence[Rubric], str, str], Request]
    shape: type[BaseModel]
    decide: Callable[[Any], Sequence[tuple[str, Decision]]]


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a benchmark is put to models.

    `ask` takes a run's seed, for what is left to chance: the same sample and seed give the same questions, always.

    Where no judge is needed, `read` reads the verdict on a rubric out of the response itself, from sample, rubric, variant,
    what the response is `about`, and its text; `judge`, `shape` and `decide` are None then. It is handed whatever a model said,
    '' where a reply came and was empty, so it has a verdict for everything and never raises.

    Otherwise `judge` builds the request that decides one rubric from sample, rubric, variant and response text; a reply must
    satisfy `shape`, and `decide` reads the verdict out of it. `judge_temperature` is the published setting, used where the run
    does not say otherwise, whatever the judge's endpoint has.
    `whole`: how a run has all rubrics of a sample decided in one call.

    `outcomes`: how an outcome of responses is counted, where not as `JUDGED`: `EXCLUDED`, or the verdict that every rubric of
    such a response is given. A response without a word is never judged.

    `datasets` are reported side by side, `pooled`: before their pooled rate. The first of `rates` is the one that is drawn and
    sorted by until a reader chooses another.
    `contrasts`: (data set, other data set, label), whose rates are set against each other, the first minus the other.
    `verdicts`: the words for verdicts, where they are not the verdicts themselves. `wrong`: those that speak against a model,
    and are marked so; None: what the first rate counts as hits.
    """

    label: str
    datasets: tuple[DataSet, ...]
    ask: Callable[[Sample, int], Sequence[Ask]]
    rates: tuple[Rate, ...]
    facets: tuple[FacetView, ...]
    judge: Callable[[Sample, Rubric, str, str], Request] | None = None
    shape: type[BaseModel] | None = None
    decide: Callable[[Any], Decision] | None = None
    read: Callable[[Sample, Rubric, str, Mapping[str, str], str], Decision] | None = None
    pooled: bool = True
    contrasts: tuple[tuple[str, str, str], ...] = ()
    verdicts: Mapping[str, str] = field(default_factory=dict)
    outcomes: Mapping[str, str] = field(default_factory=dict)
    wrong: frozenset[str] | None = None
    judge_temperature: float | None = None
    whole: Whole | None = None

    @property
    def known(self) -> tuple[str, ...]:
        """The verdicts there are: those with a word of their own in their order, then what rates name besides."""
        named = {verdict for rate in self.rates for verdict in (*rate.hits, *rate.counted, *rate.scope)}
        return (*self.verdicts, *sorted(named.difference(self.verdicts)))

    def is_lower_better(self, rate: Rate) -> bool:
        """Whether a model does well where this rate is low."""
        return set(rate.hits) <= self.speaks_against

    @property
    def speaks_against(self) -> frozenset[str]:
        """The verdicts that speak against a model."""
        return frozenset(self.rates[0].hits) if self.wrong is None else self.wrong
