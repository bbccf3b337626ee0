"""Traces as supervision: training targets from the answer alone to the whole trace."""

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

# For the data card of training exports: the paper's appendix A and its potential risks.
TRAINING_NOTE = (
    "The paper fine-tunes Qwen3.5-9B on traces from the training splits of VQA-RAD (1,221 samples) and PathVQA (10,187), "
    "as the other two sources have none: LoRA with rank 8 and scaling factor 16, in LLaMA-Factory, with a cosine schedule "
    "of the learning rate from 0.0001, a warm-up of 0.1, and its defaults for everything else. Do not read too much into a "
    "better score: it shows fewer hallucinated stages on these data sets, not that a model is reliable in the clinic. "
    "Report the hallucination rate of each stage beside the accuracy. No model trained on this is for decisions on patients."
)


def example(content: Mapping[str, Any], stages: str) -> dict[str, Any]:
    """A training example ``{messages: [{role, content}], split}``: question, stages and answer."""
    question = content["question"]
    if content["options"]:
        question = "\n".join([question, "Options:", *option_lines(content)])
    trace = write_stages(**{stage: content["trace"][stage] for stage in STAGES[stages]})
    if trace:
        target = f"{trace}{ANSWER} {true_answer(content)}"
    else:
        target = true_answer(content)
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": target}]
    return {"messages": messages, "split": content["split"]}
