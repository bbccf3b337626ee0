"""Worlds of labelled answers of which it is known whether they can be told apart."""

import random
from statistics import NormalDist

from generation.probes.measuring import ProbeCase
from generation.recipes.labelled import LabelledAnswers

VOCABULARY = [
    f"{first}{second}{third}" for first in "bdfgklmnpr" for second in "aeiou" for third in ("st", "nd", "rk", "m")
]


def sentence(generator: random.Random, words: int) -> list[str]:
    """Words of a vocabulary of 200, some much more frequent than others."""
    weights = [1 / (place + 3) for place in range(len(VOCABULARY))]
    return generator.choices(VOCABULARY, weights, k=words)


def pair(key: str, answers: tuple[list[str], list[str]], question: list[str]) -> ProbeCase:
    """A right and a wrong answer."""
    texts = (" ".join(answers[0]), " ".join(answers[1]))
    return ProbeCase(key, key, LabelledAnswers(texts, (True, False), question=" ".join(question)))


def no_leak(seed: int, pairs: int = 300) -> list[ProbeCase]:
    """Both answers of a question share half of their words; nothing depends on which is right."""
    generator = random.Random(f"no leak {seed}")
    cases = []
    for number in range(pairs):
        subject = sentence(generator, 10)
        answers = [subject + sentence(generator, generator.randint(8, 30)) for _answer in range(2)]
        for answer in answers:
            generator.shuffle(answer)
        cases.append(pair(f"case-{number}", (answers[0], answers[1]), subject))
    return cases


def leak_by_length(seed: int, pairs: int = 300, auc: float = 0.65) -> list[ProbeCase]:
    """Wrong answers are longer: the number of words is normal, with this area under the curve."""
    generator = random.Random(f"length {seed}")
    shift = NormalDist().inv_cdf(auc) * 2**0.5 * 6  # AUC = Phi(d / sqrt 2)
    cases = []
    for number in range(pairs):
        lengths = [max(3, round(generator.gauss(40 + shift * wrong, 6))) for wrong in (0, 1)]
        answers = (sentence(generator, lengths[0]), sentence(generator, lengths[1]))
        cases.append(pair(f"case-{number}", answers, sentence(generator, 10)))
    return cases


def leak_by_words(seed: int, pairs: int = 300, auc: float = 0.65, markers: int = 1) -> list[ProbeCase]:
    """Some words occur more often in wrong answers: who counts them has this area under the curve.

    The number of markers in an answer is 0 or 1, more often 1 in wrong ones: the area is
    1/2 + (p1 - p0) / 2.
    """
    generator = random.Random(f"words {seed}")
    more = auc - 0.5
    cases = []
    for number in range(pairs):
        answers = []
        for wrong in (0, 1):
            words = sentence(generator, 30)
            if generator.random() < 0.5 + (more if wrong else -more):
                words[generator.randrange(30)] = f"marker{generator.randrange(markers)}"
            answers.append(words)
        cases.append(pair(f"case-{number}", (answers[0], answers[1]), sentence(generator, 10)))
    return cases


def leak_by_overlap(seed: int, pairs: int = 300, auc: float = 0.65) -> list[ProbeCase]:
    """Right answers take more words from the source: their share is normal, with this area."""
    generator = random.Random(f"overlap {seed}")
    shift = NormalDist().inv_cdf(auc) * 2**0.5 * 0.15
    cases = []
    for number in range(pairs):
        known, unknown = _halves_of_vocabulary(generator)
        answers = []
        for wrong in (0, 1):
            taken = round(30 * min(1, max(0, generator.gauss(0.5 - shift * wrong, 0.15))))
            words = generator.choices(known, k=taken) + generator.choices(unknown, k=30 - taken)
            generator.shuffle(words)
            answers.append(" ".join(words))
        contexts = {"source": " ".join(known)}
        labelled = LabelledAnswers((answers[0], answers[1]), (True, False), contexts=contexts)
        cases.append(ProbeCase(f"case-{number}", f"case-{number}", labelled))
    return cases


def _halves_of_vocabulary(generator: random.Random) -> tuple[list[str], list[str]]:
    words = generator.sample(VOCABULARY, len(VOCABULARY))
    half = len(words) // 2
    return words[:half], words[half:]


def leak_by_position(seed: int, questions: int = 300, auc: float = 0.65) -> list[ProbeCase]:
    """Four options each; the right one is the first more often than by chance.

    Being the first tells with this area: 1/2 + (p - (1 - p) / 3) / 2, where p is the share of
    questions whose first option is right.
    """
    generator = random.Random(f"position {seed}")
    first = (6 * auc - 2) / 4
    cases = []
    for number in range(questions):
        right = generator.randrange(1, 4)
        if generator.random() < first:
            right = 0
        options = [" ".join(sentence(generator, 6)) for _option in range(4)]
        question = " ".join(sentence(generator, 10))
        labels = [place == right for place in range(4)]
        labelled = LabelledAnswers(tuple(options), tuple(labels), question=question, options=True)
        cases.append(ProbeCase(f"case-{number}", f"case-{number}", labelled))
    return cases


def duplicates(seed: int, pairs: int = 300, copies: int = 6, changed: float = 0.1) -> list[ProbeCase]:
    """Records copied several times under other ids, a tenth of the words changed; no other leak."""
    generator = random.Random(f"duplicates {seed}")
    cases = []
    for original in range(pairs // copies):
        texts = [sentence(generator, words) for words in (30, 30, 12)]
        for copy in range(copies):
            changed_texts = [
                [generator.choice(VOCABULARY) if generator.random() < changed else word for word in text]
                for text in texts
            ]
            right, wrong, question = changed_texts
            cases.append(pair(f"case-{original}-{copy}", (right, wrong), question))
    generator.shuffle(cases)
    return cases
