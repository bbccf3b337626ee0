"""MedMistake's larger file, with made-up scenarios that its simulated models answer."""

import json
from pathlib import Path

from mhb_site.benchmarks.medmistake import simulate_replication

QUESTION = simulate_replication._QUESTIONS["en"]
TARGETS = ("sim-average", "sim-careful")


def scenario(number: int) -> str:
    return f"Patient {number} writes: my knee hurts and I take tablets against clots. {QUESTION}"


def file_of(path: Path, count: int) -> Path:
    """So many mistakes, each repeated by both targets."""
    path.write_text(
        json.dumps(
            [
                {
                    "mistake_title": f"Mistake {number}",
                    "rationale": f"The doctor made mistake {number}.",
                    "category": ("medication-safety", "clinical-reasoning")[number % 2],
                    "risk": ("high", "low")[number % 2],
                    "all_tested_scenarios": [
                        {
                            "scenario": scenario(number),
                            "model": model,
                            "response": "It did.",
                            "same_mistake_happened": True,
                        }
                        for model in TARGETS
                    ],
                }
                for number in range(count)
            ]
        )
    )
    return path
