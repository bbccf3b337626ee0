"""The nesting depth of JSON is measured on its bytes, however they are split."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from review.rules import json_nesting
from review.rules.json_nesting import MAX_DEPTH, Nesting, TooDeep

pytestmark = pytest.mark.plain

texts = st.text('\\"[]{}a\u00e9', max_size=8)
values = st.recursive(
    texts | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20
)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def is_too_deep(pieces: list[bytes]) -> bool:
    guard = Nesting()
    try:
        for piece in pieces:
            guard.feed(piece)
    except TooDeep:
        return True
    return False


@given(value=values, around=st.integers(MAX_DEPTH - 5, MAX_DEPTH), cuts=st.lists(st.integers(0, 300), max_size=5))
def test_depth_is_measured_wherever_the_bytes_are_split(value: Any, around: int, cuts: list[int]) -> None:
    data = b"[" * around + json.dumps(value, ensure_ascii=False).encode() + b"]" * around
    places = [0, *sorted(min(around + cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert is_too_deep(pieces) == (around + depth(value) > MAX_DEPTH)
    assert is_too_deep([data[index : index + 1] for index in range(len(data))]) == (around + depth(value) > MAX_DEPTH)


@pytest.mark.parametrize("text", ["[" * 101, '{"a":' * 101, "[1,{" * 60, '["' + "[" * 200 + '",' + "[" * 100])
def test_json_that_nests_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(TooDeep):
        json_nesting.loads(text)
    with pytest.raises(TooDeep):
        json_nesting.check(text.encode())


def test_wide_json_and_brackets_in_strings_are_accepted() -> None:
    wide = json.dumps([[{"a": "[[[{{{\\"}]] * 1000)
    assert json_nesting.loads(wide) == json.loads(wide)
    assert json_nesting.loads("[" * 100 + "]" * 100)
    with pytest.raises(json.JSONDecodeError):
        json_nesting.loads('"\\')
