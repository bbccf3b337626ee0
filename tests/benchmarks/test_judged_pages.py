"""Physicians who check a judge are given what the judge was given, as a page in the benchmark's own
blocks, with the judge's rule, and without marks of prompts."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.utils import translation

from bench.rows import TRAPS, TURNS
from evaluation.protocol import Protocol, Rubric, Sample
from generation.llm.fencing import read_data
from mhb_site.benchmarks.clinhallu.protocol import PROTOCOL as CLINHALLU
from mhb_site.benchmarks.clinhallu.trace_text import ANSWER, write_stages
from mhb_site.benchmarks.healthbench.protocol import PROTOCOL as HEALTHBENCH
from mhb_site.benchmarks.medmistake.protocol import PROTOCOL as MEDMISTAKE
from mhb_site.benchmarks.mhb import judging
from mhb_site.benchmarks.mhb.protocol import PROTOCOL as MHB
from review.rules.blocks import Text

TRACE = {"visual": "Air under the diaphragm.", "knowledge": "Free air means perforation.",
         "reasoning": "So a hollow organ has perforated.", "answer": "B. Perforation"}  # fmt: skip
OWN = {"visual": "The lungs are clear on both sides.", "knowledge": "Clear lungs exclude pneumonia.",
       "reasoning": "So nothing is wrong here."}  # fmt: skip
NAMED_TRAPS = [{**TRAPS[0], "name": "Non-existent Entity"}]
CASES: dict[str, tuple[Protocol, dict[str, Any], str, list[Rubric]]] = {
    "mhb": (MHB, {"task": "dialogue", "turns": TURNS, "traps": NAMED_TRAPS}, "Take 5 mg.", [Rubric("R1", "Says so.", ("A1",))]),
    "mhb-report": (MHB, {"task": "report", "report": "A man.", "question": "Why?", "traps": NAMED_TRAPS}, "Because.",
                   [Rubric("R1", "Says so.", ("A1",)), Rubric("R2", "Says no dose.", ("A1",))]),
    "clinhallu": (
        CLINHALLU,
        {"question": "What is seen?", "options": [["A", "Pneumonia"], ["B", "Perforation"]], "answer": "Perforation",
         "letter": "B", "images": ["0" * 64], "trace": TRACE},
        f"{write_stages(**OWN).rstrip()}\n{ANSWER} A. Pneumonia",
        [Rubric(key, "c") for key in ("answer", "visual", "knowledge", "reasoning")],
    ),
    "medmistake": (
        MEDMISTAKE,
        {"scenario": "A woman with chest pain.", "must": "Asks for an ECG.",
         "mistake": {"title": "No ECG", "description": "The doctor asked for none.", "turns": [2], "risk": "high"}},
        "Rest.", [Rubric("R1", "Asks for an ECG.")],
    ),
    "healthbench": (HEALTHBENCH, {"turns": TURNS}, "Drink water.", [Rubric("R1", "Recommends fluids.")]),
}  # fmt: skip


def words(value: Any) -> Iterator[str]:
    """All texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from words(each)
    elif isinstance(value, list):
        for each in value:
            yield from words(each)


@pytest.mark.parametrize("name", CASES)
def test_the_page_shows_everything_that_the_judge_is_given(name: str) -> None:
    protocol, content, text, rubrics = CASES[name]
    sample = Sample("s", "", content)
    assert protocol.judged_page is not None
    page = " ".join(str(block) for block in protocol.judged_page(sample, rubrics, "", text))
    for rubric in rubrics:
        of_rubric = protocol.judging(rubric.key)
        assert of_rubric is not None
        request = of_rubric.judge(sample, rubric, "", text)
        given = {key: value for key, value in read_data(request.messages[-1].text).items() if key != "CRITERION"}
        shown_as = {"user", "assistant", "A1"}  # turns have translated speakers, traps their names
        missing = [each for each in words(given) if each not in shown_as and each not in page]
        missing = [each for each in missing if not re.fullmatch(r"[AB]\. .*", each)]  # options are a table
        assert not missing
    assert "<<<" not in page
    assert "<report>" not in page


@pytest.mark.parametrize("name", CASES)
def test_the_rule_is_the_judges(name: str) -> None:
    protocol, content, text, rubrics = CASES[name]
    sample = Sample("s", "", content)
    assert protocol.judged_page is not None
    page = protocol.judged_page(sample, rubrics, "", text)
    rules = [block.text for block in page if isinstance(block, Text) and block.title.startswith("The judge's rule")]
    judgings = [(rubric, protocol.judging(rubric.key)) for rubric in rubrics]
    requests = [of_rubric.judge(sample, rubric, "", text) for rubric, of_rubric in judgings if of_rubric]
    told = [" ".join(request.messages[0].text.split()) for request in requests]
    assert rules
    assert all(any(" ".join(rule.split()) in each for each in told) for rule in rules)


@pytest.mark.parametrize("name", CASES)
def test_the_rule_is_in_the_physicians_language(name: str) -> None:
    protocol, content, text, rubrics = CASES[name]
    assert protocol.judged_page is not None
    page = protocol.judged_page(Sample("s", "", content), rubrics, "", text)
    rules = [block for block in page if isinstance(block, Text) and block.tone == "rule"]
    assert rules == [block for block in page if block.title.startswith("The judge's rule")]
    with translation.override("zh-hans"):
        for rule in rules:
            html = render_to_string("review/blocks/text.html", {"block": rule, "number": 1, "language": "en"})
            assert len(re.findall("[\u4e00-\u9fff]", html)) > len(rule.text) / 8
            assert rule.text[:60] not in html


def test_who_judges_a_stage_does_not_see_how_the_trace_ended() -> None:
    """As the judge, which the paper gives the stage and those before it (equation 12)."""
    _protocol, content, text, _rubrics = CASES["clinhallu"]
    seen = {}
    for stage in OWN:
        page = CLINHALLU.judged_page(Sample("s", "", content), [Rubric(stage, "c")], "", text)  # type: ignore[misc]
        seen[stage] = [own for own, words_of_it in OWN.items() if words_of_it in str(page)]
        assert "A. Pneumonia" not in str(page).replace("('A', 'Pneumonia')", "")
    assert seen == {"visual": ["visual"], "knowledge": ["visual", "knowledge"], "reasoning": list(OWN)}


def test_mhbs_rule_says_what_a_criterion_is_and_how_to_decide() -> None:
    protocol, content, text, rubrics = CASES["mhb"]
    assert protocol.judged_page is not None
    page = protocol.judged_page(Sample("s", "", content), rubrics, "", text)
    shown = " ".join(" ".join(block.text for block in page if isinstance(block, Text)).split())
    told = " ".join(judging.judge_one(content, "Says so.", ("A1",), text).messages[0].text.split())
    rule, _heading, _form = told.partition(f"## {judging.RULE} ")[2].partition(" ## Answer")
    assert "Not met if" in rule
    assert rule in shown
