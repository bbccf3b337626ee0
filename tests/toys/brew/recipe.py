"""The writer makes remarks on a note; a pair becomes a sample unchanged."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from generation.llm.types import EMBEDDINGS, Message, Request
from generation.recipes.recipe import Draft, ModelRole, Models, NewRubric, NewSample, Preset, Recipe, per_draft
from review.rules.blocks import Block, Point, Points, Text

NOTE = frozenset({"note"})


def _questions(draft: Draft) -> Sequence[tuple[str, str]]:
    remarks = [("writer", "brew/write@1")] * int(draft.settings["tries"])
    return [*remarks, ("critic", "brew/taste@1"), ("embedder", EMBEDDINGS)]


async def write(draft: Draft, models: Models) -> Sequence[Draft]:
    """Write as many remarks as the preset asks for, and measure their similarity to the note.

    The similarity is left out where no embedder is bound.
    """
    note = str(draft.record.content["text"])
    top_p = draft.settings["top_p"]
    remarks = []
    for number in range(int(draft.settings["tries"])):
        question = Request((Message("user", f"Remark {number} on: {note}"),), prompt="brew/write@1", top_p=top_p)
        remarks.append((await models.ask("writer", question)).text)
    await models.ask("critic", Request((Message("user", f"Taste: {note}"),), prompt="brew/taste@1"))
    similarities: list[float] = []
    if models.has("embedder"):
        note_vector, *remark_vectors = await models.embed("embedder", [note, *remarks])
        similarities = [sum(a * b for a, b in zip(note_vector, vector, strict=True)) for vector in remark_vectors]
    return [replace(draft, data={"remarks": remarks, "near": similarities, "settings": dict(draft.settings)})]


def sample(draft: Draft) -> NewSample:
    """A record whose text ends with a full stop is not drawn for review."""
    text = str(draft.record.content["text"])
    return NewSample(
        task="tasting",
        title=draft.record.title,
        language="en",
        content={"text": text, "remarks": draft.data.get("remarks", []), "settings": draft.data.get("settings", {})},
        rubrics=(NewRubric("R1", "Says what it tastes of.", ("S",)),),
        prompt="brew/write@1",
        provenance={
            "similarity": "embeddings" if draft.data.get("near") else "none",
            "review": "not sampled" if text.endswith(".") else "sampled",
        },
    )


def lineage(data: Mapping[str, Any]) -> Sequence[Block]:
    """Each remark, and its similarity to the note."""
    points = tuple(Point(place, value, f"Remark {place}") for place, value in enumerate(data.get("near", ())))
    remarks = [Text("Remark", remark) for remark in data.get("remarks", ())]
    return [*remarks, Points("Nearness of remarks", "remark", "nearness", points)]


def analysis(drafts: Iterable[Mapping[str, Any]]) -> Sequence[Block]:
    """The similarity of all remarks of a batch."""
    points = [
        Point(len(remark), similarity, remark[:20], size=place + 1, group=f"try {place}")
        for data in drafts
        for place, (remark, similarity) in enumerate(zip(data["remarks"], data["near"], strict=False))
    ]
    return [Points("All remarks", "length", "nearness", tuple(points))]


RECIPE = Recipe(
    label="Brew",
    kinds=frozenset({"note", "pair"}),
    roles=(
        ModelRole("writer", "Writer", kinds=NOTE),
        ModelRole("taster", "Taster", default="writer", kinds=NOTE),
        ModelRole("critic", "Critic", default="taster", kinds=NOTE),
        ModelRole("embedder", "Embedder", optional=True, kinds=NOTE),
    ),
    steps=(per_draft(write, applies=lambda draft: draft.record.content["kind"] == "note", asks=_questions),),
    sample=sample,
    presets=(
        Preset("usual", "The usual one", "One try, as we like it.", {"tries": 1, "top_p": 0.95}),
        Preset(
            "patient", "The patient one", "Three tries, as the paper has it.", {"tries": 3, "top_p": None, "cut": 0.75}
        ),
    ),
    lineage=lineage,
    analysis=analysis,
)
