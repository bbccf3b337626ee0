"""Reference traces: which are kept or rejected, and why, in both presets; corrections, review
shares, supervision."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from generation.llm.types import Message, Request
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
from tests.benchmarks import models
from tests.benchmarks.models import CUT_OFF

SHA = "ab" * 32
GOOD = (
    "[Visual Recognition]\nThe right angle is blunted.\n\n[Knowledge Recall]\nFluid blunts the angle.\n\n"
    "[Reasoning]\nSo there is fluid.\n[Answer] %s"
)
pytestmark = pytest.mark.plain


class ScriptedModels(models.Models):
    """Models with scripted replies by role, the last of which is repeated."""

    def __init__(self, **replies: Any) -> None:
        super().__init__(frozenset(replies))
        self.replies = {role: list(texts) if isinstance(texts, list) else [texts] for role, texts in replies.items()}

    def reply_to(self, role: str, request: Request) -> str:
        replies = self.replies[role]
        text: str = replies.pop(0) if len(replies) > 1 else replies[0]
        return text


RIGHT, WRONG = (json.dumps({"answer_reasoning": "Compared.", "answer_correct": n}) for n in (1, 0))
AGREES, CONFLICTS = (json.dumps({"reason": "Read.", "consistent": n}) for n in (1, 0))


def draft(preset: str = "paper", *, content: Mapping[str, Any] | None = None, **fields: Any) -> Draft:
    content_fields = {
        "kind": "vqa", "question": "Is there fluid?", "options": [], "answer": "yes", "letter": "", "question_type": "yes_no",
        "dataset": "vqa-rad", "split": "test", "images": [SHA], "body_system": "chest", **(content or {}),
    }  # fmt: skip
    record = Record("test-1", content_fields["question"], "en", content_fields)
    settings = next(entry.values for entry in presets.PRESETS if entry.name == preset)
    return replace(Draft(record, taxonomy.TERMS, settings=settings), **fields)


CHOICE = {
    "options": [["A", "Air"], ["B", "Fluid"]], "answer": "Fluid", "letter": "B", "question_type": "multiple_choice",
}  # fmt: skip


@pytest.mark.parametrize("answer", ["yes", " Yes. ", "NO"])
def test_a_short_answer_is_a_choice_of_yes_and_no(answer: str) -> None:
    found = recipe.labelled({**draft().record.content, "answer": answer})
    assert found is not None
    assert found.answers[found.right.index(True)].casefold() in answer.casefold()
    assert recipe.labelled({**draft().record.content, "answer": "yesterday"}) is None


def run_recipe(start: Draft, models: ScriptedModels) -> Draft:
    """Return the draft after all steps that apply to it."""

    async def run() -> Draft:
        draft = start
        for step in recipe.RECIPE.steps:
            assert isinstance(step, Step)
            if step.applies(draft):
                [draft] = await step.run(draft, models)
        return draft

    return asyncio.run(run())


def status_of(start: Draft, models: ScriptedModels) -> str:
    """Return 'kept', or the status of the last candidate if the draft is dropped."""

    async def run() -> str:
        draft = start
        for step in recipe.RECIPE.steps:
            assert isinstance(step, Step)
            if not step.applies(draft):
                continue
            try:
                [draft] = await step.run(draft, models)
            except Dropped as dropped:
                reason = str(dropped)
                return reason and str(draft.data["candidates"][-1]["status"])
        return "kept"

    return asyncio.run(run())


def test_the_generator_sees_the_images_and_not_the_answer() -> None:
    models = ScriptedModels(generator=GOOD % "yes", judge=[RIGHT, AGREES])
    finished = run_recipe(draft(content={"answer": "a secret answer"}), models)
    [(role, request), *judging] = models.requests
    assert role == "generator"
    assert [image.sha256 for message in request.messages for image in message.images] == [SHA]
    assert "a secret answer" not in str(request.messages)
    assert (request.temperature, request.top_p, request.max_tokens) == (0.7, 0.9, 4096)
    assert [bool(request.messages[-1].images) for _role, request in judging] == [False, True], (
        "eq. 4: J(trace, image, answer)"
    )
    assert {request.temperature for _role, request in judging} == {0.01}
    sample = recipe.sample(finished)
    assert sample.content["trace"]["visual"] == "The right angle is blunted."
    assert [rubric.key for rubric in sample.rubrics] == ["visual", "knowledge", "reasoning", "answer"]
    assert sample.task == "vqa-rad"
    case = review.case(sample, "c", 1)
    assert isinstance(case.blocks[0], Images)
    assert case.blocks[0].pictures[0].alt == "Is there fluid?"


@pytest.mark.parametrize(
    ("preset", "trace", "judge", "status"),
    [
        ("paper", GOOD % "yes", [RIGHT, AGREES], "kept"),
        ("paper", "It is so.", [RIGHT], "invalid"),
        ("paper", f"{GOOD % 'yes'}{CUT_OFF}", [RIGHT, AGREES], "invalid"),
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
def test_the_checks_of_the_preset_decide_the_status_of_a_trace(
    preset: str, trace: str, judge: list[str], status: str
) -> None:
    assert status_of(draft(preset), ScriptedModels(generator=trace, judge=judge, reporter="A report.")) == status


def test_an_invalid_trace_is_requested_again_if_the_preset_allows_it() -> None:
    models = ScriptedModels(generator=["No stages.", GOOD % "yes"], judge=RIGHT, reporter="A report.")
    finished = run_recipe(draft("released"), models)
    assert [candidate["status"] for candidate in finished.data["candidates"]] == ["invalid", "kept"]
    assert [request.repeat for role, request in models.requests if role == "generator"] == [0, 1], (
        "another answer each time"
    )
    assert status_of(draft("paper"), ScriptedModels(generator=["No stages.", GOOD % "yes"], judge=RIGHT)) == "invalid"


def test_a_wrong_letter_goes_to_the_judge_and_the_right_one_does_not() -> None:
    right = ScriptedModels(generator=GOOD % "B. Fluid", reporter="A report.")
    assert run_recipe(draft("released", content=CHOICE), right).data["final"]["by"] == "letter"
    wrong = ScriptedModels(generator=GOOD % "A. Fluid", judge=RIGHT, reporter="A report.")
    assert run_recipe(draft("released", content=CHOICE), wrong).data["final"]["by"] == "judge"
    paper = ScriptedModels(generator=GOOD % "B. Fluid", judge=[RIGHT, AGREES])
    assert run_recipe(draft("paper", content=CHOICE), paper).data["final"]["by"] == "judge"


def test_an_options_first_word_is_not_the_letter_of_another() -> None:
    options = [["A", "A bruise"], ["B", "Fluid"], ["C", "A torn ligament"]]
    content = {**CHOICE, "options": options, "answer": "A bruise", "letter": "A"}
    wrong = ScriptedModels(generator=GOOD % "A torn ligament", judge=WRONG, reporter="A report.")
    assert status_of(draft("released", content=content), wrong) == "wrong"
    right = ScriptedModels(generator=GOOD % "A bruise", reporter="A report.")
    assert run_recipe(draft("released", content=content), right).data["final"]["by"] == "letter"


@pytest.mark.parametrize(
    ("answer", "status"),
    [("No.", "kept"), ("Yes, definitely; no doubt", "wrong"), ("not seen", "wrong"), ("No, there is none", "kept")],
)
def test_an_answer_is_compared_as_text_where_the_judge_cannot_be_read(answer: str, status: str) -> None:
    content = {**draft().record.content, "answer": "No"}
    models = ScriptedModels(generator=GOOD % answer, judge="I cannot say.", reporter="A report.")
    assert status_of(draft("released", content=content), models) == status


def test_a_judge_that_copies_its_instructions_is_not_read() -> None:
    copied = {"answer_reasoning": "One or two sentences.", "answer_correct": 1}
    candidate = {"trace": {"visual": "", "knowledge": "", "reasoning": "", "answer": "perhaps"}}
    judge = ScriptedModels(judge=json.dumps(copied))
    start = draft(content={**CHOICE, "answer": "Pus"})
    assert asyncio.run(reference.check_answer(start, judge, candidate, ""))["by"] == ""
    judge = ScriptedModels(judge=json.dumps({"reason": "one or two sentences", "consistent": 1}))
    assert asyncio.run(reference.check_trace(start, judge, candidate))["consistent"] is None


def test_the_report_includes_all_questions_about_the_same_image() -> None:
    same_image = {**draft().record.content, "question": "Which side?", "answer": "right"}
    other_image = {**same_image, "images": ["cd" * 32], "question": "Another?"}
    start = draft("released")
    start = replace(start, record=replace(start.record, joined={"vqa-rad": (same_image, other_image)}))
    assert reference.known_pairs(start) == [
        {"question": "Is there fluid?", "answer": "yes"},
        {"question": "Which side?", "answer": "right"},
    ]
    models = ScriptedModels(generator=GOOD % "yes", judge=RIGHT, reporter="[Findings] right side")
    run_recipe(start, models)
    [judge_request] = [request for role, request in models.requests if role == "judge"]
    assert "[Findings] right side" in str(judge_request.messages)


def test_the_analysis_counts_rejections_by_reason() -> None:
    kept_data = {"candidates": [{"status": "kept", "answer": {"by": "judge"}}], "final": {"origin": "made"}}
    rejected_data = {"candidates": [{"status": "invalid"}, {"status": "wrong", "answer": {"by": "judge"}}]}
    blocks = [block for block in lineage.analysis([kept_data, kept_data, rejected_data]) if isinstance(block, Table)]
    counts = {row[0]: row[1] for row in blocks[0].rows}
    assert (counts["All"], counts["kept"], counts["rejected: invalid trace"]) == ("4", "2", "1")
    assert [row[1] for row in blocks[1].rows] == ["2", "1"]


def test_a_corrected_stage_becomes_the_next_version_without_asking_a_model() -> None:
    first = run_recipe(draft(), ScriptedModels(generator=GOOD % "yes", judge=[RIGHT, AGREES]))
    sample = recipe.sample(first)
    form = review.case(sample, "c", 1).form
    answers = Answers(
        questions={
            "visual": Answer("unsupported", "It is on the other side."),
            "visual-corrected": Answer("", "The left angle is blunted."), "knowledge": Answer("supported"),
            "reasoning": Answer("supported"), "answer": Answer("right"),
        },
        verdict="reject", reason="See there.", reason_code="stage",
    )  # fmt: skip
    reasons = tuple(rejection_reasons(form, answers))
    second = draft(version=2, previous=sample.content, reasons=reasons)
    finished = run_recipe(second, ScriptedModels())
    assert recipe.sample(finished).content["trace"] == {
        **sample.content["trace"], "visual": "The left angle is blunted.",
    }  # fmt: skip
    assert finished.data["final"]["origin"] == "corrected"


def test_the_generator_gets_the_reasons_unless_every_rejected_stage_has_a_correction() -> None:
    reasons = ("Visual recognition: Corrected: The left angle is blunted.", "Reasoning: It does not follow.")
    assert corrections.corrected_stages(reasons) == {}
    models = ScriptedModels(generator=GOOD % "yes", judge=[RIGHT, AGREES])
    run_recipe(draft(version=2, previous={"trace": {}}, reasons=reasons), models)
    assert "It does not follow." in str(models.requests[0][1].messages)
    assert corrections.corrected_stages(("知识", "Knowledge recall: 更正：积液使肋膈角变钝。 见 指南。")) == {
        "knowledge": "积液使肋膈角变钝。 见 指南。"
    }


def test_a_published_trace_is_used_unchanged() -> None:
    trace = {"visual": "a b c", "knowledge": "d e f", "reasoning": "g h i", "answer": "yes"}
    finished = run_recipe(draft(content={"kind": "vqa-trace", "trace": trace, "by": "m"}), ScriptedModels())
    assert recipe.sample(finished).content["trace"] == trace
    assert recipe.sample(finished).provenance["origin"] == "published"


@pytest.mark.parametrize("seed", range(4))
def test_the_review_share_is_drawn_evenly_from_each_stratum(seed: int) -> None:
    for stratum in ("vqa-rad / yes_no", "pathvqa / open_ended"):
        share = ReviewShare(0.1, stratum, seed)
        included = [share.includes(position) for position in range(500)]
        assert sum(included) == 50
        assert all(abs(sum(included[:n]) - 0.1 * n) <= 1 for n in range(500))
    assert not any(ReviewShare(0.0, "s", seed).includes(position) for position in range(50))
    assert all(ReviewShare(1.0, "s", seed).includes(position) for position in range(50))


def test_the_draw_differs_by_stratum_and_seed() -> None:
    draws = {
        tuple(ReviewShare(0.1, stratum, seed).includes(position) for position in range(10))
        for stratum in "abc"
        for seed in range(5)
    }
    assert len(draws) > 3


@pytest.mark.parametrize(
    ("stages", "reply"),
    [
        ("answer", "B. Fluid"),
        ("V", "[Visual Recognition]\nv v v\n\n[Answer] B. Fluid"),
        ("V+K", "[Visual Recognition]\nv v v\n\n[Knowledge Recall]\nk k k\n\n[Answer] B. Fluid"),
    ],
)
def test_supervision_examples_contain_the_requested_stages(stages: str, reply: str) -> None:
    trace = {"visual": "v v v", "knowledge": "k k k", "reasoning": "r r r", "answer": "B. Fluid"}
    content = {**draft(content=CHOICE).record.content, "trace": trace}
    example = supervision.example(content, stages)
    assert example["messages"] == [
        {"role": "user", "content": "Is there fluid?\nOptions:\nA. Air\nB. Fluid"},
        {"role": "assistant", "content": reply},
    ]


def test_a_message_without_images_is_plain_text() -> None:
    assert Message.with_images("user", "x", ()) == Message("user", "x")
