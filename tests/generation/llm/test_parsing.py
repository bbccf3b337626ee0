"""Parsing of replies: the JSON object in a text, reasoning, text that can be stored."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.llm.errors import BrokenReply
from generation.llm.parsing import MAX_CHARS, MAX_DEPTH, extract_json, storable
from generation.llm.reasoning import begins_like_reasoning, split_reasoning

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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "line\nbreak\tand \x01"}', "line\nbreak\tand \x01"),
        (r'{"a": "5 \g of \u12 in \\ \" \u00e4"}', '5 \\g of \\u12 in \\ " ä'),
    ],
)
def test_control_characters_and_backslashes_in_strings_stand_for_themselves(text, value):
    assert extract_json(text) == {"a": value}


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
        ("<think />\nNo.", "No.", ""),
        ("<think/>No.", "No.", ""),
        ("Between <think> and </think> it thinks.", "Between <think> and </think> it thinks.", ""),
        ('{"said": "Hm</think>No."}', '{"said": "Hm</think>No."}', ""),
    ],
)
def test_reasoning_without_its_opening_tag_is_not_part_of_the_answer(text, answer, reasoning):
    assert split_reasoning(text) == (answer, reasoning)


@given(st.text().filter(lambda text: "</think>" not in text))
def test_text_without_a_think_block_is_unchanged(text):
    assert split_reasoning("a" + text) == ("a" + text, "")


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("<think>", "</think>"),
        ("<Thinking kind='deep'>", "</THINKING>"),
        ("<thought>", "</thought>"),
        ("<reasoning>\n", "\n</reasoning>\n"),
        ("<seed:think>", "</seed:think>"),
        ("<reasoning_content>", "</reasoning_content>"),
        ("<internal_monologue>", "</internal_monologue>"),
        ("<start_of_thought>", "<end_of_thought>"),
        ("assistant\n<think>", "</think>"),
        ("[THINK]", "[/THINK]"),
        ("<|thinking|>", "<|/thinking|>"),
        ("<|begin_of_thought|>", "<|end_of_thought|><|begin_of_solution|>"),
        ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
        ("◁think▷", "◁/think▷"),
        ("<|channel>thought\n", "<channel|>"),
        ("<unused94>thought\n", "<unused95>"),
        ("<|im_start|>assistant\n<think>", "</think>"),
        ("", "</think>"),
        ("", "[/THINK]"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ("<|start|>assistant<|channel|>analysis<|message|>", "<|end|><|channel|>final <|constrain|>json<|message|>"),
        ("analysis", "assistantfinal"),
        ("Here is my thought process:", "Here is my response:"),
        ("##WHY ", " ##SO "),
        ("", " ##SO "),
    ],
)
def test_the_reasoning_of_known_families_and_in_own_marks_is_split_off(start, end):
    for tail in ("", "<|return|>", "<|im_end|>\n"):
        parts = split_reasoning(f"{start}We need a {{dose}}.{end}Take two.{tail}", "##WHY", "##SO")
        assert parts == ("Take two.", "We need a {dose}.")


@pytest.mark.parametrize("start", ["<think>", "[THINK]", "<|channel|>analysis<|message|>", "analysis", "##WHY "])
def test_reasoning_without_an_end_is_no_answer(start):
    assert split_reasoning(f"{start}We need a dose", "##WHY", "##SO") == ("", "We need a dose")


@pytest.mark.parametrize(
    "text",
    [
        "Analysis of the case: take two.",
        "[Thought] Take two.",
        "[Reasoning]\nThe heart is large.\n[Answer] yes",
        '{"quoted": "<|channel|>final<|message|>x</think>"}',
        "Write <think> before thoughts.",
    ],
)
def test_an_answer_that_only_speaks_of_reasoning_is_whole(text):
    assert split_reasoning(text) == (text, "")


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("<ponder>Hm", True),
        ("<|deliberate|>Hm", True),
        ("Okay, so the user wants a dose.", True),
        ("We need to answer in one word.", True),
        ("Let me think about this.", True),
        ("好的，用户问的是剂量。", True),
        ('<details type="reasoning" done="true"><summary>Thought for 3 seconds</summary>Hm</details>', True),
        ("Take two a day.", False),
        ("Okay. Take two a day.", False),
        ("<p>Take two.</p>", False),
    ],
)
def test_an_answer_that_still_begins_like_reasoning_is_noticed(text, like):
    assert begins_like_reasoning(text) is like


def test_a_heading_that_the_question_asks_for_is_no_reasoning_left_over():
    answer = "[Reasoning]\nThe heart is large.\n[Answer] yes"
    assert begins_like_reasoning(answer)
    assert not begins_like_reasoning(answer, "Write under this header:\n[Reasoning]\nHow it follows.")


@pytest.mark.parametrize("text", ["<think></thought>" * 60_000, "<think " * 150_000, " " * 10**6, "</s>" * 250_000])
def test_any_reply_is_split_in_one_pass(text):
    split_reasoning(text)
    begins_like_reasoning(text)


@given(st.text() | st.text("\x00\ud800\udfffa", min_size=1))
def test_storable_text_can_be_encoded_and_keeps_its_length(text):
    clean = storable(text)
    assert len(clean) == len(text)
    assert b"\x00" not in clean.encode()
