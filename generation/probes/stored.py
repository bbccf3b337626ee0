"""Reports of probes as they are stored and shown."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, TypedDict

from pydantic import TypeAdapter

from generation.probes.labels import LEFT_OUT, probe_label, sentence
from generation.probes.measuring import GroupResult, ProbeReport, ProbeResult, TellingWord
from generation.probes.reasons import NoNumber

MIN_PUBLIC = 2  # answers that all may see, for a word to be shown to all


class ShownProbe(TypedDict):
    """What one probe tells. `accuracy`: of answers, the mean over right and wrong ones; of options,
    the share answered correctly. `f1`: of the wrong answers. `low`, `high`: 95 % interval, by
    clusters. `shuffled`: the accuracy with shuffled labels. `pairs`: the share of pairs of which it
    prefers the right answer. `tells`: above chance, all probes together. `why`: why there is no
    number.
    """

    name: str
    why: str
    accuracy: float | None
    f1: float | None
    low: float | None
    high: float | None
    shuffled: float | None
    pairs: float | None
    n: int
    tells: bool | None


class ShownGroup(TypedDict):
    """What a probe tells of the cases with one value of a facet."""

    probe: str
    facet: str
    value: str
    why: str
    accuracy: float | None
    f1: float | None
    low: float | None
    high: float | None
    n: int


class ShownWord(TypedDict):
    """A word that tells. `weight` above 0: it speaks for 'wrong'. `wrong`, `right`: answers with
    it; `cases`: some.
    """

    word: str
    weight: float
    wrong: int
    right: int
    cases: list[str]


class TellingSample(TypedDict):
    """A case that its words give away; `margin`: how clearly."""

    key: str
    margin: float


class ShownProbes(TypedDict):
    """Whether right and wrong answers of a set can be told apart without being read.

    `tells`: whether any probe tells; null without a number, then `why` is a sentence. `chance`: the
    accuracy of a guess. `left_out`: cases not counted, by reason.
    """

    cases: int
    answers: int
    clusters: int
    options: bool
    chance: float | None
    left_out: dict[str, int]
    why: str
    strongest: str
    tells: bool | None
    probes: list[ShownProbe]
    groups: list[ShownGroup]
    words: list[ShownWord]
    samples: list[TellingSample]


@cache
def _adapter() -> TypeAdapter[ProbeReport]:
    return TypeAdapter(ProbeReport)


def to_json(report: ProbeReport) -> dict[str, Any]:
    """The report as JSON, to be stored; held-out keys are in it."""
    stored: dict[str, Any] = _adapter().dump_python(report, mode="json")
    return stored


def from_json(stored: Mapping[str, Any]) -> ProbeReport:
    """The report that `to_json` stored."""
    return _adapter().validate_python(stored)


def as_shown(report: ProbeReport, *, with_held_out: bool) -> ShownProbes:
    """The report as API, commands and exports show it: reasons as sentences.

    Without held-out samples, words are shown that occur in `MIN_PUBLIC` others.
    """
    words: list[ShownWord] = []
    samples: list[TellingSample] = []
    for word in report.words:
        if with_held_out or word.public >= MIN_PUBLIC:
            words.append(_word(word, with_held_out=with_held_out))
    for case in report.telling:
        if with_held_out or not case.held_out:
            samples.append({"key": case.key, "margin": case.margin})
    return {
        "cases": report.cases,
        "answers": report.answers,
        "clusters": report.clusters,
        "options": report.options,
        "chance": report.chance,
        "left_out": dict(report.left_out),
        "why": _why(report.reason),
        "tells": report.tells,
        "strongest": report.strongest,
        "probes": [_result(result) for result in report.probes],
        "groups": [_result(result) for result in report.groups],
        "words": words,
        "samples": samples,
    }


def _why(reason: NoNumber | None) -> str:
    if reason is not None:
        return sentence(reason)
    return ""


def _result(result: ProbeResult | GroupResult) -> Any:
    values = asdict(result)
    values.pop("reason")
    return {**values, "why": _why(result.reason)}


def _word(word: TellingWord, *, with_held_out: bool) -> ShownWord:
    cases = [key for key, held_out in word.cases if with_held_out or not held_out]
    return {"word": word.word, "weight": word.weight, "wrong": word.wrong, "right": word.right, "cases": cases}


def in_sentences(report: ProbeReport) -> list[str]:
    """What a data card says of the report."""
    if report.reason is not None:
        return [f"Whether its answers can be told apart without being read is not known. {sentence(report.reason)}"]
    [best] = [result for result in report.probes if result.name == report.strongest]
    if report.options:
        counted = f"{report.cases} questions with options"
    else:
        counted = f"{report.answers} answers"
    figures = f"{best.accuracy:.3f} (95% interval {best.low:.3f} to {best.high:.3f})"
    shuffled = f"with shuffled labels {best.shuffled:.3f}"
    said = [
        f"Of {counted}, a rule that does not read ({probe_label(best.name).lower()}) gets {figures} right;"
        f" a guess {report.chance:.3f}, {shuffled}."
    ]
    if report.tells:
        said.append("Right and wrong answers can be told apart without being read: compare models with these figures.")
    else:
        said.append("No probe tells right from wrong answers better than chance (all probes together, 5 %).")
    for name, count in report.left_out.items():
        said.append(f"Not counted: {count} {LEFT_OUT.get(name, name)}.")
    return said
