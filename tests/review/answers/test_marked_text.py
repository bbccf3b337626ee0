"""A text cut into pieces: changes, overlapping highlights, and the start of a trap."""

import re
from html.parser import HTMLParser

import pytest
from django.template import Context
from hypothesis import given, settings
from hypothesis import strategies as st

from review.answers.marked_text import TextMark, pieces, trap_place
from review.rules.blocks import (
    Dialogue,
    Diff,
    Highlight,
    Table,
    Text,
    Turn,
    highlight_faults,
    locate_highlight,
    passage_texts,
)
from review.rules.diffing import Span, diff_words
from review.rules.text import character_edges, widened
from review.templatetags.review_blocks import marked_text, show_block

TEXT = "请问👩‍⚕️ <b>Neurostatin</b> & more"
TEXTS = {"1.1": TEXT, "2.1": "Take Neurostatin twice, then Neurostatin once."}


def highlight_at(key: str, start: int, end: int, label: str = "odd") -> Highlight:
    return Highlight(TEXTS[key][start:end], label, key, start, end)


def test_highlights_at_their_stated_place_are_accepted() -> None:
    assert (
        highlight_faults(
            [highlight_at("1.1", 2, 6), highlight_at("1.1", 3, 9), highlight_at("2.1", 5, 16)], {"odd"}, TEXTS, {}
        )
        == []
    )


@pytest.mark.parametrize(
    ("highlight", "fault"),
    [
        (Highlight("Neurostatin", "odd", "9.9", 0, 11), "highlight-misplaced"),
        (Highlight("Neurostatin", "odd", "2.1", 6, 17), "highlight-misplaced"),
        (Highlight("", "odd", "2.1", 5, 5), "highlight-misplaced"),
        (Highlight("once.", "odd", "2.1", -5, 46), "highlight-misplaced"),
        (Highlight("Neurostatin", "odd"), "highlight-misplaced"),
        (Highlight("Take", "other", "2.1", 0, 4), "unknown-value"),
        (Highlight("Take", "odd", "2.1", 0, 4, first_look=True), "highlight-misplaced"),
    ],
)
def test_a_misplaced_highlight_is_reported(highlight: Highlight, fault: str) -> None:
    assert [code for _field, code in highlight_faults([highlight], {"odd"}, TEXTS, {})] == [fault]


def test_the_same_words_twice_under_one_label_are_a_duplicate() -> None:
    twice = [highlight_at("2.1", 0, 4), highlight_at("2.1", 0, 4), highlight_at("2.1", 0, 4, "trap")]
    assert highlight_faults(twice, {"odd", "trap"}, TEXTS, {}) == [("highlight.2.quote", "highlight-duplicate")]


def test_words_without_a_place_are_located_and_a_correct_place_is_kept() -> None:
    assert locate_highlight(Highlight("Neurostatin"), {"2.1": TEXTS["2.1"]}).start == 5
    second = highlight_at("2.1", 29, 40)
    assert second.quote == "Neurostatin"
    assert locate_highlight(second, TEXTS) == second
    assert locate_highlight(Highlight(" 请问 "), TEXTS).end == 2
    assert locate_highlight(Highlight("nowhere", passage="2.1", start=0, end=7), TEXTS).passage == ""


def test_offsets_count_code_points_on_both_sides_of_a_comparison() -> None:
    texts = passage_texts([Diff("Talk", (Turn("user", "a👍b"),), (Turn("user", "a👍c"),)), Dialogue("More", ())])
    assert texts == {"1.1": "a👍c", "1.1.source": "a👍b"}


class _Nesting(HTMLParser):
    """Asserts that elements are closed in order, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag == "mark", tag
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


RANGES = st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)), st.integers(1, 3)), max_size=6)


@given(RANGES, st.booleans())
@settings(max_examples=60, deadline=None)
def test_overlapping_marks_are_escaped_and_well_nested(ranges: list[tuple[int, int, int]], by_other: bool) -> None:
    marks = [
        TextMark(start, end, f"<L{n}>", n, "First reviewer" if by_other and n == 1 else "")
        for start, end, n in ranges
        if start < end
    ]
    parser = _Nesting()
    parser.feed(marked_text(TEXT, {"1.1": marks}, "1.1"))
    assert parser.text == TEXT
    assert parser.open == []


@given(RANGES, st.sampled_from(["Take it.", "Take Neurostatin it.", "请问", ""]))
@settings(max_examples=60, deadline=None)
def test_pieces_add_up_to_the_text_and_each_mark_covers_its_words(
    ranges: list[tuple[int, int, int]], before: str
) -> None:
    edges = character_edges(TEXT)
    marks = [TextMark(*widened(edges, start, end), "L", n) for start, end, n in ranges if start < end]
    cut = pieces(diff_words(before, TEXT), marks, [(3, 1)])
    assert "".join(piece.text for piece in cut if piece.op != "delete") == TEXT
    assert "".join(piece.text for piece in cut if piece.op != "insert") == before
    for mark in marks:
        assert "".join(piece.text for piece in cut if mark in piece.marks) == TEXT[mark.start : mark.end]
    assert sum(len(piece.traps) for piece in cut) == 1


def test_a_trap_is_placed_at_the_words_that_it_quotes() -> None:
    spans = diff_words("Take it at night.", "Take it with Neurostatin at night, ten tablets of it.")
    explanations = ["No register knows “Neurostatin”.", "Invented."]
    text = "".join(span.text for span in spans if span.op != "delete")
    assert text[trap_place(spans, explanations)[0] :].startswith("Neurostatin")


def test_the_words_that_the_location_of_a_trap_quotes_are_marked_in_the_question() -> None:
    question = Text("Question", "Registries pool rare courses. What does the Castell registry say?", tone="question")
    row = ("A5", "Research fabrication", "the question: “Castell registry”", "It is presupposed.", "None exists.")
    columns = ("Code", "Trap", "Location", "What is false", "Why it is false")
    traps = Table("Traps", columns, (row,), tone="trap", places=((1,),))
    page = show_block(Context(), question, 1, "en", among=(question, traps))
    assert re.findall("<mark[^>]*>([^<]*)</mark>", page) == ["Castell registry"]


def test_turns_are_numbered_and_empty_cells_left_out_of_what_is_judged() -> None:
    page = show_block(Context(), Dialogue("Talk", (Turn("Patient", "May I?"), Turn("Doctor", "No."))), 1, "en")
    assert re.findall(r"(\d) (Patient|Doctor)", page) == [("1", "Patient"), ("2", "Doctor")]
    label = Table("Label", ("Label", "Explanation"), (("factual", ""),))
    assert "Explanation" not in show_block(Context(), label, 1, "en", within="Is the label right?")


def test_a_trap_is_placed_at_the_change_with_most_shared_words_else_at_the_first() -> None:
    spans = (
        Span("equal", "Take "),
        Span("insert", "Neurostatin "),
        Span("equal", "and "),
        Span("insert", "ten tablets."),
    )
    assert trap_place(spans, ["Ten tablets are too many."])[0] == len("Take Neurostatin and ")
    assert trap_place(spans, ["Something else."])[0] == len("Take ")
    one_insert = (Span("insert", " Scans hurt, 2.5 times more. A low CRP excludes it. "),)
    assert trap_place(one_insert, ["CRP excludes nothing."])[0] == len(" Scans hurt, 2.5 times more. ")
    assert trap_place(one_insert, ["Scans are harmless."])[0] == 1
    assert trap_place((Span("equal", "Take "), Span("delete", "none.")), ["It is."])[0] == 5
    assert trap_place((Span("equal", "Take it."),), [])[0] == 0


def test_words_of_a_trap_end_with_its_sentence_and_are_none_where_nothing_is_shared() -> None:
    question = "It says that the drug is old. By the rule that order is cause, what came first?"
    spans = (Span("insert", question),)
    start, end = trap_place(spans, ["The order is taken for the cause of the rest."])
    assert question[start:end] == "By the rule that order is cause, what came first?"
    assert trap_place(spans, ["Nothing else."]) == (0, 0)


@pytest.mark.parametrize("text", ["👩‍⚕️", "कि", "น้ำ", "دَّ", "🇫🇷", "e\u0301", "\u1112\u1161\u11ab"])
def test_a_mark_is_widened_to_whole_characters(text: str) -> None:
    inside = TextMark(1 + len(text) - 1, 1 + len(text), "odd", 1)
    cut = pieces([Span("equal", f"x{text}y")], [inside], [(2, 7)])
    assert [(piece.text, bool(piece.marks), piece.traps) for piece in cut] == [
        ("x", False, ()),
        (text, True, (7,)),
        ("y", False, ()),
    ]
    found = locate_highlight(Highlight(text[-1], "odd", "1.1", len(text), len(text) + 1), {"1.1": f"x{text}y"})
    assert (found.quote, found.start, found.end) == (text, 1, 1 + len(text))


def test_words_are_found_in_another_unicode_form_and_marked_on_either_side() -> None:
    text = "Le me\u0301decin dort."
    found = locate_highlight(Highlight("m\u00e9decin", "odd"), {"1.1": text})
    assert (found.quote, found.start, found.end) == ("me\u0301decin", 3, 11)
    spans = diff_words(text, "Le m\u00e9decin mange.")
    for source, words in ((True, "me\u0301decin"), (False, "m\u00e9decin")):
        cut = pieces(spans, [TextMark(3, 3 + len(words), "odd", 1)], source=source)
        assert [piece.text for piece in cut if piece.marks] == [words]
