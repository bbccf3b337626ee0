"""What a benchmark's folder says about measuring models: plain values and functions, run by the evaluation engine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from generation.llm.types import Message, Request


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
    settings win over the endpoint's own.
    """

    messages: tuple[Message, ...]
    variant: str = ""
    about: Mapping[str, str] = field(default_factory=dict)
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class DataSet:
    """What is reported side by side: the samples of one task, put in one variant of the question. `name` is its address."""

    name: str
    label: str
    task: str
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a judge decided on one rubric: one of the protocol's verdicts, and why."""

    verdict: str
    explanation: str


@dataclass(frozen=True, slots=True)
class Rate:
    """How a rate is counted: verdicts in `counted` make the denominator, those in `hits` the numerator, each with its weight.

    So F1 = 2 TP / (2 TP + FP + FN) is such a rate, too; a proportion has no weight but 1.
    Verdicts outside `scope` (the same as `counted` where empty) and whatever was not judged are excluded, and their number is
    always shown beside the rate. `interval`: Wilson's score interval, for a plain proportion; or the bootstrap over samples,
    which takes one verdict a sample.
    """

    name: str
    label: str
    rule: str  # one sentence for readers: what counts, what is excluded
    hits: Mapping[str, int]
    counted: Mapping[str, int]
    scope: frozenset[str] = frozenset()
    interval: Literal["wilson", "bootstrap"] = "wilson"
    percent: bool = True  # shown as a percentage; else as a figure of three decimals, as papers print F1


@dataclass(frozen=True, slots=True)
class FacetView:
    """A facet by which rates are reported. `picture`: 'radar', or 'heat' for a heat map alone.

    `values`: its values with their labels, in the order of the report; empty: the terms of the taxonomy, by code.
    """

    name: str
    label: str
    picture: str = "radar"
    values: tuple[tuple[str, str], ...] = ()


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

    `ask` takes a run's seed, for what is left to chance. Where no judge is needed, `read` reads the verdict on a rubric out of
    the response itself, from sample, rubric, variant, what the response is `about`, and its text; `judge`, `shape` and `decide`
    are None then. Otherwise `judge` builds the request that decides one rubric from sample, rubric, variant and response
    text; a reply must satisfy `shape`, and `decide` reads the verdict out of it. `judge_temperature` is the published setting,
    used where the run does not say otherwise. `whole`: how a run has all rubrics of a sample decided in one call.
    `datasets` are reported side by side, `pooled`: before their pooled rate. The first of `rates` is the one that is drawn and
    sorted by until a reader chooses another.
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
    judge_temperature: float | None = None
    whole: Whole | None = None
