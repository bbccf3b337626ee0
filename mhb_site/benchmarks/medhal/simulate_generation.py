"""MedHal's simulated models for generation: a generator of statements and a filter.

The generator writes from plain templates and does not know whether an answer or a value is right.
It only knows that a sentence becomes wrong when it alters it, and marks it (`WRONG_MARK`) for the
detectors. The filter knows the truth if the prompt gives it, and errs at the rate `FILTER_ERROR`.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from generation.llm.simulator.script import Asked, PromptTable, chance
from mhb_site.benchmarks.medhal.pair_steps import SETS
from mhb_site.benchmarks.medhal.simulate_detection import WRONG_MARK

GENERATOR, FILTER = "sim-generator", "sim-critic"
FILTER_ERROR = 0.03  # the share of statements on which the filter gives the opposite verdict
UNCLEAR = 0.01  # the share of its replies that are neither YES nor NO
SUPPORTED = 0.6  # the share of a statement's words in a text from which the filter accepts it

_WORD = re.compile(r"[^\W_]{2,}")


_ASKED_FOR = re.compile(r"(?:which|what)(?: one)?(?: of the following)? is (.+)", re.IGNORECASE | re.DOTALL)


def _write(name: str, asked: Asked) -> str:
    data = asked.data
    match name:
        case "state_qa":
            question = data["QUESTION"].rstrip("?:. ")
            asked_for = _ASKED_FOR.match(question)
            if asked_for:
                return f"{data['ANSWER']} is {asked_for[1]}."
            return f"{data['ANSWER']} is the answer to this: {question}."
        case "state_value":
            of = ""
            if data["ELEMENT"]:
                of = f" of {data['ELEMENT']}"
            return f"The patient's {data['CONCEPT']}{of} is {data['VALUE'].rstrip('.')}."
    # The mark takes the place of as many words, so that neither length nor punctuation gives it away.
    words, mark = data["SENTENCE"].rstrip(".!? ").split(), WRONG_MARK.split()
    kept = words
    if len(words) > 2 * len(mark):
        kept = words[: -len(mark)]
    return f"{' '.join((*kept, *mark))}."


def _judge(name: str, asked: Asked) -> str:
    data, seed = asked.data, asked.seed
    request = (name, *map(str, data.values()))
    if chance(seed, "unclear", *request) < UNCLEAR:
        return "It depends."
    errs = chance(seed, "error", *request) < FILTER_ERROR
    if _is_true(name, data) != errs:
        return "YES"
    return "NO"


def _is_true(name: str, data: Mapping[str, Any]) -> bool:
    match name:
        case "filter_qa":
            return str(data["STATEMENT"]).startswith(f"{data['ANSWER']} is ")
        case "filter_summary":
            return WRONG_MARK not in data["REWRITTEN"]
    text_words = set(_WORD.findall(str(data["TEXT"]).casefold()))
    statement = str(data["STATEMENT"])  # of the generator's, the value; else the whole
    claim = statement
    if statement.startswith("The patient's "):
        claim = statement.rpartition(" is ")[2]
    claim_words = _WORD.findall(claim.casefold())
    return bool(claim_words) and sum(word in text_words for word in claim_words) / len(claim_words) >= SUPPORTED


def _table() -> PromptTable:
    table = {}
    for prompts in SETS.values():
        for name, prompt in prompts.items():
            answer = _write
            if name.startswith("filter"):
                answer = _judge
            table[prompt.heading] = ((GENERATOR, FILTER), partial(answer, name))
    return PromptTable(table)


SCRIPT = _table()
