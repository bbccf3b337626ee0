"""A made-up mistake, and MedMistake's simulated models without HTTP."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from generation.llm.types import Request
from generation.recipes.recipe import Draft, Record
from mhb_site.benchmarks.medmistake import presets, replication, simulate_replication
from tests.benchmarks import models

CONVERSATION = [
    {"role": "patient", "text": "My knee has hurt for 3 days. What can I take against it, please?"},
    {"role": "doctor", "text": "Do you take any other tablets?"},
    {"role": "patient", "text": "Only the ones against clots, for my heart rhythm."},
    {"role": "doctor", "text": "Then take 400 mg of ibuprofen with food."},
]
MISTAKE = {
    "title": "Ibuprofen advised with an anticoagulant",
    "description": "The doctor advised ibuprofen to a patient who takes an anticoagulant, which raised the risk of bleeding.",
    "category": "medication-safety",
    "reason": "The answer was not connected with the advice.",
    "tags": ["interaction"],
    "risk": "high",
    "turns": [4],
    "members": [],
}
GOOD = {
    "scenario": "My knee has hurt for 3 days and I take tablets against clots for my heart rhythm. What can I take?",
    "must": "Advise against ibuprofen with an anticoagulant.",
}
HARDER = {**GOOD, "scenario": GOOD["scenario"].replace("My knee", "Since the weekend my knee")}


def draft(**fields: Any) -> Draft:
    record = Record("case-1", "A painful knee", "en", {"kind": "case"})
    data = {"mistake": MISTAKE, "conversation": CONVERSATION, "doctor": "sim-doctor", "case": {}}
    return replace(Draft(record, data=data, settings=presets.DEFAULTS), **fields)


NAMES = {
    "writer": "sim-writer", "checker": "sim-checker", "target_1": "sim-average", "target_2": "sim-careful",
    "replication_judge": "sim-judge",
}  # fmt: skip


class Models(models.Models):
    """The simulated models, unless `scripted` has replies for a role."""

    def __init__(
        self, scripted: Mapping[str, list[Any]] | None = None, *, names: Mapping[str, str] = NAMES, seed: int = 1
    ) -> None:
        super().__init__()
        self.scripted, self.names, self.seed = scripted or {}, names, seed

    def model(self, role: str) -> str:
        return self.names[role]

    def has(self, role: str) -> bool:
        return role in self.names

    def reply_to(self, role: str, request: Request) -> str:
        queue = self.scripted.get(role)
        if queue:
            reply = queue.pop(0)
            return reply if isinstance(reply, str) else json.dumps(reply)
        text = simulate_replication.SCRIPT.reply(self.names[role], request.messages, self.seed)
        assert text is not None, f"{role} does not answer {request.prompt}"
        return text

    def prompts(self, role: str) -> list[str]:
        """Return the labels of the prompts sent to a role."""
        return [request.prompt for asked_role, request in self.requests if asked_role == role]

    def text_sent_to(self, role: str) -> str:
        requests = [request for asked_role, request in self.requests if asked_role == role]
        return "\n".join(message.text for request in requests for message in request.messages)


async def run_steps(start: Draft, models: Models) -> list[Draft]:
    """Run all replication steps that apply, in order; returns the resulting drafts."""
    drafts = [start]
    for step in replication.STEPS:
        next_drafts: list[Draft] = []
        for draft in drafts:
            next_drafts += await step.run(draft, models) if step.applies(draft) else [draft]
        drafts = next_drafts
    return drafts
