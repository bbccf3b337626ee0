"""How a judge of MHB is asked, and how its verdicts are counted: for the tasks of other tools.

Needs only the standard library. `judging.json` beside it says what is the benchmark's own: the
judge's temperature and schema, the field of its reply that decides, and the rates. `reasoning.py`
beside it tells an answer from the thoughts before it, as MHB does.
"""

import hashlib
import importlib.util
import json
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unicodedata import category

Json = dict[str, Any]

FOLDER = Path(__file__).parent
FIELDS = FOLDER / "judging.json"
UNSEEN = "\u115f\u1160\u2800\u3164\uffa0"  # letters and symbols that are drawn as nothing
MARKS = re.compile(r'"@@(RESPONSE|CRITERION)@@"|@@(RESPONSE|CRITERION)@@')


class NotAsExported(Exception):
    """The samples beside this program are not those that were exported with it."""


def load() -> Json:
    """The contents of `judging.json`, and `rules`, their digest.

    Raises NotAsExported if the samples in this folder are others than those it was written for.
    """
    text = FIELDS.read_bytes()
    judging: Json = json.loads(text)
    samples = judging["samples"]
    path = FOLDER / samples["file"]
    if not path.is_file():
        raise NotAsExported(f"{path.name} is missing: of an export by reference, run restore_release.py first.")
    if hashlib.sha256(path.read_bytes()).hexdigest() != samples["sha256"]:
        raise NotAsExported(f"{path.name} is not the file that was exported with judging.json of {judging['task']}.")
    return {**judging, "rules": hashlib.sha256(text).hexdigest()}


@cache
def module_beside(name: str) -> ModuleType:
    """A module of this folder, by its file: other exports have modules of the same name."""
    spec = importlib.util.spec_from_file_location(f"{FOLDER}/{name}", FOLDER / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer_of(text: str) -> str:
    """What counts as the answer: a reply without the thoughts before it, as MHB reads it."""
    answer: str = module_beside("reasoning").split_reasoning(text)[0]
    return answer


def is_blank(answer: str) -> bool:
    """Whether an answer has no character that a reader can see; nobody judges such a one."""
    return not any(category(letter)[0] in "LNPS" and letter not in UNSEEN for letter in answer)


def as_data(text: str) -> str:
    """A text as one line of JSON that cannot close its block, as in MHB's prompts."""
    line = json.dumps(text, ensure_ascii=False)
    for mark in "\x85\u2028\u2029":
        line = line.replace(mark, f"\\u{ord(mark):04x}")
    return re.sub("<<(?=<)", r"<\\u003c", re.sub(">>(?=>)", r">\\u003e", line))


def judge_messages(messages: list[Json], answer: str, criterion: str) -> list[Json]:
    """The messages to the judge about one criterion of an answer."""
    texts = {"RESPONSE": answer, "CRITERION": criterion}

    def fill_placeholder(match: "re.Match[str]") -> str:
        if match[1]:
            return as_data(texts[match[1]])
        return texts[match[2]]

    filled = []
    for message in messages:
        filled.append({"role": message["role"], "content": MARKS.sub(fill_placeholder, message["content"])})
    return filled


def read_verdict(judging: Json, reply: str) -> Json:
    """{"met": true, false or null, "explanation"}; null if the reply is not what was asked for."""
    answer = answer_of(reply)
    try:
        value = json.loads(answer[answer.find("{") : answer.rfind("}") + 1])
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.keys() != judging["schema"]["properties"].keys():
        return {"met": None, "explanation": ""}
    met, explanation = value[judging["field"]], value.get("explanation", "")
    aside = [value[name] for name in judging["aside"]]
    if not isinstance(explanation, str) or any(type(flag) is not bool for flag in (met, *aside)):
        return {"met": None, "explanation": ""}
    if any(aside):  # the judge found nothing to decide, such as a refusal
        return {"met": None, "explanation": explanation}
    return {"met": met, "explanation": explanation}


def unasked(judging: Json, rubrics: list[Json]) -> dict[str, Json]:
    """The verdicts on an answer without text, which no judge is asked about."""
    return {rubric["key"]: {"met": judging["empty"], "explanation": ""} for rubric in rubrics}


def count(
    rate: Json, arm: str | None, rubrics: list[Json], points: list[float] | None, verdicts: dict[str, Json]
) -> tuple[float, int]:
    """What a sample adds to the numerator and the denominator of a rate."""
    if (arm or "trap") != rate["arm"]:
        return 0, 0
    if rate["points"]:
        return _share_of_points(rate, rubrics, points or [], verdicts)
    counted = []
    for rubric in rubrics:
        met = verdicts[rubric["key"]]["met"]
        is_of_rate = not rate["only"] or rubric.get(rate["only"][0]) == rate["only"][1]
        if met is not None and is_of_rate:
            counted.append(met)
    hits = counted.count(rate["hit"])
    if rate["unit"] == "sample":
        return (min(hits, 1), min(len(counted), 1))
    return (hits, len(counted))


def _share_of_points(
    rate: Json, rubrics: list[Json], points: list[float], verdicts: dict[str, Json]
) -> tuple[float, int]:
    """The points that a sample gets, of those possible; nothing if a criterion is unjudged."""
    reached = possible = 0.0
    for rubric, weight in zip(rubrics, points, strict=True):
        met = verdicts[rubric["key"]]["met"]
        if weight and met is None:
            return 0, 0
        possible += max(weight, 0)
        if met is rate["hit"]:
            reached += weight
    if possible:
        return reached / possible, 1
    return 0, 0


def of_answers(rate: Json, counts: list[tuple[float, int]]) -> tuple[float, int]:
    """What a sample that was answered several times adds: it fails if any of its answers does."""
    hits, counted = [list(values) for values in zip(*counts, strict=True)]
    if rate["unit"] == "sample" and not rate["points"]:
        return (max(hits), max(counted))
    return (sum(hits), sum(counted))


def pooled(counts: list[tuple[float, int]]) -> float:
    """A rate from what all samples add to it: the mean, never outside 0 to 1."""
    total = sum(denominator for _numerator, denominator in counts)
    if not total:
        return float("nan")
    value = sum(numerator for numerator, _denominator in counts) / total
    return min(1.0, max(0.0, value))
