"""Traces as supervision (CLI-8): what a model is trained to say, from the answer alone to the whole trace."""

from collections.abc import Mapping
from typing import Any

from mhb_site.benchmarks.clinhallu.judging import option_lines, true_answer
from mhb_site.benchmarks.clinhallu.trace_text import ANSWER, KNOWLEDGE, REASONING, VISUAL, write_stages

# The variants of the paper's table of fine-tuning. The last is the usual one.
STAGES: Mapping[str, tuple[str, ...]] = {
    "answer": (),
    "V": (VISUAL,),
    "K": (KNOWLEDGE,),
    "V+K": (VISUAL, KNOWLEDGE),
    "V+K+R": (VISUAL, KNOWLEDGE, REASONING),
}


def example(content: Mapping[str, Any], stages: str) -> dict[str, Any]:
    """``{messages: [{role, content}], split}``: the question, and the stages with the answer after them."""
    question = "\n".join([content["question"], *(["Options:", *option_lines(content)] if content["options"] else [])])
    trace = write_stages(**{stage: content["trace"][stage] for stage in STAGES[stages]})
    said = f"{trace}{ANSWER} {true_answer(content)}" if trace else true_answer(content)
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": said}]
    return {"messages": messages, "split": content["split"]}
