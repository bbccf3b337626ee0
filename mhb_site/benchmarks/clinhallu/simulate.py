"""ClinHallu's simulated models: those of the making side, and the models under test with their judges."""

from collections.abc import Mapping, Sequence
from typing import Any

from generation.llm.types import Message
from mhb_site.benchmarks.clinhallu import simulate_answers, simulate_generation
from mhb_site.benchmarks.clinhallu.judging import true_answer


class ClinHalluModels:
    """The simulated models in ClinHallu (`generation.llm.simulator.script.Script`), known by the first lines of its prompts."""

    def learn(self, record: Mapping[str, Any]) -> None:
        """Know the true answer of a record, so that models which see its image can tell."""
        if record.get("images") and isinstance(record.get("answer"), str):
            simulate_answers.LABELS[record["question"], record["images"][0]] = true_answer({"letter": "", **record})

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        made = simulate_generation.reply(model, messages, seed)
        return simulate_answers.reply(model, messages, seed) if made is None else made


SCRIPT = ClinHalluModels()
