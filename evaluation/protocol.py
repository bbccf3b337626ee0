"""The interface between a benchmark and the evaluation engine: how models are asked and judged.

A benchmark's `protocol.py` offers one `PROTOCOL: Protocol`, composed of the plain values and
functions below.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evaluation.numbers.rates import FacetValue as FacetValue
from evaluation.numbers.rates import Rate as Rate
from evaluation.numbers.rates import Weights as Weights
from evaluation.numbers.rates import gettext_noop
from evaluation.numbers.rules import COMBINED, can_pool
from evaluation.numbers.rules import EXCLUDED as EXCLUDED
from evaluation.numbers.rules import JUDGE_FAILED as JUDGE_FAILED
from evaluation.numbers.rules import JUDGE_FAILURES as JUDGE_FAILURES
from evaluation.numbers.rules import JUDGED as JUDGED
from evaluation.numbers.rules import POLARITY as POLARITY
from evaluation.numbers.rules import RUBRIC as RUBRIC
from evaluation.numbers.rules import UNDECIDED as UNDECIDED
from evaluation.numbers.rules import UNPARSED as UNPARSED
from generation.llm.types import Message, Request

if TYPE_CHECKING:
    from pydantic import BaseModel  # which a check of a bundle does without

    from review.rules.blocks import Block


@dataclass(frozen=True, slots=True)
class Rubric:
    """A released rubric, in the wording that physicians approved."""

    key: str
    criterion: str
    traps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """A released sample. The shape of `content` is up to the benchmark."""

    key: str
    task: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a model under test.

    `variant` distinguishes several questions about one sample.
    `about` holds choices made while building the question, such as which of two answers is shown.
    It is stored with the response.
    `temperature`, `top_p` and `max_tokens` override the settings of the endpoint, unless the run
    uses endpoint settings only (`Run.Sampling`).
    `prompt` names the prompt of this variant within the benchmark, as in `Request.prompt`.
    Estimates assume that requests with the same prompt name are alike.
    `after` is the variant whose answer this question waits for, from the same sample, model and
    repeat. `messages` is then only an example, with a placeholder for that answer;
    `Protocol.ask_on` builds the actual question.
    """

    messages: tuple[Message, ...]
    variant: str = ""
    about: Mapping[str, str] = field(default_factory=dict)
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    prompt: str = ""
    after: str = ""

    @classmethod
    def of(cls, request: Request, variant: str = "", **more: Any) -> "Ask":
        """The question that a request puts; `more`: about, after."""
        sampling = {name: getattr(request, name) for name in ("temperature", "top_p", "max_tokens", "prompt")}
        return cls(request.messages, variant, **sampling, **more)

    @property
    def request(self) -> Request:
        """The request to the model."""
        return Request(
            self.messages,
            prompt=self.prompt,
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_tokens,
        )


@dataclass(frozen=True, slots=True)
class DataSet:
    """The samples of one task, asked in one variant; reports show data sets side by side.

    `name` identifies it in URLs; 'combined' is reserved. No two data sets of a protocol share both
    task and variant.
    `by_default`: whether a launch that names no data sets includes it.
    """

    name: str
    label: str
    task: str
    variant: str = ""
    by_default: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict on one rubric, with an explanation.

    `verdict` is one of the protocol's verdicts and has 1 to 20 characters.
    """

    verdict: str
    explanation: str


@dataclass(frozen=True, slots=True)
class CountingPreset:
    """A named way of counting a run, chosen at launch.

    `metric` is the primary metric; '' selects the first rate. `outcomes` overrides the protocol's
    counting rules, by outcome or judge failure. A judge failure is either excluded or counted as a
    verdict. `judging` overrides how a judge decides on a rubric, by key.
    """

    label: str
    metric: str = ""
    outcomes: Mapping[str, str] = field(default_factory=dict)
    judging: "Mapping[str, Judging]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judging:
    """How a judge model decides on one rubric.

    `judge` builds the request from sample, rubric, variant and response text. The reply must
    satisfy `shape`; `decide` turns it into a decision. Only answers to `variants` are judged on
    the rubric; empty: answers to every variant. `gives`: the verdicts that `decide` may give, the
    categories of the agreement of several judges; empty: `Protocol.judge_verdicts`.
    """

    judge: Callable[[Sample, Rubric, str, str], Request]
    shape: "type[BaseModel]"
    decide: Callable[[Any], Decision]
    variants: frozenset[str] = frozenset()
    gives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreRule:
    """A number that code assigns to a response on a rubric, beside the verdict.

    An example is the similarity of an explanation to the reference. Values range from `low` to
    `high`. `rule` says in one sentence for readers how the score is computed and which responses
    have it; the number of responses without it is reported.
    """

    name: str
    label: str
    rule: str
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True, slots=True)
class FacetView:
    """A facet by which rates are broken down.

    `picture`: 'radar', or 'heat' for a heat map only.
    `values`: its values with their labels, in the order of the report; empty: the terms of the
    taxonomy, by code.
    `rate`: the rate shown until a reader chooses another; '' for the protocol's first.
    `note`: a sentence for readers on what the breakdown counts.
    """

    name: str
    label: str
    picture: str = "radar"
    values: tuple[tuple[str, str], ...] = ()
    rate: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class SampleJudging:
    """How a judge model decides on all rubrics of a sample in one call.

    `judge` builds the request from sample, rubrics, variant and response text. The reply must
    satisfy `shape`; `decide` turns it into (rubric key, decision) pairs. A rubric with no decision,
    or with more than one, stays unjudged.
    """

    judge: Callable[[Sample, Sequence[Rubric], str, str], Request]
    shape: "type[BaseModel]"
    decide: Callable[[Any], Sequence[tuple[str, Decision]]]


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a benchmark is put to models, how answers are judged, and what is reported.

    Questions:
    - `ask`: the questions about a sample, given the seed of the run, from which every random choice
      must be derived. The same sample and seed always give the same questions.
    - `ask_on`: builds a question that waits for an answer (`Ask.after`) from the sample, the
      example, and the texts of all earlier answers, by variant. The same texts must give the same
      question. None means that it cannot be asked with those texts. Then, and if an earlier answer
      failed, the question is not asked: its outcome is 'unasked', counted as `outcomes` says.
    - `ask_model`: the question as a model of this name is asked it, such as in the format that it
      was trained on, from sample and question. Its `about` is stored with the response. It keeps
      variant and `after`.
    - `datasets`: the data sets, in the order in which reports show them.

    Verdicts by code, where no judge is needed:
    - `read`: the verdict on a rubric, from sample, rubric, variant, the response's `about`, and its
      text. The text is '' if the reply was empty. `read` must have a verdict for every text and
      never raise. `judge`, `shape` and `decide` are then None.

    Verdicts by a judge model:
    - `judge`, `shape`, `decide`, `gives`: as in `Judging`.
    - `judge_temperature`: the published temperature of the judge. It applies unless the run sets
      one, and overrides the setting of the judge's endpoint.
    - `read` may decide before the judge is asked; None leaves the rubric to the judge.
    - `by_rubric`: rubrics that are judged differently from all others, by key.
    - `sample_judging`: how to judge all rubrics of a sample in one call, if a run asks for that. It
      cannot be combined with `by_rubric`.
    - `judged_page`: what a judge is given on these rubrics (truth, reference, trap, rule), as
      blocks for the physicians who check it, from sample, rubrics, variant and response text; None:
      the question and the response.
    - `validation_sample`: how many responses physicians check to validate the judge, unless told
      otherwise: a number, or '10%' of each stratum.

    Texts:
    - `composed`: the text shown to judges, `read` and physicians, if that is more than the text of
      the response. Takes sample, variant, text, and the texts of the earlier answers; never raises.
    - `parts`: splits such a text into (label, text) pairs, which pages show side by side.
    - `reference`: the text of the correct answer to a sample.

    Counting:
    - `outcomes`: how a response with a given outcome is counted, unless as `JUDGED`: `EXCLUDED`, or
      the verdict assigned to each of its rubrics. A response without any text is never judged.
    - `presets`: named ways of counting, the default first; empty: there is only one.
    - `rates`: the first is shown, and sorted by, until a reader chooses another.
    - `pooled`: whether reports also show rates pooled over all data sets; see `pools`.
    - `contrasts`: (data set, other data set, label): the rate of the first minus that of the other.
    - `rivals`: labels of contrasts with the same baseline. The one with the largest gain names the
      bottleneck of the data set.
    - `facets`: the breakdowns of the rates.
    - `verdicts`: the words shown for verdicts; others are shown as they are.
    - `wrong`: the verdicts that count against a model, and are marked so; None: the `hits` of the
      first rate.
    - `chosen_by`: the facet that names the models whose failures decided which samples were chosen;
      '' for none. For samples made here, see `ModelRole.selects`.
    - `policies`: names of the fixed texts (`evaluation.policies`) that a run may have judged as if
      a model had given them, where a judge alone decides on the answers to single questions.

    Scores:
    - `scores`: numbers beside the verdicts, reported as means.
    - `score`: computes them, from what `read` is given and the verdict ('' if a judge decides
      later), as name -> number, for those scores that the response has. Scores are stored with the
      response, so that reports only count.
    - `prepare`: loads what `read` and `score` need before a worker starts; importing some libraries
      takes seconds.

    Training data:
    - `example`: the question about a sample and the correct answer, for training a model.
    - `kept_together`: names of what a sample was derived from, beside its source record. Samples
      that share a name never end up in different splits of a training set.
    """

    label: str
    datasets: tuple[DataSet, ...]
    ask: Callable[[Sample, int], Sequence[Ask]]
    rates: tuple[Rate, ...]
    facets: tuple[FacetView, ...]
    judge: Callable[[Sample, Rubric, str, str], Request] | None = None
    shape: "type[BaseModel] | None" = None
    decide: Callable[[Any], Decision] | None = None
    gives: tuple[str, ...] = ()
    read: Callable[[Sample, Rubric, str, Mapping[str, str], str], Decision | None] | None = None
    pooled: bool = True
    contrasts: tuple[tuple[str, str, str], ...] = ()
    rivals: frozenset[str] = frozenset()
    verdicts: Mapping[str, str] = field(default_factory=dict)
    outcomes: Mapping[str, str] = field(default_factory=dict)
    presets: Mapping[str, CountingPreset] = field(default_factory=dict)
    wrong: frozenset[str] | None = None
    judge_temperature: float | None = None
    validation_sample: str = "100"
    judged_page: "Callable[[Sample, Sequence[Rubric], str, str], Sequence[Block]] | None" = None
    sample_judging: SampleJudging | None = None
    by_rubric: Mapping[str, Judging] = field(default_factory=dict)
    ask_on: Callable[[Sample, Ask, Mapping[str, str]], Ask | None] | None = None
    ask_model: Callable[[Sample, Ask, str], Ask] | None = None
    composed: Callable[[Sample, str, str, Mapping[str, str]], str] | None = None
    parts: Callable[[str], Sequence[tuple[str, str]]] | None = None
    reference: Callable[[Sample], str] | None = None
    scores: tuple[ScoreRule, ...] = ()
    score: Callable[[Sample, Rubric, str, Mapping[str, str], str, str], Mapping[str, float]] | None = None
    prepare: Callable[[], object] | None = None
    example: Callable[[Sample], Sequence[Message]] | None = None
    kept_together: Callable[[Sample], Sequence[str]] | None = None
    chosen_by: str = ""
    policies: tuple[str, ...] = ()

    def pools(self, datasets: Iterable[DataSet]) -> bool:
        """Whether rates are also pooled over these data sets."""
        return self.pooled and can_pool([dataset.task for dataset in datasets])

    def columns(self, datasets: Sequence[DataSet]) -> tuple[tuple[str, str], ...]:
        """Name and label of each of these data sets, then of all together if they are pooled."""
        columns = [(dataset.name, dataset.label) for dataset in datasets]
        if self.pools(datasets):
            columns.append((COMBINED, gettext_noop("Combined")))
        return tuple(columns)

    @property
    def first_of_task(self) -> dict[str, DataSet]:
        """The first data set of each task, to which verdicts that were made elsewhere belong."""
        first: dict[str, DataSet] = {}
        for dataset in self.datasets:
            first.setdefault(dataset.task, dataset)
        return first

    def whole(self, shown: Collection[str]) -> str:
        """The data set that stands for the whole benchmark: all pooled, or its only one.

        "" if `shown` has neither: one data set of several is not the whole.
        """
        if COMBINED in shown:
            return COMBINED
        only = [dataset.name for dataset in self.datasets]
        if len(only) == 1 and only[0] in shown:
            return only[0]
        return ""

    def judging(self, rubric: str, preset: str = "") -> Judging | None:
        """How a judge decides on the rubric with this key; None if only code reads answers.

        `preset`: the counting preset of the run, which may have its own.
        """
        if preset in self.presets and rubric in self.presets[preset].judging:
            return self.presets[preset].judging[rubric]
        if rubric in self.by_rubric:
            return self.by_rubric[rubric]
        if self.judge is None or self.shape is None or self.decide is None:
            return None
        return Judging(self.judge, self.shape, self.decide, gives=self.gives)

    def rubric_applies(self, rubric: str, variant: str) -> bool:
        """Whether answers to this variant are judged on the rubric with this key."""
        judging = self.by_rubric.get(rubric)
        return judging is None or not judging.variants or variant in judging.variants

    def verdicts_given(self, rubrics: Iterable[str], preset: str = "") -> tuple[str, ...]:
        """The verdicts that a judge may give on rubrics with these keys, in their order."""
        given = set[str]()
        for rubric in rubrics:
            judging = self.judging(rubric, preset)
            if judging and judging.gives:
                given.update(judging.gives)
            else:
                given.update(self.judge_verdicts)
        return tuple(verdict for verdict in self.known_verdicts if verdict in given)

    @property
    def known_verdicts(self) -> tuple[str, ...]:
        """All verdicts: those of `verdicts` in their order, then any others named by rates."""
        named: set[str] = set()
        for rate in self.rates:
            named.update(rate.hits, rate.counted, rate.scope)
        return (*self.verdicts, *sorted(named.difference(self.verdicts)))

    def is_lower_better(self, rate: Rate) -> bool:
        """Whether a low value of the rate speaks for a model."""
        return set(rate.hits) <= self.failing_verdicts

    @property
    def rubrics_with_rates(self) -> set[str]:
        """The keys of the rubrics that have a rate of their own."""
        keys = set()
        for rate in self.rates:
            if rate.only and rate.only.facet == RUBRIC:
                keys.add(rate.only.value)
        return keys

    @property
    def variants_of(self) -> dict[str, list[str]]:
        """Key of a rubric -> the variants whose answers are judged on it; others: on all."""
        variants_of = {}
        for key, judging in self.by_rubric.items():
            if judging.variants:
                variants_of[key] = sorted(judging.variants)
        return variants_of

    @property
    def judge_verdicts(self) -> frozenset[str]:
        """The verdicts a judge can give.

        Those in scope of a rate, except those that stand for an outcome or a judge failure.
        """
        verdicts: set[str] = set()
        for rate in self.rates:
            verdicts.update(rate.scope_verdicts)
        verdicts.difference_update(self.outcomes.values())
        for preset in self.presets.values():
            verdicts.difference_update(preset.outcomes.values())
        return frozenset(verdicts)

    @property
    def failing_verdicts(self) -> frozenset[str]:
        """The verdicts that count against a model."""
        if self.wrong is None:
            return frozenset(self.rates[0].hits)
        return self.wrong
