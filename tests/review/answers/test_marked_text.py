"""A text in pieces: changes, highlights that overlap, and the words at which a trap begins."""

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from review.answers.marked_text import TextMark, pieces, trap_offset
from review.rules.blocks import Dialogue, Diff, Highlight, Turn, highlight_faults, locate_highlight, passage_texts
from review.rules.diffing import Span, diff_words
from review.templatetags.review_blocks import marked_text

TEXT = "请问👩‍⚕️ <b>Neurostatin</b> & more"
TEXTS = {"1.1": TEXT, "2.1": "Take Neurostatin twice, then Neurostatin once."}


def at(key: str, start: int, end: int, label: str = "odd") -> Highlight:
    return Highlight(TEXTS[key][start:end], label, key, start, end)


def test_a_highlight_that_is_where_it_says_is_right() -> None:
    assert highlight_faults([at("1.1", 2, 6), at("1.1", 3, 9), at("2.1", 5, 16)], {"odd"}, TEXTS, {}) == []


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
def test_a_highlight_that_is_not_is_named(highlight: Highlight, fault: str) -> None:
    assert [code for _field, code in highlight_faults([highlight], {"odd"}, TEXTS, {})] == [fault]


def test_the_same_words_twice_under_one_label_are_one_too_many() -> None:
    twice = [at("2.1", 0, 4), at("2.1", 0, 4), at("2.1", 0, 4, "trap")]
    assert highlight_faults(twice, {"odd", "trap"}, TEXTS, {}) == [("highlight.2.quote", "highlight-duplicate")]


def test_words_alone_are_found_and_a_place_is_kept_where_it_is_right() -> None:
    assert locate_highlight(Highlight("Neurostatin"), {"2.1": TEXTS["2.1"]}).start == 5
    second = at("2.1", 29, 40)
    assert second.quote == "Neurostatin"
    assert locate_highlight(second, TEXTS) == second
    assert locate_highlight(Highlight(" 请问 "), TEXTS).end == 2
    assert locate_highlight(Highlight("nowhere", passage="2.1", start=0, end=7), TEXTS).passage == ""


def test_offsets_count_code_points_of_both_sides_of_a_comparison() -> None:
    texts = passage_texts([Diff("Talk", (Turn("user", "a👍b"),), (Turn("user", "a👍c"),)), Dialogue("More", ())])
    assert texts == {"1.1": "a👍c", "1.1.source": "a👍b"}


class _Nesting(HTMLParser):
    """Refuses elements that are not closed in order; keeps the text."""

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
def test_overlapping_marks_are_escaped_and_well_nested(ranges: list[tuple[int, int, int]], other: bool) -> None:
    found = [
        TextMark(start, end, f"<L{n}>", n, "First reviewer" if other and n == 1 else "")
        for start, end, n in ranges
        if start < end
    ]
    read = _Nesting()
    read.feed(marked_text(TEXT, {"1.1": found}, "1.1"))
    assert read.text == TEXT
    assert read.open == []


@given(RANGES, st.sampled_from(["Take it.", "Take Neurostatin it.", "请问", ""]))
@settings(max_examples=60, deadline=None)
def test_pieces_are_the_text_and_each_mark_covers_its_words(ranges: list[tuple[int, int, int]], before: str) -> None:
    marked = [TextMark(start, end, "L", n) for start, end, n in ranges if start < end]
    cut = pieces(diff_words(before, TEXT), marked, [(3, 1)])
    assert "".join(piece.text for piece in cut if piece.op != "delete") == TEXT
    assert "".join(piece.text for piece in cut if piece.op != "insert") == before
    for mark in marked:
        assert "".join(piece.text for piece in cut if mark in piece.marks) == TEXT[mark.start : mark.end]
    assert sum(len(piece.traps) for piece in cut) == 1


def test_a_trap_stands_at_the_words_that_it_quotes() -> None:
    spans = diff_words("Take it at night.", "Take it with Neurostatin at night, ten tablets of it.")
    said = ["No register knows “Neurostatin”.", "Invented."]
    text = "".join(span.text for span in spans if span.op != "delete")
    assert text[trap_offset(spans, said) :].startswith("Neurostatin")


def test_a_trap_stands_at_the_change_that_it_shares_most_words_with_else_at_the_first() -> None:
    spans = (
        Span("equal", "Take "),
        Span("insert", "Neurostatin "),
        Span("equal", "and "),
        Span("insert", "ten tablets."),
    )
    assert trap_offset(spans, ["Ten tablets are too many."]) == len("Take Neurostatin and ")
    assert trap_offset(spans, ["Something else."]) == len("Take ")
    more = (Span("insert", " Scans hurt, 2.5 times more. A low CRP excludes it. "),)
    assert trap_offset(more, ["CRP excludes nothing."]) == len(" Scans hurt, 2.5 times more. ")
    assert trap_offset(more, ["Scans are harmless."]) == 1
    assert trap_offset((Span("equal", "Take "), Span("delete", "none.")), ["It is."]) == 5
    assert trap_offset((Span("equal", "Take it."),), []) == 0
