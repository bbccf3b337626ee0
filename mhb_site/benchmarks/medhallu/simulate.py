"""MedHallu's simulated models: those of the making side, and the models under test. Each side publishes its true rates."""

from collections.abc import Sequence

from generation.llm.types import Message
from mhb_site.benchmarks.medhallu import simulate_detection, simulate_generation


class MedHalluModels:
    """The simulated models in MedHallu (`generation.llm.simulator.script.Script`), known by the first lines of its prompts."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        said = simulate_generation.reply(model, messages, seed)
        return simulate_detection.reply(model, messages, seed) if said is None else said


SCRIPT = MedHalluModels()
