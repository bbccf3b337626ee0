"""Has a benchmark's code read the answers of models: bounded, apart, outside of transactions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from evaluation.models import Response
from evaluation.protocol import Ask, Decision, Protocol, Rubric, Sample
from evaluation.runs import queries
from evaluation.runs.rows import chains
from generation.engine.apart import Apart
from generation.llm.parsing import readable
from generation.models import ReleasedRubric

DIGITS = 6  # decimals of a stored score, far finer than its interval
Rubrics = Sequence[tuple[int, Rubric]]  # (id, rubric)


@dataclass(frozen=True, slots=True)
class ResponseReading:
    """What code found in an answer on one rubric. `decision`: None leaves it to the judge."""

    decision: Decision | None = None
    scores: Mapping[str, float] = field(default_factory=dict)


class Reader:
    """Runs the functions of a protocol that look at models' answers.

    All raise TooSlow if the protocol's code takes too long, and BrokenReply for too long a text.
    """

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._apart = Apart(protocol)

    async def readings(
        self, row: Response, text: str, rubrics: Rubrics, earlier: chains.EarlierAnswers
    ) -> dict[int, ResponseReading]:
        """What code reads in an answer, by the id of the rubric; empty if only a judge decides."""
        if self._protocol.read is None and self._protocol.score is None:
            return {}
        sample, text = queries.sample_value(row.sample), readable(text)
        found: dict[int, ResponseReading] = await self._apart(
            _read, sample, row.variant, row.about, text, earlier or {}, rubrics
        )
        return found

    async def judged_text(self, sample: Sample, variant: str, text: str, earlier: chains.EarlierAnswers) -> str:
        """The text that a judge is shown of an answer."""
        if self._protocol.composed is None:
            return text
        composed: str = await self._apart(_compose, sample, variant, text, earlier or {})
        return composed

    async def question(self, row: Response, seed: int, model: str, earlier: chains.EarlierAnswers) -> Ask | None:
        """The question of a row, given its earlier answers; None if it cannot be asked."""
        ask = queries.question(self._protocol, row.sample, seed, row.variant, model)
        if not ask.after or self._protocol.ask_on is None:
            return ask
        if earlier is None:
            return None
        built: Ask | None = await self._apart(_ask_on, queries.sample_value(row.sample), ask, earlier)
        return built

    def close(self) -> None:
        """End what the reader has started."""
        self._apart.close()


def rubrics_of(samples: Iterable[int]) -> dict[int, list[tuple[int, Rubric]]]:
    """The rubrics of each of these samples, by its id."""
    rubrics: dict[int, list[tuple[int, Rubric]]] = {sample: [] for sample in samples}
    released = ReleasedRubric.objects.filter(sample__in=rubrics).order_by("pk")
    for sample, pk, key, criterion, traps in released.values_list("sample_id", "pk", "key", "criterion", "traps"):
        rubrics[sample].append((pk, Rubric(key, criterion, tuple(traps))))
    return rubrics


def applicable(protocol: Protocol, rubrics: Rubrics, variant: str) -> Rubrics:
    """Those of the rubrics on which answers to this variant are judged."""
    return [(pk, rubric) for pk, rubric in rubrics if protocol.rubric_applies(rubric.key, variant)]


def _compose(protocol: Protocol, sample: Sample, variant: str, text: str, earlier: Mapping[str, str]) -> str:
    if protocol.composed is None:
        return text
    return protocol.composed(sample, variant, text, earlier)


def _ask_on(protocol: Protocol, sample: Sample, ask: Ask, earlier: Mapping[str, str]) -> Ask | None:
    if protocol.ask_on is None:
        return ask
    return protocol.ask_on(sample, ask, earlier)


def _read(
    protocol: Protocol,
    sample: Sample,
    variant: str,
    about: Mapping[str, str],
    text: str,
    earlier: Mapping[str, str],
    rubrics: Rubrics,
) -> dict[int, ResponseReading]:
    text = _compose(protocol, sample, variant, text, earlier)
    readings = {}
    for pk, rubric in applicable(protocol, rubrics, variant):
        decision, verdict = None, ""
        if protocol.read is not None:
            decision = protocol.read(sample, rubric, variant, about, text)
        if decision:
            verdict = decision.verdict
        scores: Mapping[str, float] = {}
        if protocol.score is not None:
            scores = protocol.score(sample, rubric, variant, about, text, verdict)
        readings[pk] = ResponseReading(decision, _in_range(protocol, scores))
    return readings


def _in_range(protocol: Protocol, scores: Mapping[str, float]) -> dict[str, float]:
    """The scores by name, in the protocol's order. Values out of range count as missing."""
    in_range = {}
    for rule in protocol.scores:
        number = scores.get(rule.name)
        if number is not None and isfinite(number) and rule.low <= round(number, DIGITS) <= rule.high:
            in_range[rule.name] = number
    return in_range


def format_score(number: float) -> str:
    """The stored form of a score."""
    return f"{number:.{DIGITS}f}".rstrip("0").rstrip(".")
