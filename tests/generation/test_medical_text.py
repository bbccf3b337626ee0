"""Medical texts that say the same and texts that do not, by a table of hand-written pairs."""

from pathlib import Path

import pytest

from generation.common.medical_text import (
    chosen_letter,
    contains_text,
    is_same_answer,
    is_same_text,
    numbers,
    text_key,
    words,
)

pytestmark = pytest.mark.plain
# kind, first, second. 'same': the same text. 'answer': the same answer in other words. 'other':
# neither. In the style of real rows, with \u escapes for characters that editors hide.
PAIRS = [line.split("\t") for line in Path(__file__).with_name("medical_pairs.tsv").read_text("utf-8").splitlines()[1:]]


def unescaped(text: str) -> str:
    for code in ("00a0", "00ad", "200b", "202f"):
        text = text.replace(f"\\u{code}", chr(int(code, 16))).replace(f"\\x{code[2:]}", chr(int(code, 16)))
    return text


def test_there_are_thousands_of_pairs_of_all_kinds() -> None:
    kinds = [kind for kind, _first, _second in PAIRS]
    assert len(PAIRS) >= 2500
    assert min(kinds.count(kind) for kind in ("same", "answer", "other")) >= 25


def test_pairs_are_told_as_people_tell_them() -> None:
    wrong = []
    for kind, first, second in PAIRS:
        given, true = unescaped(first), unescaped(second)
        same = is_same_text(given, true), is_same_text(true, given), is_same_answer(given, true)
        if same != (kind == "same", kind == "same", kind != "other"):
            wrong.append((kind, first, second))
    assert not wrong


def test_words_are_single_characters_where_a_script_has_no_spaces() -> None:
    assert words("Ｆｅｖｅｒ of 38.5°C：发热") == ["fever", "of", "38.5", "c", "发", "热"]
    assert words("5mg/kg") == ["5", "mg", "/", "kg"]
    assert numbers("T-score −2.5 in 1,000 of 10⁹ il6") == ["-2.5", "1000", "10", "^9"]


@pytest.mark.parametrize(
    ("text", "part", "within"),
    [
        ("Take 15 mg daily.", "5 mg", False),
        ("Take 15 mg daily.", "15\u00a0MG", True),
        ("No fracture is seen.", "a fracture", False),
        ("T-score −2.5", "2.5", False),
        ("双侧β地中海贫血", "β-地中海贫血", True),
        ("anything", " . ", False),
    ],
)
def test_a_part_of_a_text_is_found_by_whole_words(text: str, part: str, within: bool) -> None:
    assert contains_text(text, part) is within


def test_a_text_without_words_is_its_own_key() -> None:
    assert (text_key("5 mg/kg."), text_key(" ? "), text_key("!")) == ("5 mg / kg", "?", "!")


OPTIONS = {"A": "Fluid", "B": "No fluid", "C": "A torn ligament", "D": "E. coli", "E": "None"}


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("A", "A"),
        ("(a)", "A"),
        ("A. Fluid", "A"),
        ("Ａ．Fluid", "A"),
        ("**B**", "B"),
        ("B) no fluid is seen", "B"),
        ("The correct answer is (C)", "C"),
        ("Option E", "E"),
        ("选B", "B"),
        ("fluid.", "A"),
        ("A torn ligament", "C"),
        ("E. coli", "D"),
        ("A fracture of hip", ""),
        ("A mass", ""),
        ("E. coli infection", ""),
        ("B. Fluid", ""),  # the letter of one and the text of another
        ("A. Fluid is wrong", ""),
        ("A. Fluid, not C", ""),
        ("A or B", ""),
        ("I think so", ""),
        ("F", ""),
        ("", ""),
    ],
)
def test_an_answer_chooses_an_option_only_for_certain(answer: str, letter: str) -> None:
    assert chosen_letter(answer, OPTIONS) == letter


def test_a_letter_that_is_also_another_options_text_chooses_neither() -> None:
    groups = {"A": "B", "B": "A", "C": "AB"}
    assert [chosen_letter(answer, groups) for answer in ("A", "AB", "C", "B. A")] == ["", "C", "C", "B"]
    assert chosen_letter("A", {"A": "A", "B": "B"}) == "A"


def test_options_that_differ_only_in_case_are_told_by_their_text() -> None:
    assert chosen_letter("Mg", {"A": "mg", "B": "Mg"}) == "B"
    assert chosen_letter("4.6", {"A": "4.6", "B": "4.6"}) == ""


def test_a_letter_before_a_text_that_begins_like_its_own_is_no_choice() -> None:
    options = {"A": "Fracture", "B": "Fracture of the hip", "C": "Do not treat"}
    assert [
        chosen_letter(answer, options) for answer in ("A. Fracture of the hip", "A. Fracture", "C. Do not treat")
    ] == [
        "",
        "A",
        "C",
    ]
