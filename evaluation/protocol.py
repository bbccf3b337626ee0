"""What a benchmark's folder says about measuring models: plain values and functions, run by the evaluation engine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    """One question to a model under test. `variant` tells several questions about one sample apart."""

    messages: tuple[Message, ...]
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a judge decided on one rubric: one of the protocol's verdicts, and why."""

    verdict: str
    explanation: str


@dataclass(frozen=True, slots=True)
class Rate:
    """How a rate is counted: verdicts in `counted` make the denominator, those in `hits` the numerator.

    Everything else (unjudged) is excluded, and its number is always shown beside the rate.
    """

    name: str
    label: str
    rule: str  # one sentence for readers: what counts, what is excluded
    hits: frozenset[str]
    counted: frozenset[str]


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

    `judge` builds the request that decides one rubric from sample, rubric, variant and response text; a reply must
    satisfy `shape`, and `decide` reads the verdict out of it. `judge_temperature` is the published setting, used where
    the run does not say otherwise. `whole`: how a run that is set so has all rubrics of a sample decided in one call.
    `datasets` are the tasks reported side by side, before their pooled rate.
    """

    label: str
    datasets: tuple[tuple[str, str], ...]  # (task, label)
    ask: Callable[[Sample], Sequence[Ask]]
    judge: Callable[[Sample, Rubric, str, str], Request]
    shape: type[BaseModel]
    decide: Callable[[Any], Decision]
    rate: Rate
    facets: tuple[FacetView, ...]
    judge_temperature: float | None = None
    whole: Whole | None = None
