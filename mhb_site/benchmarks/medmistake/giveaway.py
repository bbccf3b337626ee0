"""What gives the answer away in a scenario, and what in it the patient never said: the part of the check made by code."""

import re
from collections.abc import Iterable, Sequence

# Words that a question has only where somebody wrote it around a mistake.
_TELLS = re.compile(
    r"\b(?:mistakes?|pitfalls?|red\s+flags?|overlook(?:ed|ing)?|(?:do|did|does)(?:\s+not|n['’]t)\s+forget"
    r"|be\s+sure\s+to|make\s+sure\s+(?:to|that)|commonly\s+missed|don['’]t\s+miss|trick\s+question)\b"
    r"|错误|误区|陷阱|遗漏|漏诊|误诊|不要忘记|别忘了",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z][a-z'’-]{5,}", re.IGNORECASE)
_HAN = re.compile(r"[\u3400-\u9fff]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_HAN_LENGTH = 4  # signs in a row: fewer are words that any case has
_STEM = 6  # letters by which two forms of a word are taken for one

# Words of six letters and more that instructions and cases share without telling anything.
_PLAIN = frozenset(
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


def told(scenario: str, must: str, patient: Sequence[str]) -> list[str]:
    """The words of a scenario that tell what a right answer must do, and that the patient never said; in their order."""
    said = "\n".join(patient)
    found = [match[0] for match in _TELLS.finditer(scenario) if match[0].casefold() not in said.casefold()]
    wanted = _stems(must) - _stems(said) - {word[:_STEM] for word in _PLAIN}
    found += [word for word in _WORD.findall(scenario) if word.casefold()[:_STEM] in wanted]
    found += [run for run in _runs(must) if run in scenario and run not in said]
    return list(dict.fromkeys(found))


def unsaid_numbers(scenario: str, patient: Sequence[str]) -> list[str]:
    """Numbers of a scenario that the patient never said."""
    said = {number for text in patient for number in _NUMBER.findall(text)}
    return list(dict.fromkeys(number for number in _NUMBER.findall(scenario) if number not in said))


def _stems(text: str) -> set[str]:
    return {word.casefold()[:_STEM] for word in _WORD.findall(text)}


def _runs(text: str) -> Iterable[str]:
    for run in _HAN.findall(text):
        yield from (run[at : at + _HAN_LENGTH] for at in range(len(run) - _HAN_LENGTH + 1))
