"""Differences between what a file states and what was counted, named so that readers find them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

TOLERANCE = 1e-9  # of rounding by another version of numpy
# Fields that name an entry of a list, in the order in which its name is read.
NAMES = ("label", "model", "endpoint", "dataset", "facet", "value", "name", "rate", "kind", "variant", "judge")
SILENT = ("rows", "rates", "comparisons", "changes")  # parts of a path that say nothing to readers


class Differences:
    """Compares a file's value with what was counted. `checked`: how many values were compared."""

    def __init__(self, file: str, counted: Any, stated: Any) -> None:
        self.faults: list[str] = []
        self.checked = 0
        self._file = file
        self._compare((), counted, stated)

    def _add(self, path: Sequence[str], text: str) -> None:
        place = ", ".join([part for part in path if part not in SILENT])
        self.faults.append(": ".join(filter(None, [self._file, place, text])))

    def _compare(self, path: tuple[str, ...], counted: Any, stated: Any) -> None:
        if isinstance(counted, Mapping) and isinstance(stated, Mapping):
            for key, value in counted.items():
                if key in stated:
                    self._compare((*path, str(key)), value, stated[key])
                else:
                    self._add((*path, str(key)), "missing")
            for key in stated:
                if key not in counted and not _is_text(stated[key]):
                    self._add((*path, str(key)), "does not follow from the rows")
        elif isinstance(counted, list) and isinstance(stated, list):
            self._compare_lists(path, counted, stated)
        else:
            self.checked += 1
            if not is_same(path, counted, stated):
                *place, name = path or ("it",)
                self._add(place, f"{name} is {json.dumps(counted)}, not {json.dumps(stated)}")

    def _compare_lists(self, path: tuple[str, ...], counted: list[Any], stated: list[Any]) -> None:
        names, given = [_name(each) for each in counted], [_name(each) for each in stated]
        is_named = all(names) and len(set(names)) == len(names)
        if not is_named:  # in order
            if len(counted) != len(stated):
                self._add(path, f"{len(stated)} entries, not {len(counted)}")
            for at, pair in enumerate(zip(counted, stated, strict=False)):
                self._compare((*path, str(at)), *pair)
            return
        by_name = dict(zip(given, stated, strict=True))
        for name, value in zip(names, counted, strict=True):
            if name in by_name:
                self._compare((*path, name), value, by_name[name])
            else:
                self._add((*path, name), "missing")
        for name, n in Counter(given).items():
            if n > 1:
                self._add((*path, name or "an entry"), "twice")
            elif name not in names:
                self._add((*path, name or "an entry"), "does not follow from the rows")
        if len(given) == len(names) and given != names and sorted(given) == sorted(names):
            self._add(path, "in another order")


def _name(entry: Any) -> str:
    """The name of an entry of a list; '' if it has none."""
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, Mapping):
        return ""
    names, pair = _texts(entry, NAMES), _texts(entry, ("first", "second"))
    both = " and ".join(pair)
    if isinstance(entry.get("judges"), list):
        both = " and ".join(map(str, entry["judges"]))
    if "only_first" in entry:
        return f"comparison of {', '.join([both, *names])}"
    if "moves" in entry:
        return f"change {', '.join([*names, both])}"
    return ", ".join(filter(None, [*names, both]))


def _texts(entry: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Those of the fields of these names that are texts."""
    texts = []
    for name in names:
        value = entry.get(name)
        if isinstance(value, str) and value:
            texts.append(value)
    return texts


def is_same(path: Sequence[str], counted: Any, stated: Any) -> bool:
    """Whether two values are equal, up to rounding."""
    if isinstance(counted, bool) is not isinstance(stated, bool):
        return False
    if isinstance(counted, float) and isinstance(stated, (int, float)):
        return abs(counted - stated) < TOLERANCE
    if list(path) == ["cost"]:
        try:
            return Decimal(counted) == Decimal(stated)
        except (InvalidOperation, TypeError):
            return False
    return bool(counted == stated)


def _is_text(value: Any) -> bool:
    """Whether a value has no numbers, such as a label or a list of names."""
    if isinstance(value, Mapping):
        return _is_text(list(value.values()))
    if isinstance(value, list):
        return all(map(_is_text, value))
    return isinstance(value, str) or value is None
