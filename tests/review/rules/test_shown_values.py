"""Lists of names show the same values for JSON, tables and the API."""

from collections.abc import Mapping
from dataclasses import dataclass

from review.rules.shown_values import shown


@dataclass(frozen=True)
class Inner:
    value: float | None
    rates: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner | None
    moves: Mapping[str, int]


def test_a_path_reads_attributes_keys_and_places_and_ends_in_none_where_a_part_is_missing() -> None:
    names = "name share=inner.value first=inner.rates.0 kept=moves.kept inner.value"
    shown_outer = shown(Outer("a", Inner(0.5, (0.25, 0.75)), {"kept": 3}), names)
    assert shown_outer == {"name": "a", "share": 0.5, "first": 0.25, "kept": 3, "inner": 0.5}
    without_inner = shown(Outer("b", None, {"kept": 3}), names)
    assert without_inner == {"name": "b", "share": None, "first": None, "kept": 3, "inner": None}
    assert shown(Outer("c", Inner(None), {}), "first=inner.rates.0") == {"first": None}
