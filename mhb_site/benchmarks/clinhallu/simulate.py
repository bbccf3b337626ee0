"""ClinHallu's simulated models for generation, and the models under test with their judges."""

from collections.abc import Mapping, Sequence
from typing import Any

from generation.llm.types import Message
from mhb_site.benchmarks.clinhallu import simulate_answers, simulate_generation
from mhb_site.benchmarks.clinhallu.judging import true_answer


class ClinHalluModels:
    """ClinHallu's script of simulated models (`generation.llm.simulator.script.Script`)."""

    def learn(self, record: Mapping[str, Any]) -> None:
        """Store the true answer of a record, so that models can recognise its image."""
        if record.get("images") and isinstance(record.get("answer"), str):
            simulate_answers.LABELS[record["question"], record["images"][0]] = true_answer({"letter": "", **record})

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        reply = simulate_generation.reply(model, messages, seed)
        return simulate_answers.reply(model, messages, seed) if reply is None else reply


SCRIPT = ClinHalluModels()
