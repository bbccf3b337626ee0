"""The lists in the editor of a review form: reasons, and the levels of the harm scale."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from review.forms.check import MAX_CHOICES
from review.forms.design import Design, FormFault
from review.forms.wording import PostedTexts, TranslatedText, in_own_language, posted_numbers, translated_text
from review.rules.questions import Level, Reason

REASONS = ("reasons", "dissents")


@dataclass(frozen=True, slots=True)
class Item:
    """The fields of one reason or level.

    code: its stored value.
    title: its wording in the reader's language.
    mendable: of a reason, whether a revision can fix it.
    """

    number: int
    name: str
    id: str
    code: str
    label: TranslatedText
    title: str
    about: TranslatedText | None = None
    mendable: bool = False
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists of a design, as shown by the editor."""

    reasons: tuple[Item, ...]
    dissents: tuple[Item, ...]
    levels: tuple[Item, ...]
    asks: TranslatedText
    errors: Mapping[str, tuple[str, ...]]

    @property
    def faulty(self) -> frozenset[str]:
        """The lists with a fault, which the page shows unfolded."""
        names = {name.partition(".")[0] for name in self.errors}
        return frozenset("levels" if name == "severity_asks" else name for name in names)


def lists_from_post(posted: PostedTexts) -> dict[str, Any]:
    """The posted lists, as arguments of `Design`."""
    text, translated = posted.text, posted.translated
    parts: dict[str, Any] = {"severity_asks": translated("severity_asks", "severity_asks")}
    for part in REASONS:
        reasons = []
        for number in posted_numbers(posted.data, f"{part}.", ".code"):
            name = f"{part}.{number}"
            code = text(f"{name}.code")
            label = translated(f"{name}.label", f"{part}:{code}.label")
            reasons.append(Reason(code, label, f"{name}.mendable" in posted.data))
        parts[part] = tuple(reasons)
    levels = []
    for number in posted_numbers(posted.data, "levels.", ".code"):
        name = f"levels.{number}"
        code = text(f"{name}.code")
        texts = (translated(f"{name}.{field}", f"levels:{code}.{field}") for field in ("label", "about"))
        levels.append(Level(code, *texts))
    return {**parts, "levels": tuple(levels)}


def apply_button(design: Design, do: str) -> Design:
    """The design after a button of a list was pressed.

    Buttons are `add-item.<list>`, and `remove-item`, `up-item` or `down-item` with
    `.<list>.<number>`.
    """
    action, part, number = parse_button(do)
    if part not in REASONS:
        return design
    rows = list(getattr(design, part) or ())
    index = number - 1
    if action == "add-item" and len(rows) < MAX_CHOICES:
        rows.append(Reason(free_name("reason-", [reason.code for reason in rows]), "", reducible=False))
    elif 0 <= index < len(rows):
        move(rows, action.removesuffix("-item"), index)
    return replace(design, reasons=tuple(rows)) if part == "reasons" else replace(design, dissents=tuple(rows))


MOVES = ("remove", "up", "down")


def move(rows: list[Any], action: str, index: int) -> None:
    """Remove a row, or exchange it with the one above or below it."""
    other = index + {"up": -1, "down": 1}.get(action, 0)
    if action == "remove":
        del rows[index]
    elif 0 <= other < len(rows):
        rows[index], rows[other] = rows[other], rows[index]


def free_name(prefix: str, used: Collection[str]) -> str:
    """The first of prefix1, prefix2, ... that is not used."""
    return next(name for number in count(1) if (name := f"{prefix}{number}") not in used)


def parse_button(do: str) -> tuple[str, str, int]:
    """(action, list, number) of a list's button; empty values for any other button."""
    match = re.fullmatch(r"(add|remove|up|down)-item\.([a-z]+)(?:\.(\d{1,3}))?", do)
    return (f"{match[1]}-item", match[2], int(match[3] or 0)) if match else ("", "", 0)


def list_fields(design: Design, faults: Sequence[FormFault] = ()) -> Lists:
    """The fields of a design's lists, each fault at its row."""
    errors: dict[str, tuple[str, ...]] = {}
    for fault in faults:
        errors[fault.field] = (*errors.get(fault.field, ()), fault.sentence)

    def item(part: str, number: int, code: str, row: Reason | Level) -> Item:
        name = f"{part}.{number}"
        key = f"{part}:{code}.label"
        label = translated_text(design.wordings, f"{name}.label", key, row.label)
        title = in_own_language(design.wordings, key, row.label)
        fields = Item(number, name, name.replace(".", "-"), code, label, title, errors=errors.get(name, ()))
        if isinstance(row, Reason):
            return replace(fields, mendable=row.reducible)
        return replace(
            fields, about=translated_text(design.wordings, f"{name}.about", f"{part}:{code}.about", row.about)
        )

    def reasons(part: str) -> tuple[Item, ...]:
        rows: Sequence[Reason] = getattr(design, part) or ()
        return tuple(item(part, number, reason.code, reason) for number, reason in enumerate(rows, 1))

    levels = tuple(item("levels", number, level.value, level) for number, level in enumerate(design.levels or (), 1))
    asks = translated_text(design.wordings, "severity_asks", "severity_asks", design.severity_asks)
    return Lists(reasons("reasons"), reasons("dissents"), levels, asks, errors)
