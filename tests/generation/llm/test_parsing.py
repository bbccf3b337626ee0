"""Parsing of replies: the JSON object in a text, reasoning, text that can be stored."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.llm.errors import BrokenReply
from generation.llm.parsing import MAX_CHARS, MAX_DEPTH, extract_json, split_reasoning, storable

# Values that can be stored: no NUL, no lone surrogates, no numbers out of range.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=4)
prose = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='{}[],"\\'))


@given(objects, prose, prose, st.booleans(), st.sampled_from([None, 2]))
def test_the_one_object_in_any_prose_is_found(value, before, after, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert extract_json(f"{before}{text}{after}") == value
    assert extract_json(f"{before}\n```json\n{text}\n```\n{after}") == value


@given(objects, objects, prose)
def test_two_objects_are_ambiguous(one, other, between):
    with pytest.raises(BrokenReply):
        extract_json(f"{json.dumps(one)}{between}{json.dumps(other)}")


@given(st.lists(objects, min_size=1, max_size=3), prose)
def test_a_list_of_objects_is_not_an_object(values, before):
    with pytest.raises(BrokenReply):
        extract_json(before + json.dumps(values))


@given(st.dictionaries(texts, values, min_size=1, max_size=4), st.data())
def test_an_object_that_was_cut_off_is_never_half_read(value, data):
    text = json.dumps(value)
    length = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(BrokenReply):
        extract_json(text[:length])


@given(st.text() | st.text('{}[]",:\\ 0truefalsn'))
def test_any_text_is_read_or_refused(text):
    with suppress(BrokenReply):  # the only exception that is allowed
        assert isinstance(extract_json(text), dict)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no complete JSON object"),
        ("yes", "no complete JSON object"),
        ("}{", "no complete JSON object"),
        ('{"a": 1', "no complete JSON object"),
        ('{"a": {"b": 1}, "c": ', "not one valid JSON"),
        ('{"a": 1} and {"a": 2}', "not one valid JSON"),
        ('Given {x}: {"a": 1}', "not one valid JSON"),
        ("{'a': True}", "not one valid JSON"),
        ('{"a": 1,}', "not one valid JSON"),
        ('{"a": "line\nbreak"}', "not one valid JSON"),
        ('[{"a": 1}]', "part of a list"),
        ('[1, {"a": 1}', "part of a list"),
        ('{"a": 1}, 2]', "part of a list"),
        ('"{}"', "part of a list or a string"),
        (json.dumps('{"a": 1}'), "not one valid JSON"),
        ('{"a": 1, "a": 1}', "a key twice"),
        ('{"b": {"a": 1, "a": 2}}', "a key twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "too large"),
        ('{"a": "\\u0000"}', "cannot be stored"),
        ('{"\\ud800": 1}', "cannot be stored"),
        ('{"a": ' + "[" * 100_000 + "]" * 90_000 + "}", "nested too deeply"),
        ('{"a": "' + "x" * MAX_CHARS + '"}', "longer than"),
    ],
)
def test_a_text_without_exactly_one_valid_object_is_refused_with_the_reason(text, reason):
    with pytest.raises(BrokenReply, match=reason):
        extract_json(text)


def test_depth_is_allowed_up_to_its_limit():
    def nested(depth):
        return '{"a":' * depth + "1" + "}" * depth

    extract_json(nested(MAX_DEPTH - 1))
    with pytest.raises(BrokenReply, match="nested too deeply"):
        extract_json(nested(MAX_DEPTH))


@given(st.text(), st.text())
def test_reasoning_and_answer_are_both_kept(thought, answer):
    thought = thought.replace("</think>", "")
    assert split_reasoning(f"<think>{thought}</think>{answer}") == (answer.lstrip(), thought.strip())


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("Okay, {x} is false.\n</think>\n\nNo, it is not.", "No, it is not.", "Okay, {x} is false."),
        ("</think>No.", "No.", ""),
        ("Between <think> and </think> it thinks.", "Between <think> and </think> it thinks.", ""),
        ('{"said": "Hm</think>No."}', '{"said": "Hm</think>No."}', ""),
    ],
)
def test_reasoning_without_its_opening_tag_is_not_part_of_the_answer(text, answer, reasoning):
    assert split_reasoning(text) == (answer, reasoning)


@given(st.text().filter(lambda text: "</think>" not in text))
def test_text_without_a_think_block_is_unchanged(text):
    assert split_reasoning("a" + text) == ("a" + text, "")


@given(st.text() | st.text("\x00\ud800\udfffa", min_size=1))
def test_storable_text_can_be_encoded_and_keeps_its_length(text):
    clean = storable(text)
    assert len(clean) == len(text)
    assert b"\x00" not in clean.encode()
