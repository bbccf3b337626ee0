"""`parse_json`, for columns read without the ORM, agrees with `json.loads`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from review.common.sql import parse_json

pytestmark = pytest.mark.plain

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(values, st.booleans())
def test_any_json_value_is_parsed_like_json_loads(value: object, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    assert repr(parse_json(text)) == repr(json.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        '"\\ud800"',
        '{"a": "x\\udfff"}',
        "[" * 500 + "]" * 500,
        "1" * 400,
        "1.10",
        "1E+2",
        "-0.0",
        "1e400",
        '{"b": 1, "a": 2}',
    ],
)
def test_unusual_texts_that_a_database_may_hold_are_parsed_alike(text: str) -> None:
    assert repr(parse_json(text)) == repr(json.loads(text))
