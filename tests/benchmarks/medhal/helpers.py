"""Made-up records of every kind, and MedHal's simulated models without HTTP."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from generation.llm.fencing import read_data
from generation.llm.types import Message, Reply, Request
from generation.recipes.recipe import Draft, NewSample, Record, Step
from mhb_site.benchmarks.medhal import presets, recipe, simulate_generation
from mhb_site.benchmarks.medhal.pair_steps import SETS

ABSTRACT = (
    "sixty made-up adults with a made-up fever took part in this trial of a made-up drug over the course of twelve weeks. "
    "short here. "
    "the made-up drug lowered the fever of most of them within two days, and no serious harm was seen in any of them at all. "
    "we conclude that the made-up drug deserves to be studied further in larger trials of people with this made-up fever."
)
MCQ: Mapping[str, Any] = {
    "kind": "mcq",
    "dataset": "medmcqa",
    "question": "A man has a made-up fever. Which drug lowers it?",
    "options": {"A": "Fancicillin", "B": "Madeupin", "C": "Water", "D": "Salt"},
    "answer": "B",
    "explanation": "Ans. b Madeupin lowers made-up fever.",
    "subject": "Medicine",
    "topic": "",
    "choice": "single",
    "split": "train",
}
NOTE: Mapping[str, Any] = {
    "kind": "note",
    "dataset": "acn",
    "text": "A 16-year-old girl has had neck pain for 4 months.",
    "extractions": [
        {"category": "patient information", "concept": "age", "value": "16 years old", "reference": ""},
        {"category": "symptoms", "concept": "time", "value": "4 months", "reference": "neck pain"},
    ],
    "split": "train",
}
ARTICLE: Mapping[str, Any] = {
    "kind": "article",
    "dataset": "sumpubmed",
    "text": "BACKGROUND\na made-up fever is common. sixty adults took part.",
    "abstract": ABSTRACT,
    "shorter_abstract": "",
    "split": "train",
}
PREMISE: Mapping[str, Any] = {
    "kind": "nli-entailment",
    "dataset": "mednli",
    "premise": "Creatinine was 1.7, baseline 0.5.",
    "hypothesis": "Creatinine was 1.7.",
    "label": "entailment",
    "split": "train",
}
CONTRADICTION = {**PREMISE, "kind": "nli-contradiction", "hypothesis": "The patient has normal kidneys."}
STATEMENT: Mapping[str, Any] = {
    "kind": "statement",
    "statement": "Madeupin lowers made-up fever.",
    "context": "",
    "label": "factual",
    "explanation": "",
    "task": "qa",
    "source": "medqa",
    "pair": "",
    "inner_id": "7",
    "split": "test",
    "synthetic": False,
}
KINDS = {"mcq": MCQ, "note": NOTE, "article": ARTICLE, "nli": PREMISE, "statement": STATEMENT}


class OtherValues:
    """Values of other records, given by name; `draws` records what was drawn."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        self.draws: list[tuple[str, Collection[str], str]] = []

    async def draw(self, name: str, excluded: Collection[str], seed: str) -> str | None:
        self.draws.append((name, excluded, seed))
        return self.values.get(name)


OTHER_VALUES = {"patient information/age": "60 years old", "symptoms/time": "two weeks"}


def draft(content: Mapping[str, Any] = MCQ, name: str = "r-1", preset: str = "paper", **settings: Any) -> Draft:
    values = next(entry.values for entry in presets.PRESETS if entry.name == preset)
    joined = {"mednli": (CONTRADICTION,)} if content["kind"].startswith("nli") else {}
    record = Record(name, "A record", "en", content, joined)
    return Draft(
        record,
        prompts="released" if preset == "released" else "",
        settings={**values, **settings},
        other_values=OtherValues(OTHER_VALUES),
    )


class Models:
    """Models whose replies `reply_to` computes from role and messages; `requests` records the
    calls."""

    def __init__(self, reply_to: Callable[[str, Sequence[Message]], str]) -> None:
        self.reply_to = reply_to
        self.requests: list[tuple[str, Request]] = []

    def has(self, role: str) -> bool:
        return True

    async def ask(self, role: str, request: Request, *, check: Callable[[str], None] | None = None) -> Reply:
        self.requests.append((role, request))
        reply = Reply(self.reply_to(role, request.messages))
        if check is not None:
            check(reply.text)
        return reply


def simulated_models(seed: int = 1) -> Models:
    def reply_to(role: str, messages: Sequence[Message]) -> str:
        model = simulate_generation.GENERATOR if role == "generator" else simulate_generation.FILTER
        return simulate_generation.SCRIPT.reply(model, messages, seed) or ""

    return Models(reply_to)


def scripted_models(**replies: str) -> Models:
    """Models that give the same reply to every request for a role."""
    return Models(lambda role, _messages: replies[role])


def honest_models() -> Models:
    """The simulated generator with a filter that is never wrong."""

    def reply_to(role: str, messages: Sequence[Message]) -> str:
        if role == "generator":
            return simulate_generation.SCRIPT.reply(simulate_generation.GENERATOR, messages, 1) or ""
        heading = messages[0].text.partition("\n")[0]
        [name] = {name for prompts in SETS.values() for name, prompt in prompts.items() if prompt.heading == heading}
        return "YES" if simulate_generation._is_true(name, read_data(messages[-1].text)) else "NO"

    return Models(reply_to)


def run_recipe(first: Draft, models: Any) -> list[Draft]:
    """Run all steps of the recipe, as the engine does. Raises Dropped where a step drops a
    draft."""

    async def steps() -> list[Draft]:
        drafts = [first]
        for step in recipe.RECIPE.steps:
            assert isinstance(step, Step)
            next_drafts: list[Draft] = []
            for draft in drafts:
                next_drafts += await step.run(draft, models) if step.applies(draft) else [draft]
            drafts = next_drafts
        return drafts

    return asyncio.run(steps())


def make_samples(first: Draft, models: Any) -> list[NewSample]:
    """The samples of a record: of each pair first the factual one, whatever their drawn order."""
    drafts = sorted(run_recipe(first, models), key=lambda draft: (draft.data.get("place", ""), draft.data["label"]))
    return [recipe.sample(draft) for draft in drafts]


def without_other_values(draft: Draft) -> Draft:
    return replace(draft, other_values=OtherValues({}))
