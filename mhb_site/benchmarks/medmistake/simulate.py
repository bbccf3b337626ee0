"""MedMistake's simulated models: those of the conversations, and those from the mistake on. Each half publishes its rates."""

from collections.abc import Sequence

from generation.llm.types import Message
from mhb_site.benchmarks.medmistake import simulate_conversation, simulate_replication


class MedMistakeModels:
    """The simulated models in MedMistake (`generation.llm.simulator.script.Script`), known by its prompts' first lines."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        said = simulate_conversation.reply(model, messages, seed)
        return simulate_replication.reply(model, messages, seed) if said is None else said


SCRIPT = MedMistakeModels()
