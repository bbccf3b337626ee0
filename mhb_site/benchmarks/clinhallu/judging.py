"""The judges of ClinHallu: one for the answer and one per stage.

All of them see the images, as in the paper's equations 7 and 12; the released code shows them to
the visual one alone.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from django.utils.translation import gettext_noop as _
from pydantic import BeforeValidator

from evaluation.protocol import Decision, Judging, Rubric, Sample
from generation.llm.types import Request
from generation.recipes.prompts import Prompt, read_prompt
from generation.recipes.recipe import ReplyShape
from mhb_site.benchmarks.clinhallu.trace_text import (
    KNOWLEDGE,
    REASONING,
    STAGES,
    VISUAL,
    Trace,
    read_trace,
    request_with_images,
)

PROMPTS = Path(__file__).parent / "prompts"
ANSWER = "answer"
# The earlier stages that a stage's judge is shown, of the reference and of the model.
SUPPORT: Mapping[str, Sequence[str]] = {VISUAL: (), KNOWLEDGE: (VISUAL,), REASONING: (VISUAL, KNOWLEDGE)}
JUDGE_ANSWER = read_prompt(PROMPTS / "judge_answer.md")
JUDGE_STAGE: Mapping[str, Prompt] = {stage: read_prompt(PROMPTS / f"judge_{stage}.md") for stage in STAGES}
TEMPERATURE, TOP_P, MAX_TOKENS = 0.01, 0.9, 4096
# What judges and the physicians who check them decide by.
ANSWER_RULE = _(
    "Be lenient on wording, abbreviations and length, and strict on medical facts: another organ, side, finding, number "
    "or option is wrong. An answer that is hedged counts by what it settles on: the true answer given as likely is right; "
    "one that names several answers and settles on none of them, or says that it cannot be answered, is wrong. The true "
    "answer stands, whatever the images show."
)
STAGE_RULE = _(
    "Other words than the reference's, less detail or another order are no hallucination. A medical statement that is "
    "wrong, made up, or contradicts the evidence is one. The evidence is all that is shown of the case: the images, the "
    "question, the true answer and the reference's steps; where reference and image differ, the image decides. A wrong "
    "final answer is not by itself a reason. Hedging counts by what it claims: to call a finding uncertain, or to say that "
    "it cannot be seen or known, is no hallucination where the evidence leaves it open; to put forward as possible or "
    "likely what the evidence rules out is one."
)
SIGHT = {True: "You see the images as well.", False: "You do not see the images."}
CORRECT, WRONG, SUPPORTED, HALLUCINATED = "correct", "wrong", "supported", "hallucinated"


def _whole(value: Any) -> Any:
    if type(value) is not int:
        raise ValueError("must be the number 0 or 1")
    return value


ZeroOrOne = Annotated[Literal[0, 1], BeforeValidator(_whole)]  # a literal alone takes true and 1.0, too


class AnswerVerdict(ReplyShape):
    """Whether the predicted answer is right."""

    answer_reasoning: str
    answer_correct: ZeroOrOne


class StageVerdict(ReplyShape):
    """Whether a stage is hallucinated."""

    reason: str
    hallucinated: ZeroOrOne


def true_answer(content: Mapping[str, Any]) -> str:
    """The true answer in words, with its letter if there are options."""
    answer, letter = str(content["answer"]), str(content["letter"])
    if letter and not answer.startswith(f"{letter}."):
        return f"{letter}. {answer}"
    return answer


def option_lines(content: Mapping[str, Any]) -> list[str]:
    """The options, one line each."""
    return [f"{letter}. {text}" for letter, text in content["options"]]


def judge_answer(sample: Sample, rubric: Rubric, variant: str, text: str, *, images: bool = True) -> Request:  # noqa: ARG001
    """The request to compare the answer with the true one (eq. 7: the judge is given x)."""
    data = {
        "question": sample.content["question"],
        "options": option_lines(sample.content),
        "truth": true_answer(sample.content),
        "predicted": read_trace(text).answer,
    }
    return _request(JUDGE_ANSWER, sample, data, ANSWER_RULE, images=images)


def judge_stage(sample: Sample, rubric: Rubric, variant: str, text: str, *, images: bool = True) -> Request:  # noqa: ARG001
    """The request to compare a stage with the reference's (eq. 12: the judge is given x).

    The stages after the visual one come with the supporting stages.
    """
    content, trace = sample.content, read_trace(text)
    reference, stage = Trace(**content["trace"]), rubric.key
    data: dict[str, object] = {
        "question": content["question"],
        "truth": true_answer(content),
        "reference": reference.stage(stage),
        "candidate": trace.stage(stage),
    }
    support = {}
    for earlier in SUPPORT[stage]:
        support[f"reference {earlier}"] = reference.stage(earlier)
        support[f"candidate {earlier}"] = trace.stage(earlier)
    if support:
        data["support"] = support
    return _request(JUDGE_STAGE[stage], sample, data, STAGE_RULE, images=images or stage == VISUAL)


def _request(prompt: Prompt, sample: Sample, data: Mapping[str, object], rule: str, *, images: bool) -> Request:
    shown = ()
    if images:
        shown = sample.content["images"]
    texts = {"sight": SIGHT[images], "rule": rule}
    return request_with_images(prompt, shown, data, texts, top_p=TOP_P, max_tokens=MAX_TOKENS)


def decide_answer(verdict: AnswerVerdict) -> Decision:
    """The verdict on an answer."""
    if verdict.answer_correct:
        return Decision(CORRECT, verdict.answer_reasoning)
    return Decision(WRONG, verdict.answer_reasoning)


def decide_stage(verdict: StageVerdict) -> Decision:
    """The verdict on a stage."""
    if verdict.hallucinated:
        return Decision(HALLUCINATED, verdict.reason)
    return Decision(SUPPORTED, verdict.reason)


def stage_judging(variant: str, judge: Callable[[Sample, Rubric, str, str], Request] = judge_stage) -> Judging:
    """The judging of a stage, on the answers in one variant."""
    return Judging(judge, StageVerdict, decide_stage, frozenset({variant}), (HALLUCINATED, SUPPORTED))


def without_images(judged_on: Mapping[str, str]) -> dict[str, Judging]:
    """How the released code judges: no image but for the visual stage."""
    blind = partial(judge_stage, images=False)
    answer = Judging(partial(judge_answer, images=False), AnswerVerdict, decide_answer, gives=(CORRECT, WRONG))
    judgings = {ANSWER: answer}
    for stage, variant in judged_on.items():
        if stage != VISUAL:
            judgings[stage] = stage_judging(variant, blind)
    return judgings
