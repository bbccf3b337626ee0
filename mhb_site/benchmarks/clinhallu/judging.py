"""The judges of ClinHallu: one for the answer and one per stage.

All of them see the images, as in the paper's equations 7 and 12; the released code shows them to
the visual one alone.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from evaluation.protocol import Decision, Judging, Rubric, Sample
from generation.llm.fencing import as_data
from generation.llm.types import Message, Request
from generation.recipes.prompts import Prompt, read_prompt
from mhb_site.benchmarks.clinhallu.trace_text import KNOWLEDGE, STAGES, VISUAL, Trace, read_trace, with_images

PROMPTS = Path(__file__).parent / "prompts"
ANSWER = "answer"
JUDGE_ANSWER = read_prompt(PROMPTS / "judge_answer.md")
JUDGE_STAGE: Mapping[str, Prompt] = {stage: read_prompt(PROMPTS / f"judge_{stage}.md") for stage in STAGES}
TEMPERATURE, TOP_P, MAX_TOKENS = 0.01, 0.9, 4096
SIGHT = {True: "You see the images as well.", False: "You do not see the images."}
CORRECT, WRONG, SUPPORTED, HALLUCINATED = "correct", "wrong", "supported", "hallucinated"


def _whole(value: Any) -> Any:
    if type(value) is not int:
        raise ValueError("must be the number 0 or 1")
    return value


ZeroOrOne = Annotated[Literal[0, 1], BeforeValidator(_whole)]  # a literal alone takes true and 1.0, too


class AnswerVerdict(BaseModel):
    """Whether the predicted answer is right."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answer_reasoning: str
    answer_correct: ZeroOrOne


class StageVerdict(BaseModel):
    """Whether a stage is hallucinated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: str
    hallucinated: ZeroOrOne


def true_answer(content: Mapping[str, Any]) -> str:
    """The true answer in words, with its letter if there are options."""
    answer, letter = str(content["answer"]), str(content["letter"])
    return f"{letter}. {answer}" if letter and not answer.startswith(f"{letter}.") else answer


def option_lines(content: Mapping[str, Any]) -> list[str]:
    """The options, one line each."""
    return [f"{letter}. {text}" for letter, text in content["options"]]


def judge_answer(sample: Sample, rubric: Rubric, variant: str, text: str, *, images: bool = True) -> Request:  # noqa: ARG001
    """The request to compare the answer with the true one (eq. 7: the judge is given x)."""
    content = sample.content
    messages = JUDGE_ANSWER.messages(
        question=as_data(content["question"]),
        options=as_data(option_lines(content)),
        truth=as_data(true_answer(content)),
        predicted=as_data(read_trace(text).answer),
        sight=SIGHT[images],
    )
    return _request(JUDGE_ANSWER, messages, content["images"] if images else ())


def judge_stage(sample: Sample, rubric: Rubric, variant: str, text: str, *, images: bool = True) -> Request:  # noqa: ARG001
    """The request to compare a stage with the reference's (eq. 12: the judge is given x).

    The stages after the visual one come with the supporting stages.
    """
    content, trace = sample.content, read_trace(text)
    reference, stage = Trace(**content["trace"]), rubric.key
    prompt = JUDGE_STAGE[stage]
    data = {
        "question": as_data(content["question"]),
        "truth": as_data(true_answer(content)),
        "reference": as_data(reference.stage(stage)),
        "candidate": as_data(trace.stage(stage)),
    }
    if stage == VISUAL:
        return _request(prompt, prompt.messages(**data), content["images"])
    support = {
        f"{name} {earlier}": stages.stage(earlier)
        for earlier in (VISUAL, KNOWLEDGE)
        for name, stages in (("reference", reference), ("candidate", trace))
        if earlier != stage
    }
    messages = prompt.messages(**data, support=as_data(support), sight=SIGHT[images])
    return _request(prompt, messages, content["images"] if images else ())


def _request(prompt: Prompt, messages: Sequence[Message], images: Sequence[str]) -> Request:
    [*before, last] = messages
    return Request((*before, with_images(last, images)), prompt=prompt.label, top_p=TOP_P, max_tokens=MAX_TOKENS)


def decide_answer(verdict: AnswerVerdict) -> Decision:
    """The verdict on an answer."""
    return Decision(CORRECT if verdict.answer_correct else WRONG, verdict.answer_reasoning)


def decide_stage(verdict: StageVerdict) -> Decision:
    """The verdict on a stage."""
    return Decision(HALLUCINATED if verdict.hallucinated else SUPPORTED, verdict.reason)


def stage_judging(variant: str) -> Judging:
    """The judging of a stage, on the answers in one variant."""
    return Judging(judge_stage, StageVerdict, decide_stage, frozenset({variant}))


def without_images(judged_on: Mapping[str, str]) -> dict[str, Judging]:
    """How the released code judges: no image but for the visual stage."""
    answer = Judging(partial(judge_answer, images=False), AnswerVerdict, decide_answer)
    stages = {
        stage: Judging(partial(judge_stage, images=False), StageVerdict, decide_stage, frozenset({variant}))
        for stage, variant in judged_on.items()
        if stage != VISUAL
    }
    return {ANSWER: answer, **stages}
