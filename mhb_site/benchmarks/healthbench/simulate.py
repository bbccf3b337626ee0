"""HealthBench's simulated judge, which finds a random share `MET` of criteria met.

Models under test give the simulator's general answers.
"""

from typing import Any

from generation.llm.simulator.script import Asked, PromptTable, chance
from mhb_site.benchmarks.healthbench.protocol import JUDGE

MET = 0.5


def _judge(asked: Asked) -> dict[str, Any]:
    met = chance(asked.seed, "healthbench", asked.data["RESPONSE"], asked.data["CRITERION"]) < MET
    return {"explanation": "By lot.", "criteria_met": met}


SCRIPT = PromptTable({JUDGE.heading: (("sim-judge",), _judge)})
