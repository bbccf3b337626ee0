"""MedHal's simulated models of the making side: a generator that writes statements, and a filter that judges them.

The generator does what it is asked in plain templates. It does not know whether an answer or a value is right; only of a
sentence that it is to alter does it know that the result is wrong, and marks it (`PLANTED`), so that detectors can tell. The
filter knows the truth where the prompt gives it, and is wrong as often as `FILTER_ERROR` says.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from generation.llm.fencing import read_data
from generation.llm.simulator.script import chance
from generation.llm.types import Message
from mhb_site.benchmarks.medhal.pair_steps import PROMPTS
from mhb_site.benchmarks.medhal.simulate_detection import PLANTED

GENERATOR, FILTER = "sim-generator", "sim-critic"
FILTER_ERROR = 0.03  # the share of statements on which the filter says the opposite of what is so
UNCLEAR = 0.01  # the share of its replies that are neither YES nor NO
SUPPORTED = 0.6  # the share of a statement's words from which on the filter finds them in a text

_FIRST = {prompts[name].turns[0][1].partition("\n")[0]: name for prompts in PROMPTS.values() for name in prompts}
_WORD = re.compile(r"[^\W_]{2,}")


def pair_kept(statements: int = 2) -> float:
    """The share of pairs of which the filter judges so many statements that come through it."""
    return float(((1 - UNCLEAR) * (1 - FILTER_ERROR)) ** statements)


def reply(model: str, messages: Sequence[Message], seed: int) -> str | None:
    """What a model says to a prompt of the making side, known by its first line; None: not ours."""
    name = _FIRST.get(messages[0].text.partition("\n")[0])
    if name is None or model not in (GENERATOR, FILTER):
        return None
    data = read_data(messages[-1].text)
    return _judged(name, data, seed) if name.startswith("filter") else _written(name, data)


def _written(name: str, data: Mapping[str, Any]) -> str:
    match name:
        case "state_qa":
            return f"{data['ANSWER']} is the answer to this: {data['QUESTION'].rstrip('?:. ')}."
        case "state_value":
            of = f" of {data['ELEMENT']}" if data["ELEMENT"] else ""
            return f"The patient's {data['CONCEPT']}{of} is {data['VALUE'].rstrip('.')}."
    sentence = data["SENTENCE"]
    body = sentence.rstrip(".!? ")
    return f"{body}, {PLANTED}{sentence[len(body) :] or '.'}"


def _judged(name: str, data: Mapping[str, Any], seed: int) -> str:
    asked = (name, *map(str, data.values()))
    if chance(seed, "unclear", *asked) < UNCLEAR:
        return "It depends."
    wrong = chance(seed, "error", *asked) < FILTER_ERROR
    return "YES" if _is_true(name, data) != wrong else "NO"


def _is_true(name: str, data: Mapping[str, Any]) -> bool:
    match name:
        case "filter_qa":
            return str(data["STATEMENT"]).startswith(f"{data['ANSWER']} is the answer")
        case "filter_summary":
            return PLANTED not in data["REWRITTEN"]
    there = set(_WORD.findall(str(data["TEXT"]).casefold()))
    said = _WORD.findall(_claim(str(data["STATEMENT"])).casefold())
    return bool(said) and sum(word in there for word in said) / len(said) >= SUPPORTED


def _claim(statement: str) -> str:
    """The value in a statement of the generator's; all of any other."""
    return statement.rpartition(" is ")[2] if statement.startswith("The patient's ") else statement
