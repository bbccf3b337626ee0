"""MedHal's simulated models for generation and evaluation.

Both modules publish their true rates.
"""

from collections.abc import Sequence

from generation.llm.types import Message
from mhb_site.benchmarks.medhal import simulate_detection, simulate_generation


class MedHalModels:
    """MedHal's script of simulated models (`generation.llm.simulator.script.Script`)."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        reply = simulate_generation.reply(model, messages, seed)
        return simulate_detection.reply(model, messages, seed) if reply is None else reply


SCRIPT = MedHalModels()
