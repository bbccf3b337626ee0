"""HealthBench's simulated judge, which finds a random share `MET` of criteria met.

Models under test give the simulator's general answers.
"""

import json
from collections.abc import Sequence

from generation.llm.fencing import read_data
from generation.llm.simulator.script import chance
from generation.llm.types import Message
from mhb_site.benchmarks.healthbench.protocol import JUDGE

MET = 0.5


class HealthBenchModels:
    """HealthBench's script of simulated models (`generation.llm.simulator.script.Script`)."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        if model != "sim-judge" or messages[0].text.partition("\n")[0] != JUDGE.turns[0][1].partition("\n")[0]:
            return None
        data = read_data(messages[-1].text)
        met = chance(seed, "healthbench", data["RESPONSE"], data["CRITERION"]) < MET
        return json.dumps({"explanation": "By lot.", "criteria_met": met})


SCRIPT = HealthBenchModels()
