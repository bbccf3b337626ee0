"""The code part of the scenario check: giveaways, and numbers that the patient never said."""

import re
from collections.abc import Iterable, Iterator, Sequence

from generation.common.medical_text import numbers

# Words that a question contains only if it was written around a mistake.
_GIVEAWAY_PHRASES = re.compile(
    r"\b(?:mistakes?|pitfalls?|red\s+flags?|overlook(?:ed|ing)?|(?:do|did|does)(?:\s+not|n['’]t)\s+forget"
    r"|be\s+sure\s+to|make\s+sure\s+(?:to|that)|commonly\s+missed|don['’]t\s+miss|trick\s+question)\b"
    r"|错误|误区|陷阱|遗漏|漏诊|误诊|不要忘记|别忘了",
    re.IGNORECASE,
)
_ONES = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen
    """.split()  # noqa: SIM905 - a list of words
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905 - a list of words
_NUMBER_WORDS = dict(zip((*_ONES, *_TENS), (*range(20), *range(20, 100, 10)), strict=True))
_NUMBER_WORDS |= {"once": 1, "twice": 2}
_NUMBER_WORD = "|".join((*_NUMBER_WORDS, "hundred", "thousand", "half"))
_ENGLISH_NUMBERS = re.compile(
    rf"\b(?:{_NUMBER_WORD})(?:[ -](?:and )?(?:a )?(?:{_NUMBER_WORD}))*(?: point(?: (?:{'|'.join(_ONES[:10])}))+)?\b",
    re.IGNORECASE,
)
_HAN_DIGITS = {"一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_CHINESE_NUMBER = re.compile("[一二三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九]")
_WORD = re.compile(r"[a-z][a-z'’-]{5,}", re.IGNORECASE)
_HAN = re.compile(r"[\u3400-\u9fff]+")
_HAN_RUN = 4  # consecutive characters: shorter runs occur in any case
_STEM_LENGTH = 6  # letters after which two words count as forms of one

# Words of six or more letters that instructions and cases share without revealing anything.
_COMMON_WORDS = frozenset(
    """
    advice advise advised answer anything around asking because become before between cannot clinic common concern consider
    consult could course different doctor doctors during either emergency enough especially every everyone example explain
    feeling following further general health healthcare however immediate immediately include including information itself
    likely little matter medical medicine medicines medication medications mention moment months morning nothing number often
    options patient patients people person please possible provide question questions rather reason recommend recommended
    regular response right screen should simply since single someone something started symptom symptoms taking tablet tablets
    themselves therefore things though through today treatment treatments treated under until urgent usually visit weeks
    whether within without would years yesterday
    """.split()  # noqa: SIM905 - a list of words
)


def find_giveaways(scenario: str, must: str, patient: Sequence[str]) -> list[str]:
    """The words that reveal the right answer and that the patient never said, in order."""
    patient_text = "\n".join(patient)
    giveaways = []
    for match in _GIVEAWAY_PHRASES.finditer(scenario):
        if match[0].casefold() not in patient_text.casefold():
            giveaways.append(match[0])
    common_stems = {_stem(word) for word in _COMMON_WORDS}
    revealing_stems = _stems(must) - _stems(patient_text) - common_stems
    giveaways += [word for word in _WORD.findall(scenario) if _stem(word) in revealing_stems]
    giveaways += [run for run in _han_runs(must) if run in scenario and run not in patient_text]
    return list(dict.fromkeys(giveaways))


def unsaid_numbers(scenario: str, patient: Sequence[str]) -> list[str]:
    """The numbers of a scenario that the patient never said, in digits or in words."""
    said_numbers = set[str]()
    for text in patient:
        said_numbers.update(numbers(text), _numbers_in_words(text))
    unsaid = [number for number in numbers(scenario) if number not in said_numbers]
    return list(dict.fromkeys(unsaid))


def _numbers_in_words(text: str) -> Iterator[str]:
    """The numbers that a text says in English or Chinese words, in digits.

    "Twenty-five" is 25, "a hundred and twenty" 120, as "one twenty" is, "two and a half" 2.5,
    "thirty-eight point five" 38.5; each word is a number by itself, too.
    """
    for match in _ENGLISH_NUMBERS.finditer(text):
        whole, _point, decimals = match[0].casefold().partition(" point")
        said = [word for word in re.split(r"[ -]", whole) if word not in ("and", "a")]
        for word in said:
            if word in _NUMBER_WORDS:
                yield str(_NUMBER_WORDS[word])
        value = f"{_value(said):g}"
        yield value
        if decimals:
            digits = [str(_NUMBER_WORDS[word]) for word in decimals.split()]
            yield f"{value}.{''.join(digits)}"
        if len(said) > 1 and not {"hundred", "thousand", "half"}.intersection(said):
            yield f"{_NUMBER_WORDS[said[0]]}{_value(said[1:]):g}"
    for match in _CHINESE_NUMBER.finditer(text):
        tens, ten, ones = match[0].partition("十")
        if ten:
            yield str(_HAN_DIGITS.get(tens, 1) * 10 + _HAN_DIGITS.get(ones, 0))
        else:
            yield str(_HAN_DIGITS[tens])


def _value(said: Sequence[str]) -> float:
    """The number that these words add up to."""
    total = current = 0.0
    for word in said:
        if word == "thousand":
            total, current = total + (current or 1) * 1000, 0.0
        elif word == "hundred":
            current = (current or 1) * 100
        elif word == "half":
            current += 0.5
        else:
            current += _NUMBER_WORDS[word]
    return total + current


def _stems(text: str) -> set[str]:
    return {_stem(word) for word in _WORD.findall(text)}


def _stem(word: str) -> str:
    return word.casefold()[:_STEM_LENGTH]


def _han_runs(text: str) -> Iterable[str]:
    for run in _HAN.findall(text):
        for start in range(len(run) - _HAN_RUN + 1):
            yield run[start : start + _HAN_RUN]
