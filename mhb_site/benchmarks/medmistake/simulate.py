"""MedMistake's simulated models, up to the mistake and after it.

Both modules publish their rates.
"""

from collections.abc import Sequence

from generation.llm.types import Message
from mhb_site.benchmarks.medmistake import simulate_conversation, simulate_replication


class MedMistakeModels:
    """MedMistake's script of simulated models (`generation.llm.simulator.script.Script`)."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        reply = simulate_conversation.reply(model, messages, seed)
        return simulate_replication.reply(model, messages, seed) if reply is None else reply


SCRIPT = MedMistakeModels()
