"""Traces are parsed as in the released code, and requested and judged as in the paper."""

from dataclasses import replace

import pytest

from evaluation.protocol import Rubric
from generation.llm.fencing import read_data
from mhb_site.benchmarks.clinhallu import protocol, reference
from mhb_site.benchmarks.clinhallu.judging import AnswerVerdict, StageVerdict, decide_answer, decide_stage, judge_stage
from mhb_site.benchmarks.clinhallu.protocol import PROTOCOL
from mhb_site.benchmarks.clinhallu.trace_text import Trace, read_trace
from tests.benchmarks.clinhallu.traced_release import CRITERIA, traced_sample

SHA = "a" * 64
FREE = """Some words before.
[Visual Recognition]
A shadow to the right.
[Knowledge Recall]
Livers lie to the right.
[Reasoning]
So it is the liver.
[Answer] A. Liver"""


def rubric(key: str) -> Rubric:
    return Rubric(key, CRITERIA[key])


def test_a_valid_trace_is_parsed() -> None:
    trace = read_trace(FREE)
    assert trace == Trace("A shadow to the right.", "Livers lie to the right.", "So it is the liver.", "A. Liver")
    assert trace.fault() == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (FREE.replace("[Knowledge Recall]", ""), "[Knowledge Recall] has 0 words"),
        (FREE.replace("So it is the liver.", "So liver."), "[Reasoning] has 2 words"),
        (FREE.replace("[Answer] A. Liver", ""), "no [Answer]"),
        (FREE.replace("[Answer] A. Liver", "[Answer]"), "no [Answer]"),
        ("", "[Visual Recognition] has 0 words"),
    ],
)
def test_a_trace_with_a_missing_or_too_short_part_is_invalid(text: str, fault: str) -> None:
    assert fault in read_trace(text).fault()
    decision = protocol.read(traced_sample(), rubric("answer"), "free", {}, text)
    assert decision is not None
    assert decision.verdict == "missing"


def test_headers_may_have_markup_and_the_answer_may_be_on_the_next_line() -> None:
    text = FREE.replace("[Reasoning]", "**[reasoning]**").replace("[Answer] A. Liver", "[Answer]\nA. Liver")
    assert read_trace(text).answer == "A. Liver"
    assert read_trace(text).fault() == ""


def test_each_variant_asks_with_its_own_parts_of_the_trace() -> None:
    asks = {ask.variant: ask for ask in protocol.ask(traced_sample(2, images=[SHA]), 0)}
    assert {name: ask.after for name, ask in asks.items()} == {"free": "", "rep-v": "", "rep-k": "free", "rep-vk": ""}
    data_of = {name: read_data(ask.messages[-1].text) for name, ask in asks.items()}
    assert data_of["free"] == {"QUESTION": "Which organ is it in case 2?", "OPTIONS": ["A. Liver", "B. Spleen"]}
    assert set(data_of["rep-v"]) - set(data_of["free"]) == {"VISUAL"}
    assert data_of["rep-vk"]["KNOWLEDGE"] == "Round shadows there are the spleen."
    for ask in asks.values():
        assert [image.sha256 for image in ask.messages[-1].images] == [SHA], "images are sent again"
        assert (ask.temperature, ask.top_p, ask.max_tokens) == (0.7, 0.9, 4096)

    continuation = protocol.ask_on(traced_sample(2, images=[SHA]), asks["rep-k"], {"free": FREE})
    assert continuation is not None
    data = read_data(continuation.messages[-1].text)
    assert (data["VISUAL"], data["KNOWLEDGE"]) == ("A shadow to the right.", "Round shadows there are the spleen.")
    assert replace(continuation, messages=()) == replace(asks["rep-k"], messages=())
    assert protocol.ask_on(traced_sample(2), asks["rep-k"], {"free": "[Visual Recognition]\nNone."}) is None


def test_the_judge_sees_the_whole_trace() -> None:
    sample, continuation = traced_sample(2), "[Reasoning]\nIt is the spleen.\n[Answer] B. Spleen"
    trace = read_trace(protocol.composed(sample, "rep-k", continuation, {"free": FREE}))
    assert trace.visual == "A shadow to the right."
    assert trace.knowledge == "Round shadows there are the spleen."
    assert (trace.reasoning, trace.answer, trace.fault()) == ("It is the spleen.", "B. Spleen", "")
    assert read_trace(protocol.composed(sample, "rep-vk", continuation, {})).visual.startswith("A round shadow")
    assert read_trace(protocol.composed(sample, "rep-v", "", {})).knowledge == ""
    assert protocol.composed(sample, "free", FREE, {}) == FREE


def test_each_stage_is_judged_in_the_variant_that_replaces_the_stages_before_it() -> None:
    variants_of = {
        key: [name for name in ("free", "rep-v", "rep-k", "rep-vk") if PROTOCOL.rubric_applies(key, name)]
        for key in CRITERIA
    }
    assert variants_of == {
        "visual": ["rep-k"],
        "knowledge": ["rep-v"],
        "reasoning": ["rep-vk"],
        "answer": ["free", "rep-v", "rep-k", "rep-vk"],
    }
    sample = traced_sample(2, images=[SHA])
    visual, knowledge = (judge_stage(sample, rubric(key), "", FREE) for key in ("visual", "knowledge"))
    assert [image.sha256 for image in visual.messages[-1].images] == [SHA]
    assert [image.sha256 for image in knowledge.messages[-1].images] == [SHA]
    support = read_data(knowledge.messages[-1].text)["SUPPORT"]
    assert support["candidate visual"] == "A shadow to the right."
    assert support["reference visual"].startswith("A round shadow")
    assert "SUPPORT" not in read_data(visual.messages[-1].text)
    assert decide_stage(StageVerdict(reason="r", hallucinated=1)).verdict == "hallucinated"
    assert decide_answer(AnswerVerdict(answer_reasoning="r", answer_correct=1)).verdict == "correct"


def test_the_reference_has_the_same_parts_as_a_trace() -> None:
    sample = traced_sample(2)
    reordered = dict(sorted(sample.content["trace"].items()))  # a database may return the keys in another order
    reordered_sample = replace(sample, content={**sample.content, "trace": reordered})
    assert protocol.reference(reordered_sample) == protocol.reference(sample)
    labels = [label for label, _text in protocol.parts("")]
    texts = [text for _label, text in protocol.parts(protocol.reference(traced_sample(2)))]
    assert labels == ["Visual recognition", "Knowledge recall", "Reasoning", "Answer"]
    assert all(texts)
    assert texts[-1] == "B. Spleen"


def test_the_paper_shows_every_judge_the_images_and_the_released_code_the_visual_one_alone() -> None:
    sample = traced_sample(2, images=[SHA, "b" * 64])
    shown = {}
    for preset in ("", "paper", "released"):
        for key in CRITERIA:
            judging = PROTOCOL.judging(key, preset)
            assert judging is not None
            [*_before, last] = judging.judge(sample, rubric(key), "free", FREE).messages
            told = "\n".join(message.text for message in (*_before, last))
            shown[preset, key] = len(last.images)
            assert ("do not see the images" in told) == (not last.images)
            assert ("image 1, image 2" in told) == bool(last.images), "frames are numbered"
    assert {(preset, key) for (preset, key), n in shown.items() if not n} == {
        ("released", key) for key in ("answer", "knowledge", "reasoning")
    }


def test_reference_and_candidate_are_asked_for_the_same_stages() -> None:
    candidate, generator = (prompt.turns[0][1] for prompt in (protocol.QUESTIONS["free"], reference.REFERENCE))
    stages = [
        text[text.index("[Visual Recognition]") : text.index("- If the question asks")]
        for text in (candidate, generator)
    ]
    assert stages[0] == stages[1]


def test_judges_are_told_how_to_treat_hedging() -> None:
    for key in CRITERIA:
        judging = PROTOCOL.judging(key)
        assert judging is not None
        assert (
            "hedg" in judging.judge(traced_sample(2, images=[SHA]), rubric(key), "free", FREE).messages[0].text.lower()
        )
