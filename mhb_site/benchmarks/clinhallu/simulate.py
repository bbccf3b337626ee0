"""ClinHallu's simulated models for generation, and the models under test with their judges."""

from collections.abc import Mapping
from typing import Any

from generation.llm.simulator.script import Scripts
from mhb_site.benchmarks.clinhallu import simulate_answers, simulate_generation
from mhb_site.benchmarks.clinhallu.judging import true_answer


class ClinHalluModels(Scripts):
    """ClinHallu's script; tests and the demo tell its models what an image shows."""

    def learn(self, record: Mapping[str, Any]) -> None:
        """Store the true answer of a record, so that models can recognise its image."""
        if record.get("images") and isinstance(record.get("answer"), str):
            simulate_answers.LABELS[record["question"], record["images"][0]] = true_answer({"letter": "", **record})


SCRIPT = ClinHalluModels((simulate_generation.SCRIPT, simulate_answers.SCRIPT))
