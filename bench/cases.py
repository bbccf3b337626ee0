"""Invented MHB cases of the usual length, and complete answers to them as a browser posts them."""

import random
from dataclasses import replace
from typing import Any

from generation.recipes.recipe import NewRubric, NewSample
from mhb_site.benchmarks.medhallu import review as medhallu
from mhb_site.benchmarks.mhb import review as mhb
from review.rules.case_spec import CaseSpec

_SUBJECTS = "the dose|the reading|your doctor|this tablet|the pain|a blood test|the swelling|the first week|her mother"
_VERBS = "may rise after|should be checked with|often settles without|was higher than|needs rest before|can follow"
_OBJECTS = "breakfast|the second visit|a long walk|the new medicine|a warm bath|the scan|two litres of water|sleep"
_TAILS = (
    "as a rule|for most people|if nothing else has changed|within ten days|and that is worth writing down|by itself"
)
_PARTS = tuple(part.split("|") for part in (_SUBJECTS, _VERBS, _OBJECTS, _TAILS))

RUBRICS = ("R1", "R2", "R3")
TRAPS = (("A1", "invented entity"), ("C2", "wrong dose"))


def sample(number: int) -> NewSample:
    """A conversation of 6 to 10 turns, two of them altered, with traps and three rubrics.

    The same number gives the same conversation.
    """
    chance = random.Random(number)
    source = [
        {"role": role, "content": _text(chance, words)}
        for _ in range(chance.randint(3, 5))
        for role, words in (("user", chance.randint(20, 60)), ("assistant", chance.randint(80, 160)))
    ]
    altered = [dict(turn) for turn in source]
    for turn in chance.sample(altered[1::2], 2):
        words = turn["content"].split()
        position = chance.randrange(len(words) - 4)
        words[position : position + 3] = ["which", "Neurostatin", "doubles", "overnight"]
        turn["content"] = " ".join(words)
    altered.append({"role": "user", "content": _text(chance, 25)})
    traps = [
        {
            "code": code,
            "name": name,
            "where": f"turn {2 + number % 3}",
            "false": _text(chance, 18),
            "why": _text(chance, 30),
        }
        for code, name in TRAPS
    ]
    return NewSample(
        task="dialogue",
        title=f"Made-up conversation {number}",
        language="en",
        content={"source_turns": source, "turns": altered, "traps": traps},
        rubrics=tuple(NewRubric(key, _text(chance, 22), ("A1",)) for key in RUBRICS),
    )


def _text(chance: random.Random, words: int) -> str:
    sentences: list[str] = []
    while sum(sentence.count(" ") + 1 for sentence in sentences) < words:
        sentence = " ".join(chance.choice(part) for part in _PARTS)
        sentences.append(f"{sentence[0].upper()}{sentence[1:]}.")
    return " ".join(sentences)


def spec(number: int) -> CaseSpec:
    """The case of sample `number`, as the benchmark itself makes it."""
    return mhb.case(sample(number), f"bench-{number:07}", 1)


def spec_with_rubrics(number: int, rubrics: int) -> CaseSpec:
    """The case of sample `number` with this many rubrics, and one trap, as MHB plans it."""
    base_sample = sample(number)
    chance = random.Random(number)
    [trap, _other] = base_sample.content["traps"]
    new_rubrics = tuple(NewRubric(f"R{n}", _text(chance, 22), (trap["code"],)) for n in range(1, rubrics + 1))
    with_trap = replace(base_sample, content={**base_sample.content, "traps": [trap]}, rubrics=new_rubrics)
    return mhb.case(with_trap, f"bench-{number:07}", 1)


def medhallu_spec(number: int) -> CaseSpec:
    """An invented question with a true and a wrong answer, as MedHallu shows it to a physician."""
    chance = random.Random(number)
    content = {
        "question": _text(chance, 15),
        "knowledge": [_text(chance, 120), _text(chance, 90)],
        "truth": _text(chance, 40),
        "hallucinated": _text(chance, 40),
        "category": "1",
        "justification": _text(chance, 20),
    }
    new_sample = NewSample(task="qa", title=f"Made-up question {number}", language="en", content=content, rubrics=())
    return medhallu.case(new_sample, f"bench-{number:07}", 1)


def answers() -> dict[str, Any]:
    """The form fields of an approving review, which fit every case of this module.

    `review.answers.answer_form` defines the names.
    """
    fields = {
        "question.naturalness": "3",
        "question.noticed": "no",
        "question.coherence": "met",
        "question.alignment": "met",
        "verdict": "approve",
    }
    for number, (trap, _name) in enumerate(TRAPS, 1):
        citation = {
            "trap": trap,
            "level": "guideline",
            "kind": "guideline",
            "reference": "Invented guideline",
            "section": f"2.{number}",
            "passage": "There is no such drug.",
            "read_on": "2020-01-15",
        }
        fields |= {f"citation.{number}.{name}": value for name, value in citation.items()}
        fields[f"question.factual:{trap}"] = "met"
    for key in RUBRICS:
        fields |= {f"rubric.{key}": "adequate", f"rubric.{key}.severity": "mild"}
    return fields
