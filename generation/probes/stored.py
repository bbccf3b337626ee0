"""Reports of probes as they are stored and shown."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from generation.probes.labels import LEFT_OUT, probe_label, sentence
from generation.probes.measuring import GroupResult, ProbeReport, ProbeResult, TellingWord
from generation.probes.reasons import NoNumber

MIN_PUBLIC = 2  # answers that all may see, for a word to be shown to all


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


def as_shown(report: ProbeReport, *, with_held_out: bool) -> dict[str, Any]:
    """The report as API, commands and exports show it: reasons as sentences.

    {cases, answers, clusters, options, chance, left_out, why, tells, strongest, probes: [{name,
    accuracy, f1, low, high, n, shuffled, pairs, tells, why}], groups: [{probe, facet, value, n,
    accuracy, f1, low, high, why}], words: [{word, weight, wrong, right, cases: [key]}], samples:
    [{key, margin}]}. Without held-out samples, words are shown that occur in `MIN_PUBLIC` others.
    """
    words, samples = [], []
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


def _result(result: ProbeResult | GroupResult) -> dict[str, Any]:
    values = asdict(result)
    values.pop("reason")
    return {**values, "why": _why(result.reason)}


def _word(word: TellingWord, *, with_held_out: bool) -> dict[str, Any]:
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
