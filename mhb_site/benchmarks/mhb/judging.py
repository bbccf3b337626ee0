"""What a judge is asked about an answer: by an evaluation, and by the examiner about a plain answer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from generation.llm.types import Request
from generation.recipes.prompts import read_prompt
from generation.recipes.recipe import ReplyShape
from mhb_site.benchmarks.mhb.review import RUBRIC_FORM

PROMPTS = Path(__file__).parent / "prompts"
JUDGE, JUDGE_ALL = read_prompt(PROMPTS / "judge.md"), read_prompt(PROMPTS / "judge_all.md")
RULE = "What a criterion is, and when it is met"  # the heading, in both prompts


class Judgment(ReplyShape):
    """Whether the response meets the criterion, and why."""

    explanation: str  # first, so that a model reasons before it decides
    criteria_met: bool


class KeyedJudgment(Judgment):
    """The same for the criterion of this key."""

    key: str


class Judgments(ReplyShape):
    """All criteria of a sample, decided in one reply."""

    judgments: tuple[KeyedJudgment, ...]


def judge_one(content: Mapping[str, Any], criterion: str, traps: Sequence[str], response: str) -> Request:
    """The request for a verdict on one criterion that tests the traps of these codes.

    It contains context, stimulus, response, the criterion and what the traps are: the paper's
    rubric "explicitly defines the nature of the implanted hallucination".
    """
    about = {"traps": shown_traps(content, traps), "criterion": criterion}
    return JUDGE.request({**_case(content, response), **about}, {"rubric_form": RUBRIC_FORM})


def judge_all(content: Mapping[str, Any], criteria: Sequence[Mapping[str, Any]], response: str) -> Request:
    """The request for verdicts on all criteria: {key, criterion, traps (their codes)} each."""
    about = {"traps": shown_traps(content), "criteria": criteria}
    return JUDGE_ALL.request({**_case(content, response), **about}, {"rubric_form": RUBRIC_FORM})


def deciding_rule() -> str:
    """What the judge's rule says behind the form of a rubric."""
    _before, _form, rule = JUDGE.section(RULE).partition("$rubric_form")
    return rule.strip()


def shown_traps(content: Mapping[str, Any], codes: Sequence[str] = ()) -> list[dict[str, str]]:
    """The planted traps of these codes as judges see them; all of them if no code is given."""
    shown = []
    for trap in content.get("traps", ()):
        if not codes or trap["code"] in codes:
            shown.append({name: trap[name] for name in ("code", "name", "words", "false", "why") if name in trap})
    return shown


def context_and_question(content: Mapping[str, Any]) -> tuple[Any, str]:
    """What a model under test sees of a sample: the report or the turns before, and the question."""
    if "turns" in content:
        *context, last = content["turns"]
        return context, last["content"]
    return content["report"], content["question"]


def _case(content: Mapping[str, Any], response: str) -> dict[str, Any]:
    context, stimulus = context_and_question(content)
    return {"context": context, "stimulus": stimulus, "response": response}
