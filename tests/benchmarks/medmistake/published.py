"""A file in the format of MedMistake's larger release, with made-up scenarios for the simulated
models."""

import json
from pathlib import Path

from mhb_site.benchmarks.medmistake import simulate_replication

QUESTION = simulate_replication._QUESTIONS["en"]
TARGETS = ("sim-average", "sim-careful")


def scenario(number: int) -> str:
    return f"Patient {number} writes: my knee hurts and I take tablets against clots. {QUESTION}"


def write_published_file(path: Path, count: int) -> Path:
    """Write a file of `count` mistakes, each repeated by both targets."""
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
