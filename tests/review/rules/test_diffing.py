"""Turns are paired, changed words are marked, and no text is lost."""

import time
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from review.rules.blocks import Turn
from review.rules.diffing import Span, align_turns, diff_words


def changes(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> list[str]:
    return [pair.change for pair in align_turns([Turn(*turn) for turn in before], [Turn(*turn) for turn in after])]


PATIENT = "I have had a dull headache behind the left eye for three days."
DOCTOR = "Does light bother you, and have you had a fever or a stiff neck?"
NO = "No fever, but I took two tablets of ibuprofen this morning."


def test_whole_words_and_whole_decimal_numbers_are_marked() -> None:
    assert diff_words("take 2.5 mg daily", "take 25 mg daily") == (
        Span("equal", "take "),
        Span("delete", "2.5"),
        Span("insert", "25"),
        Span("equal", " mg daily"),
    )


def test_chinese_is_marked_character_by_character() -> None:
    assert diff_words("每天五百毫克", "每天五千毫克") == (
        Span("equal", "每天五"),
        Span("delete", "百"),
        Span("insert", "千"),
        Span("equal", "毫克"),
    )


def test_equal_texts_give_one_span_and_empty_texts_none() -> None:
    assert diff_words("same", "same") == (Span("equal", "same"),)
    assert diff_words("", "") == ()


def test_an_edited_turn_keeps_its_partner() -> None:
    edited = NO.replace("ibuprofen", "Neurostatin")
    assert changes([("P", PATIENT), ("D", DOCTOR), ("P", NO)], [("P", PATIENT), ("D", DOCTOR), ("P", edited)]) == [
        "same",
        "same",
        "edited",
    ]


def test_an_inserted_turn_does_not_shift_the_others() -> None:
    new = "My neighbour swears by Neurostatin, should I try it?"
    assert changes([("P", PATIENT), ("D", DOCTOR)], [("P", PATIENT), ("P", new), ("D", DOCTOR)]) == [
        "same",
        "added",
        "same",
    ]


def test_a_missing_turn_is_removed() -> None:
    assert changes([("P", PATIENT), ("D", DOCTOR), ("P", NO)], [("P", PATIENT), ("P", NO)]) == [
        "same",
        "removed",
        "same",
    ]


def test_a_replaced_turn_is_removed_and_added_in_this_order() -> None:
    assert changes([("P", PATIENT)], [("P", "Which vaccine should my son get before school?")]) == ["removed", "added"]


def test_the_same_words_by_another_speaker_are_a_different_turn() -> None:
    assert changes([("P", PATIENT)], [("D", PATIENT)]) == ["removed", "added"]


def test_the_most_similar_turn_is_preferred_to_the_nearest() -> None:
    less_similar = "I have had a dull headache since yesterday, at work."
    pairs = align_turns([Turn("P", PATIENT)], [Turn("P", less_similar), Turn("P", PATIENT + " It throbs.")])
    assert [(pair.change, pair.after and pair.after.text) for pair in pairs] == [
        ("added", less_similar),
        ("edited", PATIENT + " It throbs."),
    ]


# Each changes a part of a character of several code points, or a word in a script without spaces.
@pytest.mark.parametrize(
    ("before", "after", "deleted", "inserted"),
    [
        ("रोगी कि दवा", "रोगी की दवा", "कि", "की"),  # Hindi: a vowel sign
        ("க்ஷத்", "க்ஷதி", "க்ஷத்", "க்ஷதி"),  # Tamil: a conjunct's pulli
        ("กินน้ำ", "กินน่ำ", "น้ำ", "น่ำ"),  # Thai: a tone mark
        ("الدَّوَاءُ", "الدَّوَاءَ", "الدَّوَاءُ", "الدَّوَاءَ"),  # Arabic: a short vowel
        ("👩‍⚕️ ok", "👩‍🔬 ok", "👩‍⚕️", "👩‍🔬"),  # a sequence joined by ZWJ
        ("🇫🇷🇩🇪", "🇫🇷🇩🇰", "🇩🇪", "🇩🇰"),  # flags: pairs of letters
        ("\u1112\u1161\u11ab", "\u1112\u1161\u11ac", "\u1112\u1161\u11ab", "\u1112\u1161\u11ac"),  # Hangul jamo
        ("アスピリンを飲む", "アスコリンを飲む", "アスピリン", "アスコリン"),
        ("กินยาพาราเซตามอลวันละสองเม็ด", "กินยาไอบูโพรเฟนวันละสองเม็ด", "พาราเซตามอล", "ไอบูโพรเฟน"),
    ],
)
def test_a_difference_never_begins_inside_a_character(before: str, after: str, deleted: str, inserted: str) -> None:
    changes = [(span.op, span.text) for span in diff_words(before, after) if span.op != "equal"]
    assert changes == [("delete", deleted), ("insert", inserted)]


def test_texts_are_compared_in_one_unicode_form_and_shown_as_they_came() -> None:
    before, after = "Le me\u0301decin dort.", "Le m\u00e9decin mange."
    assert diff_words(before, after)[0] == Span("equal", "Le m\u00e9decin ", "Le me\u0301decin ")
    assert changes([("P", "me\u0301decin")], [("P", "m\u00e9decin")]) == ["same"]


def test_what_a_long_turn_keeps_does_not_depend_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count(step=1_000)  # each look at the clock, a thousand seconds have gone
    for clock in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, clock, lambda: float(next(ticks)))
    old = [f"word{n % 700}" for n in range(3_000)]
    new = ["Neurostatin" if n % 10 == 0 else word for n, word in enumerate(old)]
    spans = diff_words(" ".join(old), " ".join(new))
    kept = sum(len(span.text.split()) for span in spans if span.op == "equal")
    assert kept == 2_700


texts = st.text(st.sampled_from("abe ,.12\n药量é\u0301\u200d🙂🇫<&\ud7ff\ue000"), max_size=30)
turns = st.lists(st.builds(Turn, st.sampled_from(["P", "D"]), texts), max_size=6)


@given(texts, texts)
def test_spans_spell_both_texts(before: str, after: str) -> None:
    spans = diff_words(before, after)
    assert "".join(span.source or span.text for span in spans if span.op != "insert") == before
    assert "".join(span.text for span in spans if span.op != "delete") == after


@given(turns, turns)
def test_every_turn_appears_once_and_in_order(before: list[Turn], after: list[Turn]) -> None:
    pairs = align_turns(before, after)
    assert [pair.before for pair in pairs if pair.before is not None] == before
    assert [pair.after for pair in pairs if pair.after is not None] == after
    assert all(pair.before.speaker == pair.after.speaker for pair in pairs if pair.before and pair.after)


@given(turns)
def test_unchanged_turns_are_not_marked(unchanged: list[Turn]) -> None:
    assert all(pair.change == "same" for pair in align_turns(unchanged, unchanged))


@pytest.mark.parametrize("repeat", [1, 400])
def test_a_single_change_in_a_long_turn_is_found(repeat: int) -> None:
    text = " ".join(f"word{n} and" for n in range(2 * repeat))
    marked = [span for span in diff_words(text, text.replace("word1 ", "Neurostatin ")) if span.op != "equal"]
    assert marked == [Span("delete", "word1"), Span("insert", "Neurostatin")]


def test_a_conversation_of_thousands_of_turns_is_shown_as_replaced() -> None:
    before, after = ([Turn("user", f"{side} {number}") for number in range(3_000)] for side in ("old", "new"))
    pairs = align_turns(before, after)
    assert [pair.change for pair in pairs] == ["removed"] * 3_000 + ["added"] * 3_000
