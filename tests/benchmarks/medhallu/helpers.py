"""Made-up records, models with scripted replies, and MedHallu's simulated models without HTTP."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from generation.llm.fencing import read_data
from generation.llm.types import Request
from generation.recipes.recipe import Draft, NewSample, Record, Step
from mhb_site.benchmarks.medhallu import presets, recipe, simulate_generation, taxonomy
from tests.benchmarks import models

QUESTION = "Does a walk after each meal lower blood glucose in adults with type 2 diabetes?"
TRUTH = (
    "Short walks after meals lowered glucose after the evening meal more than one daily walk of the same length, while glucose"
    " before breakfast did not change in these adults."
)
CONTEXTS = ["Sixty adults walked after each meal for two weeks, or once a day for two weeks.", "Glucose was measured."]
WRONG = (
    "Short walks after meals lowered glucose before breakfast more than one daily walk of the same length, while glucose after"
    " the evening meal did not change in these adults."
)
HEADINGS = (
    {"kind": "term", "name": "Blood Glucose", "trees": ["D09.947.875.359.448.500"]},
    {"kind": "term", "name": "Diabetes Mellitus, Type 2", "trees": ["C18.452.394.750.149", "C19.246.300"]},
    {"kind": "term", "name": "Walking", "trees": ["G11.427.410.698.277.937", "I03.350.877"]},
)


def candidate(answer: str = WRONG, **fields: str) -> dict[str, str]:
    return {"answer": answer, "justification": "The findings are swapped.", "category": "MQ", **fields}


def wrong_answer(number: int, words: int = 28) -> str:
    """Return a wrong answer of this many words, different for each number."""
    return " ".join(["Wrong", f"number{number}", *["word"] * (words - 2)])


def qa_draft(preset: str = "ours", **fields: Any) -> Draft:
    content = {
        "kind": "qa",
        "question": QUESTION,
        "contexts": CONTEXTS,
        "sections": ["METHODS", "RESULTS"],
        "answer": TRUTH,
        "decision": "yes",
        "pmid": "90000001",
        "year": "2019",
        "mesh": ["Blood Glucose", "Diabetes Mellitus, Type 2", "Walking", "Humans"],
        "split": "labelled",
    }
    record = Record("90000001", QUESTION, "en", content, {"mesh": HEADINGS})
    (prompts,) = (entry.prompts for entry in presets.PRESETS if entry.name == preset)
    return replace(Draft(record, taxonomy.TERMS, prompts=prompts, settings=settings(preset)), **fields)


def pair_draft(**fields: Any) -> Draft:
    content = {
        "kind": "qa-pair",
        "question": QUESTION,
        "knowledge": CONTEXTS,
        "answer": TRUTH,
        "hallucinated": WRONG,
        "difficulty": "hard",
        "category": "II",
        "split": "labelled",
    }
    joined = {"pubmedqa": (qa_draft().record.content,), "mesh": HEADINGS}
    return replace(Draft(Record("p-1", QUESTION, "en", content, joined), taxonomy.TERMS, settings=settings()), **fields)


def settings(preset: str = "ours", **changes: Any) -> dict[str, Any]:
    (values,) = (entry.values for entry in presets.PRESETS if entry.name == preset)
    return {**values, **changes}


@dataclass
class Models(models.Models):
    """Models that by default have all roles except that of embeddings."""

    bound: frozenset[str] = frozenset(role.name for role in recipe.RECIPE.roles if role.name != "embedder")

    def requests_for(self, prompt: str) -> list[Request]:
        """Return the requests that used the prompt of this name."""
        return [request for _role, request in self.requests if request.prompt.partition("@")[0].endswith(f"/{prompt}")]


@dataclass
class FakeModels(Models):
    """Models with scripted replies.

    The last of the `generator_replies` and `rewrite_replies` is repeated. By answer: `fooled` is
    the number of voters that it fools, `scores` its entailment scores (the truth follows from it,
    it follows from the truth).
    """

    generator_replies: list[Any] = field(default_factory=lambda: [candidate()])
    rewrite_replies: list[Any] = field(default_factory=lambda: [candidate()])
    fooled: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    votes: Mapping[str, str] = field(default_factory=dict)  # by role, whatever answers are shown
    entailment_score: Callable[[str, str], float] | None = None

    def reply_to(self, role: str, request: Request) -> str:
        name = request.prompt.partition("@")[0].rpartition("/")[2]
        blocks: dict[str, Any] = {}
        for message in request.messages:
            if message.role == "user":
                blocks |= read_data(message.text)
        if name == "vote":
            return self.votes.get(role) or self._vote(int(role[-1]), blocks)
        if name == "critique":
            return json.dumps({"wording": "Too bold.", "structure": "Too plain.", "advice": "Be subtler."})
        if name == "entail":
            percent = round(100 * self._score(blocks["PREMISE"], blocks["HYPOTHESIS"]))
            return json.dumps({"percent": percent})
        replies = self.rewrite_replies if name == "rewrite" else self.generator_replies
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        return reply if isinstance(reply, str) else json.dumps(reply)

    def _vote(self, voter: int, blocks: Mapping[str, str]) -> str:
        first = blocks["FIRST"] == TRUTH
        hallucinated = blocks["SECOND" if first else "FIRST"].partition("\n")[0]
        is_fooled = voter <= self.fooled.get(hallucinated, 0)
        return "2" if is_fooled == first else "1"

    def _score(self, premise: str, hypothesis: str) -> float:
        if self.entailment_score is not None:
            return self.entailment_score(premise, hypothesis)
        forward, backward = self.scores.get(premise if hypothesis == TRUTH else hypothesis, (0.1, 0.1))
        return forward if hypothesis == TRUTH else backward


MODEL_OF = {
    "generator": simulate_generation.GENERATOR,
    "critic": simulate_generation.CRITIC,
    "entailment": simulate_generation.NLI,
    **{f"voter_{number}": model for number, model in enumerate(simulate_generation.VOTERS, 1)},
}


@dataclass
class SimulatedModels(Models):
    """The simulated models."""

    seed: int = 0

    def reply_to(self, role: str, request: Request) -> str:
        text = simulate_generation.SCRIPT.reply(MODEL_OF[role], request.messages, self.seed)
        assert text is not None, request.prompt
        return text


def run_recipe(draft: Draft, models: Models) -> Draft:
    """Return the draft after all steps of the recipe that apply to it; its data passes through JSON
    after each."""

    async def steps() -> Draft:
        current = draft
        for step in recipe.RECIPE.steps:
            assert isinstance(step, Step)
            if step.applies(current):
                (current,) = await step.run(current, models)
                current = replace(current, data=json.loads(json.dumps(current.data)))
        return current

    return asyncio.run(steps())


def make_sample(draft: Draft, models: Models) -> NewSample:
    return recipe.sample(run_recipe(draft, models))


def all_candidates(draft: Draft) -> list[dict[str, Any]]:
    return [row for attempt in draft.data["tries"] for row in attempt["candidates"]]
