"""Made-up records, models that say what a test wants, and MedHallu's simulated models without HTTP."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from generation.llm.errors import BrokenReply
from generation.llm.fencing import read_data
from generation.llm.types import Message, Reply, Request
from generation.recipes.recipe import Draft, NewSample, Record, Step
from mhb_site.benchmarks.medhallu import presets, recipe, simulate_generation, taxonomy

T = TypeVar("T", bound=BaseModel)

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


def candidate(answer: str = WRONG, **changes: str) -> dict[str, str]:
    return {"answer": answer, "justification": "The findings are swapped.", "category": "MQ", **changes}


def worded(number: int, words: int = 28) -> str:
    """A wrong answer of so many words, another one for every number."""
    return " ".join(["Wrong", f"number{number}", *["word"] * (words - 2)])


def qa_draft(preset: str = "ours", **changes: Any) -> Draft:
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
    (prompts,) = (each.prompts for each in presets.PRESETS if each.name == preset)
    return replace(Draft(record, taxonomy.TERMS, prompts=prompts, settings=settings(preset)), **changes)


def pair_draft(**changes: Any) -> Draft:
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
    return replace(
        Draft(Record("p-1", QUESTION, "en", content, joined), taxonomy.TERMS, settings=settings()), **changes
    )


def settings(preset: str = "ours", **changes: Any) -> dict[str, Any]:
    (values,) = (each.values for each in presets.PRESETS if each.name == preset)
    return {**values, **changes}


@dataclass
class Models:
    """`generation.recipes.recipe.Models` in memory. As the gateway it asks twice for what `check` refuses."""

    bound: frozenset[str] = frozenset(role.name for role in recipe.RECIPE.roles if role.name != "embedder")
    vectors: Mapping[str, Sequence[float]] = field(default_factory=dict)
    requests: list[tuple[str, Request]] = field(default_factory=list)

    def said(self, role: str, request: Request) -> str:
        raise AssertionError(f"a test says what {role} answers to {request.prompt}")

    def model(self, role: str) -> str:
        return role

    def has(self, role: str) -> bool:
        return role in self.bound

    async def embed(self, role: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        assert role == "embedder"
        return [self.vectors[text] for text in texts]

    async def ask(self, role: str, request: Request, *, check: Any = None) -> Reply:
        assert role in self.bound
        self.requests.append((role, request))
        return Reply(self.said(role, request))

    async def ask_structured(
        self, role: str, request: Request, shape: type[T], *, check: Callable[[T], None] | None = None
    ) -> T:
        for last in (False, True):
            text = (await self.ask(role, request)).text
            try:
                made = shape.model_validate_json(text, strict=True)
                if check is not None:
                    check(made)
                return made
            except (BrokenReply, ValidationError) as error:
                if last:
                    raise BrokenReply(str(error)) from None
                refusal = f"Your last reply cannot be used. {error} Answer again with one JSON object as asked for."
                request = replace(
                    request, messages=(*request.messages, Message("assistant", text), Message("user", refusal))
                )
        raise AssertionError

    def asked(self, prompt: str) -> list[Request]:
        """The requests made by the prompt of this name."""
        return [request for _role, request in self.requests if request.prompt.partition("@")[0].endswith(f"/{prompt}")]


@dataclass
class Fake(Models):
    """Says what a test wants. `new` and `rewritten`: the replies of generator and critic, the last one over and over.

    By answer: `fooled`: how many of the voters it fools; `scores`: its entailment (the truth follows, it follows).
    """

    new: list[Any] = field(default_factory=lambda: [candidate()])
    rewritten: list[Any] = field(default_factory=lambda: [candidate()])
    fooled: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    votes: Mapping[str, str] = field(default_factory=dict)  # by role, whatever is shown
    scored: Callable[[str, str], float] | None = None

    def said(self, role: str, request: Request) -> str:
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
            return json.dumps({"score": self._score(blocks["PREMISE"], blocks["HYPOTHESIS"])})
        replies = self.rewritten if name == "rewrite" else self.new
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        return reply if isinstance(reply, str) else json.dumps(reply)

    def _vote(self, voter: int, blocks: Mapping[str, str]) -> str:
        first = blocks["FIRST"] == TRUTH
        made = blocks["SECOND" if first else "FIRST"].partition("\n")[0]
        fooled = voter <= self.fooled.get(made, 0)
        return "2" if fooled == first else "1"

    def _score(self, premise: str, hypothesis: str) -> float:
        if self.scored is not None:
            return self.scored(premise, hypothesis)
        forward, backward = self.scores.get(premise if hypothesis == TRUTH else hypothesis, (0.1, 0.1))
        return forward if hypothesis == TRUTH else backward


MODEL_OF = {
    "generator": simulate_generation.GENERATOR,
    "critic": simulate_generation.CRITIC,
    "entailment": simulate_generation.NLI,
    **{f"voter_{number}": model for number, model in enumerate(simulate_generation.VOTERS, 1)},
}


@dataclass
class Simulated(Models):
    """The simulated models."""

    seed: int = 0

    def said(self, role: str, request: Request) -> str:
        text = simulate_generation.reply(MODEL_OF[role], request.messages, self.seed)
        assert text is not None, request.prompt
        return text


def run(draft: Draft, models: Models) -> Draft:
    """The draft after all steps of the recipe that apply to it, stored as JSON after each."""

    async def steps() -> Draft:
        now = draft
        for step in recipe.RECIPE.steps:
            assert isinstance(step, Step)
            if step.applies(now):
                (now,) = await step.run(now, models)
                now = replace(now, data=json.loads(json.dumps(now.data)))
        return now

    return asyncio.run(steps())


def made(draft: Draft, models: Models) -> NewSample:
    return recipe.sample(run(draft, models))


def all_candidates(draft: Draft) -> list[dict[str, Any]]:
    return [each for tried in draft.data["tries"] for each in tried["candidates"]]
