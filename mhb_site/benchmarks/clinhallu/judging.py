"""What ClinHallu's judges are asked: one on the answer, and one on each stage, of whom the visual one alone sees the images."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from evaluation.protocol import Decision, Judging, Rubric, Sample
from generation.llm.fencing import as_data
from generation.llm.types import Message, Request
from generation.recipes.prompts import Prompt, read_prompt
from mhb_site.benchmarks.clinhallu.trace_text import KNOWLEDGE, STAGES, VISUAL, Trace, read_trace

PROMPTS = Path(__file__).parent / "prompts"
ANSWER = "answer"
JUDGE_ANSWER = read_prompt(PROMPTS / "judge_answer.md")
JUDGE_STAGE: Mapping[str, Prompt] = {stage: read_prompt(PROMPTS / f"judge_{stage}.md") for stage in STAGES}
TEMPERATURE, TOP_P, MAX_TOKENS = 0.01, 0.9, 4096
CORRECT, WRONG, SUPPORTED, HALLUCINATED = "correct", "wrong", "supported", "hallucinated"


class AnswerVerdict(BaseModel):
    """Whether the predicted answer is right."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answer_reasoning: str
    answer_correct: Literal[0, 1]


class StageVerdict(BaseModel):
    """Whether a stage is hallucinated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: str
    hallucinated: Literal[0, 1]


def true_answer(content: Mapping[str, Any]) -> str:
    """The answer in words, with its letter where there are options."""
    answer, letter = str(content["answer"]), str(content["letter"])
    return f"{letter}. {answer}" if letter and not answer.startswith(f"{letter}.") else answer


def option_lines(content: Mapping[str, Any]) -> list[str]:
    """The options as they are shown."""
    return [f"{letter}. {text}" for letter, text in content["options"]]


def judge_answer(sample: Sample, rubric: Rubric, variant: str, text: str) -> Request:  # noqa: ARG001
    """The answer beside the true one (eq. 7); the judge sees no image, as in the released code."""
    content = sample.content
    messages = JUDGE_ANSWER.messages(
        question=as_data(content["question"]),
        options=as_data(option_lines(content)),
        truth=as_data(true_answer(content)),
        predicted=as_data(read_trace(text).answer),
    )
    return Request(messages, prompt=JUDGE_ANSWER.label, top_p=TOP_P, max_tokens=MAX_TOKENS)


def judge_stage(sample: Sample, rubric: Rubric, variant: str, text: str) -> Request:  # noqa: ARG001
    """A stage beside the reference's (eq. 12): the visual one with the images, the others with the support context."""
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
        [*before, last] = prompt.messages(**data)
        messages = (*before, Message.showing(last.role, last.text, content["images"]))
    else:
        support = {
            f"{who} {each}": one.stage(each)
            for each in (VISUAL, KNOWLEDGE)
            for who, one in (("reference", reference), ("candidate", trace))
            if each != stage
        }
        messages = prompt.messages(**data, support=as_data(support))
    return Request(messages, prompt=prompt.label, top_p=TOP_P, max_tokens=MAX_TOKENS)


def decide_answer(said: AnswerVerdict) -> Decision:
    """The verdict on an answer."""
    return Decision(CORRECT if said.answer_correct else WRONG, said.answer_reasoning)


def decide_stage(said: StageVerdict) -> Decision:
    """The verdict on a stage."""
    return Decision(HALLUCINATED if said.hallucinated else SUPPORTED, said.reason)


def stage_judging(variant: str) -> Judging:
    """How a stage is judged, on the answers in one variant."""
    return Judging(judge_stage, StageVerdict, decide_stage, frozenset({variant}))
