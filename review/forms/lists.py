"""The lists of a review form in its editor: reasons, and the levels of the harm scale."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict
from django.utils.translation import get_language

from review.forms.check import MOST_CHOICES
from review.forms.design import Design, FormFault
from review.forms.wording import TypedTexts, Worded, worded
from review.labels import translate
from review.rules.questions import Level, Reason

REASONS = ("reasons", "dissents")


@dataclass(frozen=True, slots=True)
class Item:
    """The fields of one reason or level. code: its stored value; title: its wording in the reader's language; mendable: of a
    reason."""

    number: int
    name: str
    id: str
    code: str
    label: Worded
    title: str
    about: Worded | None = None
    mendable: bool = False
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lists:
    """What the editor shows of a design's lists."""

    reasons: tuple[Item, ...]
    dissents: tuple[Item, ...]
    levels: tuple[Item, ...]
    asks: Worded
    errors: Mapping[str, tuple[str, ...]]

    @property
    def faulty(self) -> frozenset[str]:
        """The lists with a problem, which open."""
        names = {name.partition(".")[0] for name in self.errors}
        return frozenset("levels" if name == "severity_asks" else name for name in names)


def lists_from_post(typed: TypedTexts) -> dict[str, Any]:
    """The lists of a design as they were typed."""
    text, worded = typed.text, typed.worded
    found: dict[str, Any] = {"severity_asks": worded("severity_asks", "severity_asks")}
    for part in REASONS:
        made = []
        for number in _numbers(typed.data, part):
            name = f"{part}.{number}"
            code = text(f"{name}.code")
            label = worded(f"{name}.label", f"{part}:{code}.label")
            made.append(Reason(code, label, f"{name}.mendable" in typed.data))
        found[part] = tuple(made)
    levels = []
    for number in _numbers(typed.data, "levels"):
        name = f"levels.{number}"
        code = text(f"{name}.code")
        said = (worded(f"{name}.{each}", f"levels:{code}.{each}") for each in ("label", "about"))
        levels.append(Level(code, *said))
    return {**found, "levels": tuple(levels)}


def _numbers(data: QueryDict, part: str) -> list[int]:
    found = (re.fullmatch(rf"{part}\.(\d{{1,3}})\.code", name) for name in data)
    return sorted({int(match[1]) for match in found if match})


def changed(design: Design, do: str) -> Design:
    """The design after a button: `add-item.<list>`, or `remove-item`, `up-item`, `down-item` with the list and a number."""
    what, part, at = pressed(do)
    if part not in REASONS:
        return design
    rows = list(getattr(design, part) or ())
    here = at - 1
    if what == "add-item" and len(rows) < MOST_CHOICES:
        taken = {reason.code for reason in rows}
        code = next(name for number in range(1, MOST_CHOICES + 2) if (name := f"reason-{number}") not in taken)
        rows.append(Reason(code, "", reducible=False))
    elif not 0 <= here < len(rows):
        return design
    elif what == "remove-item":
        del rows[here]
    elif what == "up-item" and here:
        rows[here - 1], rows[here] = rows[here], rows[here - 1]
    elif what == "down-item" and at < len(rows):
        rows[here], rows[at] = rows[at], rows[here]
    return replace(design, reasons=tuple(rows)) if part == "reasons" else replace(design, dissents=tuple(rows))


def pressed(do: str) -> tuple[str, str, int]:
    """(what, which list, number) of a button of a list; empty for another's."""
    match = re.fullmatch(r"(add|remove|up|down)-item\.([a-z]+)(?:\.(\d{1,3}))?", do)
    return (f"{match[1]}-item", match[2], int(match[3] or 0)) if match else ("", "", 0)


def shown(design: Design, faults: Sequence[FormFault] = ()) -> Lists:
    """The rows of the editor, each problem in its row."""
    wrong: dict[str, tuple[str, ...]] = {}
    for fault in faults:
        wrong[fault.field] = (*wrong.get(fault.field, ()), fault.sentence)

    def item(part: str, number: int, code: str, each: Reason | Level) -> Item:
        name = f"{part}.{number}"
        key = f"{part}:{code}.label"
        label = worded(design.wordings, f"{name}.label", key, each.label)
        title = design.wordings.get(get_language() or "", {}).get(key) or translate(each.label)
        made = Item(number, name, name.replace(".", "-"), code, label, title, errors=wrong.get(name, ()))
        if isinstance(each, Reason):
            return replace(made, mendable=each.reducible)
        return replace(made, about=worded(design.wordings, f"{name}.about", f"{part}:{code}.about", each.about))

    def reasons(part: str) -> tuple[Item, ...]:
        rows: Sequence[Reason] = getattr(design, part) or ()
        return tuple(item(part, number, each.code, each) for number, each in enumerate(rows, 1))

    levels = tuple(item("levels", number, each.value, each) for number, each in enumerate(design.levels or (), 1))
    asks = worded(design.wordings, "severity_asks", "severity_asks", design.severity_asks)
    return Lists(reasons("reasons"), reasons("dissents"), levels, asks, wrong)
