"""The probes: rules that do not read, each as data. None of them asks a model.

A probe sees some features of an answer and nothing else. A model that is right about what they
tell has not shown that it reads: Gururangan et al. (2018), Annotation Artifacts in Natural Language
Inference Data, NAACL; Poliak et al. (2018), Hypothesis Only Baselines in Natural Language
Inference, *SEM.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log

from generation.probes.texts import is_unspaced, tokens
from generation.recipes.labelled import LabelledAnswers

# What a probe needs of the cases.
OPTIONS, ANSWERS, QUESTION, UNPAIRED = "options", "answers", "question", "unpaired"
CONTEXTS = ("source", "visual", "knowledge", "reasoning")  # that a benchmark may give with the question
# What a probe sees of an answer.
POSITION, LENGTH, LONGEST, IN_QUESTION = "position", "length", "longest", "in-question"
IN_CONTEXT = {name: f"in-{name}" for name in CONTEXTS}
DIGITS, HEDGES, WORD_LENGTH = "digits", "hedges", "word-length"
WORDS, FEW_WORDS, QUESTION_WORDS = "words", "few-words", "question-words"


@dataclass(frozen=True, slots=True)
class Probe:
    """A rule that does not read: what it sees (`features`), and what the cases must have (`needs`).

    Without features it gives every answer the same label. With one that is a rule in itself
    (`LONGEST`) nothing is learned.
    """

    name: str
    features: tuple[str, ...]
    needs: tuple[str, ...] = ()

    @property
    def learns(self) -> bool:
        return bool(self.features) and self.features != (LONGEST,)


PROBES = (
    Probe("constant", (), (ANSWERS,)),
    Probe("position", (POSITION,), (OPTIONS,)),
    Probe("longest", (LONGEST,), (OPTIONS,)),
    Probe("length", (LENGTH,)),
    *(Probe(f"overlap_{name}", (IN_CONTEXT[name],), (name,)) for name in CONTEXTS),
    Probe("overlap_question", (IN_QUESTION,), (QUESTION,)),
    Probe("surface", (LENGTH, IN_CONTEXT["source"], IN_QUESTION, DIGITS, HEDGES, WORD_LENGTH)),
    Probe("few_words", (FEW_WORDS,)),
    Probe("words", (WORDS,)),
    Probe("question", (QUESTION_WORDS,), (QUESTION, UNPAIRED)),
)

_HEDGES = frozenset(
    {
        *("may", "might", "could", "can", "seem", "seems", "appear", "appears", "perhaps", "although", "however"),
        *("suggest", "suggests", "suggested", "suggesting", "possible", "possibly", "potential", "potentially"),
        *("probable", "probably", "likely", "unlikely", "further", "unclear", "need", "needed", "whether"),
        *("可能", "也许", "或许", "似乎", "提示", "建议", "尚不", "不明", "需要"),
    }
)
_WIDE_HEDGES = re.compile("|".join(sorted(hedge for hedge in _HEDGES if not hedge.isascii())))


@dataclass(frozen=True, slots=True)
class Reading:
    """The tokens of a case, each text split once."""

    case: LabelledAnswers
    answers: Sequence[list[str]]
    question: frozenset[str]
    contexts: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, case: LabelledAnswers) -> "Reading":
        answers = [tokens(answer) for answer in case.answers]
        contexts = {name: frozenset(tokens(text)) for name, text in case.contexts.items()}
        return cls(case, answers, frozenset(tokens(case.question)), contexts)


def _share_in(words: Sequence[str], known: frozenset[str]) -> float:
    return sum(word in known for word in words) / len(words)


def _in_context(name: str, reading: Reading, place: int) -> float:
    return _share_in(reading.answers[place], reading.contexts.get(name, frozenset()))


def _hedges(reading: Reading, place: int) -> float:
    words = reading.answers[place]
    spaced = sum(word in _HEDGES for word in words)
    return (spaced + len(_WIDE_HEDGES.findall(reading.case.answers[place]))) / len(words)


def _digits(reading: Reading, place: int) -> float:
    text = reading.case.answers[place]
    return sum(sign.isdigit() for sign in text) / len(text)


def _word_length(reading: Reading, place: int) -> float:
    lengths = [len(word) for word in reading.answers[place] if not is_unspaced(word)]
    if lengths:
        return sum(lengths) / len(lengths)
    return 0.0


def _position(_reading: Reading, place: int) -> float:
    return float(place)


def _length(reading: Reading, place: int) -> float:
    return float(len(reading.case.answers[place]))


def _log_length(reading: Reading, place: int) -> float:
    return log(_length(reading, place))


def _in_question(reading: Reading, place: int) -> float:
    return _share_in(reading.answers[place], reading.question)


FEATURES: dict[str, Callable[[Reading, int], float]] = {
    POSITION: _position,
    LENGTH: _log_length,
    LONGEST: _length,
    IN_QUESTION: _in_question,
    DIGITS: _digits,
    HEDGES: _hedges,
    WORD_LENGTH: _word_length,
}
for _name in CONTEXTS:
    FEATURES[IN_CONTEXT[_name]] = partial(_in_context, _name)
