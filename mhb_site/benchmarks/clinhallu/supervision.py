"""Traces as supervision (CLI-8): training targets from the answer alone to the whole trace."""

from collections.abc import Mapping
from typing import Any

from mhb_site.benchmarks.clinhallu.judging import option_lines, true_answer
from mhb_site.benchmarks.clinhallu.trace_text import ANSWER, KNOWLEDGE, REASONING, VISUAL, write_stages

# The variants of the paper's fine-tuning table; the last is the default.
STAGES: Mapping[str, tuple[str, ...]] = {
    "answer": (),
    "V": (VISUAL,),
    "K": (KNOWLEDGE,),
    "V+K": (VISUAL, KNOWLEDGE),
    "V+K+R": (VISUAL, KNOWLEDGE, REASONING),
}


def example(content: Mapping[str, Any], stages: str) -> dict[str, Any]:
    """A training example ``{messages: [{role, content}], split}``: question, stages and answer."""
    question = "\n".join([content["question"], *(["Options:", *option_lines(content)] if content["options"] else [])])
    trace = write_stages(**{stage: content["trace"][stage] for stage in STAGES[stages]})
    target = f"{trace}{ANSWER} {true_answer(content)}" if trace else true_answer(content)
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": target}]
    return {"messages": messages, "split": content["split"]}
