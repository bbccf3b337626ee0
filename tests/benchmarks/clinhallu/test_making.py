"""Reference traces: what is kept, what is rejected and why, in both presets; corrections, shares for review, supervision."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel, ValidationError

from generation.llm.errors import BrokenReply
from generation.llm.types import Message, Reply, Request
from generation.recipes.recipe import Draft, Dropped, Record, Step
from generation.recipes.review_sampling import ReviewShare
from mhb_site.benchmarks.clinhallu import (
    corrections,
    lineage,
    presets,
    recipe,
    reference,
    review,
    supervision,
    taxonomy,
)
from review.rules.blocks import Images, Table
from review.rules.consolidation import rejection_reasons
from review.rules.questions import Answer, Answers

T = TypeVar("T", bound=BaseModel)
SHA = "ab" * 32
GOOD = (
    "[Visual Recognition]\nThe right angle is blunted.\n\n[Knowledge Recall]\nFluid blunts the angle.\n\n"
    "[Reasoning]\nSo there is fluid.\n[Answer] %s"
)
pytestmark = pytest.mark.plain


class Saying:
    """Models that say what a test wants, by role; the last word is repeated. `asked` has the requests."""

    def __init__(self, **words: Any) -> None:
        self.words = {role: list(said) if isinstance(said, list) else [said] for role, said in words.items()}
        self.asked: list[tuple[str, Request]] = []

    def model(self, role: str) -> str:
        return role

    def has(self, role: str) -> bool:
        return role in self.words

    async def ask(self, role: str, request: Request, *, check: Any = None) -> Reply:
        self.asked.append((role, request))
        said = self.words[role]
        return Reply(said.pop(0) if len(said) > 1 else said[0])

    async def ask_structured(
        self, role: str, request: Request, shape: type[T], *, check: Callable[[T], None] | None = None
    ) -> T:
        reply = await self.ask(role, request)
        try:
            return shape.model_validate_json(reply.text)
        except ValidationError:
            raise BrokenReply("It is not JSON as asked for.") from None

    async def embed(self, role: str, texts: Any) -> Any:
        raise NotImplementedError


RIGHT, WRONG = (json.dumps({"answer_reasoning": "Compared.", "answer_correct": n}) for n in (1, 0))
AGREES, CONFLICTS = (json.dumps({"reason": "Read.", "consistent": n}) for n in (1, 0))


def draft(preset: str = "paper", *, content: Mapping[str, Any] | None = None, **changes: Any) -> Draft:
    about = {
        "kind": "vqa", "question": "Is there fluid?", "options": [], "answer": "yes", "letter": "", "question_type": "yes_no",
        "dataset": "vqa-rad", "split": "test", "images": [SHA], "body_system": "chest", **(content or {}),
    }  # fmt: skip
    record = Record("test-1", about["question"], "en", about)
    settings = next(each.values for each in presets.PRESETS if each.name == preset)
    return replace(Draft(record, taxonomy.TERMS, settings=settings), **changes)


CHOICE = {
    "options": [["A", "Air"], ["B", "Fluid"]], "answer": "Fluid", "letter": "B", "question_type": "multiple_choice",
}  # fmt: skip


def made(start: Draft, models: Saying) -> Draft:
    """The draft after all steps that apply."""

    async def run() -> Draft:
        one = start
        for step in recipe.RECIPE.steps:
            assert isinstance(step, Step)
            if step.applies(one):
                [one] = await step.run(one, models)
        return one

    return asyncio.run(run())


def status_of(start: Draft, models: Saying) -> str:
    """What became of the first candidate, where the draft is dropped."""

    async def run() -> str:
        one = start
        for step in recipe.RECIPE.steps:
            assert isinstance(step, Step)
            if not step.applies(one):
                continue
            try:
                [one] = await step.run(one, models)
            except Dropped as dropped:
                reason = str(dropped)
                return reason and str(one.data["candidates"][-1]["status"])
        return "kept"

    return asyncio.run(run())


def test_the_generator_sees_the_images_and_not_the_answer() -> None:
    models = Saying(generator=GOOD % "yes", judge=[RIGHT, AGREES])
    done = made(draft(content={"answer": "a secret answer"}), models)
    [(role, request), *judging] = models.asked
    assert role == "generator"
    assert [image.sha256 for message in request.messages for image in message.images] == [SHA]
    assert "a secret answer" not in str(request.messages)
    assert (request.temperature, request.top_p, request.max_tokens) == (0.7, 0.9, 4096)
    assert [bool(each.messages[-1].images) for _role, each in judging] == [False, True], (
        "eq. 4: J(trace, image, answer)"
    )
    assert {each.temperature for _role, each in judging} == {0.01}
    sample = recipe.sample(done)
    assert sample.content["trace"]["visual"] == "The right angle is blunted."
    assert [rubric.key for rubric in sample.rubrics] == ["visual", "knowledge", "reasoning", "answer"]
    assert sample.task == "vqa-rad"
    case = review.case(sample, "c", 1)
    assert isinstance(case.blocks[0], Images)
    assert case.blocks[0].pictures[0].alt == "Is there fluid?"


@pytest.mark.parametrize(
    ("preset", "said", "judge", "status"),
    [
        ("paper", GOOD % "yes", [RIGHT, AGREES], "kept"),
        ("paper", "It is so.", [RIGHT], "invalid"),
        ("paper", (GOOD % "yes").replace("The right angle is blunted", "Fluid seen"), [RIGHT], "invalid"),
        ("paper", GOOD % "", [RIGHT], "invalid"),
        ("paper", GOOD % "no", [WRONG], "wrong"),
        ("paper", GOOD % "yes", [RIGHT, CONFLICTS], "inconsistent"),
        ("paper", GOOD % "yes", ["Certainly."], "unjudged"),
        ("paper", GOOD % "yes", [RIGHT, "Certainly."], "unjudged"),
        ("released", GOOD % "yes", [RIGHT], "kept"),
        ("released", GOOD % "Yes, there is", ["Certainly."], "kept"),
        ("released", GOOD % "no", ["Certainly."], "wrong"),
        ("released", GOOD % "no", [WRONG], "wrong"),
    ],
)
def test_what_is_kept_and_what_is_rejected(preset: str, said: str, judge: list[str], status: str) -> None:
    assert status_of(draft(preset), Saying(generator=said, judge=judge, reporter="A report.")) == status


def test_an_invalid_trace_is_asked_for_again_where_the_preset_says_so() -> None:
    models = Saying(generator=["No stages.", GOOD % "yes"], judge=RIGHT, reporter="A report.")
    done = made(draft("released"), models)
    assert [each["status"] for each in done.data["candidates"]] == ["invalid", "kept"]
    assert [request.repeat for role, request in models.asked if role == "generator"] == [0, 1], (
        "another answer each time"
    )
    assert status_of(draft("paper"), Saying(generator=["No stages.", GOOD % "yes"], judge=RIGHT)) == "invalid"


def test_the_right_letter_needs_no_judge_and_a_wrong_one_does() -> None:
    right = Saying(generator=GOOD % "B. Fluid", reporter="A report.")
    assert made(draft("released", content=CHOICE), right).data["final"]["by"] == "letter"
    wrong = Saying(generator=GOOD % "A. Fluid", judge=RIGHT, reporter="A report.")
    assert made(draft("released", content=CHOICE), wrong).data["final"]["by"] == "judge"
    paper = Saying(generator=GOOD % "B. Fluid", judge=[RIGHT, AGREES])
    assert made(draft("paper", content=CHOICE), paper).data["final"]["by"] == "judge"


@pytest.mark.parametrize(
    ("answer", "letter"), [("B. Fluid", "B"), ("(b)", "B"), ("b", "B"), ("B) x", "B"), ("Bone", ""), ("", "")]
)
def test_letters(answer: str, letter: str) -> None:
    assert reference.letter_of(answer) == letter


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Yes.", "yes", True),
        ("the left lung", "Left lung", True),
        ("pleural effusions", "pleural effusoins", True),
        ("left", "right", False),
        ("", "yes", False),
    ],
)
def test_text_comparison(one: str, other: str, same: bool) -> None:
    assert reference.is_same_text(one, other) is same


def test_the_report_knows_all_that_was_asked_of_the_image() -> None:
    other = {**draft().record.content, "question": "Which side?", "answer": "right"}
    elsewhere = {**other, "images": ["cd" * 32], "question": "Another?"}
    start = draft("released")
    start = replace(start, record=replace(start.record, joined={"vqa-rad": (other, elsewhere)}))
    assert reference.known_pairs(start) == [
        {"question": "Is there fluid?", "answer": "yes"},
        {"question": "Which side?", "answer": "right"},
    ]
    models = Saying(generator=GOOD % "yes", judge=RIGHT, reporter="[Findings] right side")
    made(start, models)
    [asked] = [request for role, request in models.asked if role == "judge"]
    assert "[Findings] right side" in str(asked.messages)


def test_the_analysis_counts_what_was_rejected_and_why() -> None:
    kept = {"candidates": [{"status": "kept", "answer": {"by": "judge"}}], "final": {"origin": "made"}}
    wrong = {"candidates": [{"status": "invalid"}, {"status": "wrong", "answer": {"by": "judge"}}]}
    blocks = [each for each in lineage.analysis([kept, kept, wrong]) if isinstance(each, Table)]
    counts = {row[0]: row[1] for row in blocks[0].rows}
    assert (counts["All"], counts["kept"], counts["rejected: invalid trace"]) == ("4", "2", "1")
    assert [row[1] for row in blocks[1].rows] == ["2", "1"]


def test_a_corrected_stage_is_the_next_version_and_no_model_is_asked() -> None:
    first = made(draft(), Saying(generator=GOOD % "yes", judge=[RIGHT, AGREES]))
    sample = recipe.sample(first)
    form = review.case(sample, "c", 1).form
    note = "It is on the other side. Corrected: The left angle is blunted."
    answers = Answers(
        questions={
            "visual": Answer("unsupported", note), "knowledge": Answer("supported"),
            "reasoning": Answer("supported"), "answer": Answer("right"),
        },
        verdict="reject", reason="See there.", reason_code="stage",
    )  # fmt: skip
    held = tuple(rejection_reasons(form, answers))
    again = draft(version=2, previous=sample.content, reasons=held)
    done = made(again, Saying())
    assert recipe.sample(done).content["trace"] == {
        **sample.content["trace"], "visual": "The left angle is blunted.",
    }  # fmt: skip
    assert done.data["final"]["origin"] == "corrected"


def test_without_a_text_for_every_stage_the_generator_gets_the_reasons() -> None:
    held = ("Visual recognition: Corrected: The left angle is blunted.", "Reasoning: It does not follow.")
    assert corrections.corrected_stages(held) == {}
    models = Saying(generator=GOOD % "yes", judge=[RIGHT, AGREES])
    made(draft(version=2, previous={"trace": {}}, reasons=held), models)
    assert "It does not follow." in str(models.asked[0][1].messages)
    assert corrections.corrected_stages(("知识", "Knowledge recall: 更正：积液使肋膈角变钝。 见 指南。")) == {
        "knowledge": "积液使肋膈角变钝。 见 指南。"
    }


def test_a_published_trace_is_taken_as_it_is() -> None:
    trace = {"visual": "a b c", "knowledge": "d e f", "reasoning": "g h i", "answer": "yes"}
    done = made(draft(content={"kind": "vqa-trace", "trace": trace, "by": "m"}), Saying())
    assert recipe.sample(done).content["trace"] == trace
    assert recipe.sample(done).made["origin"] == "published"


@pytest.mark.parametrize("seed", range(4))
def test_a_share_is_taken_evenly_of_each_stratum(seed: int) -> None:
    for stratum in ("vqa-rad / yes_no", "pathvqa / open_ended"):
        share = ReviewShare(0.1, stratum, seed)
        taken = [share.includes(place) for place in range(500)]
        assert sum(taken) == 50
        assert all(abs(sum(taken[:n]) - 0.1 * n) <= 1 for n in range(500))
    assert not any(ReviewShare(0.0, "s", seed).includes(place) for place in range(50))
    assert all(ReviewShare(1.0, "s", seed).includes(place) for place in range(50))


def test_the_lot_differs_by_stratum_and_seed() -> None:
    starts = {
        tuple(ReviewShare(0.1, stratum, seed).includes(place) for place in range(10))
        for stratum in "abc"
        for seed in range(5)
    }
    assert len(starts) > 3


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ("answer", "B. Fluid"),
        ("V", "[Visual Recognition]\nv v v\n\n[Answer] B. Fluid"),
        ("V+K", "[Visual Recognition]\nv v v\n\n[Knowledge Recall]\nk k k\n\n[Answer] B. Fluid"),
    ],
)
def test_supervision_says_the_stages_that_are_asked_for(stages: str, said: str) -> None:
    trace = {"visual": "v v v", "knowledge": "k k k", "reasoning": "r r r", "answer": "B. Fluid"}
    content = {**draft(content=CHOICE).record.content, "trace": trace}
    example = supervision.example(content, stages)
    assert example["messages"] == [
        {"role": "user", "content": "Is there fluid?\nOptions:\nA. Air\nB. Fluid"},
        {"role": "assistant", "content": said},
    ]


def test_messages_show_nothing_without_images() -> None:
    assert Message.with_images("user", "x", ()) == Message("user", "x")
