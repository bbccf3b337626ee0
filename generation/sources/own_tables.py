"""Tables of one's own: their terms, and which column is which field."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from pydantic import ValidationError as WrongShape

from generation import errors
from generation.models import Import, SavedMapping
from generation.sources import reading, translated_reasons
from generation.sources.importers import table
from generation.sources.importers.base import Layout
from generation.sources.importers.table_mapping import BODIES, CONSTANTS, FIELDS, SEVERAL, TableMapping
from generation.sources.reading import TablePreview
from review.models import User
from review.rules import json_nesting

FORMAT = table.name
TERMS = ("licence", "citation", "restrictions")
FIELD_LABELS = {
    "id": gettext_lazy("ID, or one column of it"),
    "text": gettext_lazy("Text: report, note or letter"),
    "turns": gettext_lazy("Conversation, or one turn of it"),
    "question": gettext_lazy("Question"),
    "answer": gettext_lazy("Correct answer"),
    "options": gettext_lazy("Answer options, or one of them"),
    "context": gettext_lazy("Passage that belongs to the question"),
    "language": gettext_lazy("Language"),
    "specialty": gettext_lazy("Specialty"),
    "licence": gettext_lazy("Licence"),
}


@dataclass(frozen=True, slots=True)
class OwnTable:
    """What a person says of a table: the mapping, and the terms of its source.

    The terms are those of a new source; an existing one keeps its own.
    """

    mapping: TableMapping
    licence: str = ""
    citation: str = ""
    restrictions: str = ""

    @property
    def terms(self) -> dict[str, str]:
        terms = {}
        for name in TERMS:
            text = getattr(self, name).strip()
            if text:
                terms[name] = text
        return terms


def read_mapping(value: Any) -> TableMapping:
    """A mapping from {columns: {field: [column]}, values: {field: value}}. Raises WrongMapping."""
    try:
        mapping = TableMapping.model_validate(value)
    except WrongShape as error:
        place = ".".join(map(str, error.errors(include_input=False)[0]["loc"])) or "mapping"
        known = {"fields": ", ".join(FIELDS), "constants": ", ".join(CONSTANTS)}
        reason = _("each field has a list of columns (fields: %(fields)s); values are texts (fields: %(constants)s)")
        raise errors.WrongMapping(f"{place}: {reason % known}.") from error
    if problem := _problem(mapping):
        raise errors.WrongMapping(problem)
    return mapping


def stated_mapping(text: str) -> TableMapping | None:
    """A mapping by its saved name or as JSON; None for "". Raises WrongMapping, UnknownMapping."""
    if not text.startswith("{"):
        if text:
            return saved_mapping(text)
        return None
    try:
        return read_mapping(json_nesting.loads(text))
    except (json_nesting.TooDeep, ValueError) as error:
        raise errors.WrongMapping(_("It is not JSON that can be read.")) from error


def parse_mapping(columns: list[str], values: list[str], saved: str | None = None) -> TableMapping:
    """A mapping from FIELD=COLUMN and FIELD=VALUE, as commands take them.

    `saved`: the name of a mapping that they change. Raises WrongMapping, UnknownMapping.
    """
    if saved:
        base = saved_mapping(saved)
    else:
        base = TableMapping(columns={})
    parsed: dict[str, dict[str, list[str]]] = {"columns": {}, "values": {}}
    for part, lines in (("columns", columns), ("values", values)):
        for line in lines:
            field, equals, name = line.partition("=")
            if not equals:
                raise errors.WrongMapping(_("%(line)r is not FIELD=COLUMN.") % {"line": line})
            parsed[part].setdefault(field.strip(), []).append(name)
    constants = {field: names[-1] for field, names in parsed["values"].items()}
    return read_mapping({"columns": {**base.columns, **parsed["columns"]}, "values": {**base.values, **constants}})


def _problem(mapping: TableMapping) -> str:
    """Why a mapping makes no records; '' if it does."""
    fields = {field for field, columns in mapping.columns.items() if columns}
    if too_many := [field for field in FIELDS if field not in SEVERAL and len(mapping.columns.get(field, ())) > 1]:
        return _("Choose one column only for: %(fields)s.") % {"fields": _labels(too_many)}
    if len(fields & set(BODIES)) != 1:
        return _(
            "Choose the column of the text, those of the conversation, or that of the question: one of these three."
        )
    if "question" in fields and "answer" not in fields:
        return _("A question needs its answer: choose the column of the correct answer.")
    if "question" not in fields and (alone := fields & {"answer", "options", "context"}):
        return _("These need a question: %(fields)s.") % {"fields": _labels(alone)}
    if twice := fields & mapping.values.keys():
        return _("Choose a column or a value for all records, not both, for: %(fields)s.") % {"fields": _labels(twice)}
    return ""


def _labels(fields: Iterable[str]) -> str:
    return ", ".join(str(FIELD_LABELS[field]) for field in sorted(fields))


def check(path: Path, own: OwnTable | None) -> Layout:
    """The layout of a table that has a mapping which fits it.

    Raises WrongMapping, WrongFormat, LimitsExceeded, OSError.
    """
    if own is None:
        shown = reading.preview_table(path)
        guessed = "; ".join(f"{field}={column}" for column, field in shown.mapping.fields.items())
        reason = _("Say which column is which field. Recognised: %(found)s. Suggested: %(guess)s")
        raise errors.WrongMapping(reason % {"found": shown.found, "guess": guessed})
    shown = reading.preview_table(path, own.mapping.model_dump(mode="json"))
    if shown.problem:
        raise errors.WrongMapping(translated_reasons.translated(shown.problem))
    return Layout(shown.layout)


def preview(path: Path, source_name: str, mapping: TableMapping | None) -> TablePreview:
    """What a table is with a mapping; by default the newest of its source that fits, or a guess.

    Raises WrongFormat, LimitsExceeded, OSError.
    """
    if mapping is None:
        own = Import.objects.filter(source__name=source_name, source__format=FORMAT).exclude(mapping={})
        latest = own.order_by("-pk").values_list("mapping", flat=True).first()
        if latest:
            shown = reading.preview_table(path, latest)
            if not shown.problem:
                return shown
        return reading.preview_table(path, None)
    return reading.preview_table(path, mapping.model_dump(mode="json"))


def saved_mapping(name: str) -> TableMapping:
    """The mapping saved under a name. Raises UnknownMapping."""
    saved = SavedMapping.objects.filter(name=name).first()
    if saved is None:
        raise errors.UnknownMapping(name)
    return TableMapping.model_validate(saved.mapping)


def save_mapping(name: str, mapping: TableMapping, actor: User | None) -> SavedMapping:
    """Save a mapping under a name, in the place of an earlier one. Raises ValidationError."""
    values = {"mapping": mapping.model_dump(mode="json"), "created_by": actor, "created_at": timezone.now()}
    try:
        SavedMapping(name=name, **values).full_clean(validate_unique=False)
    except ValidationError as error:
        raise ValidationError(error.message_dict.get("name", error.messages)) from error
    return SavedMapping.objects.update_or_create(name=name, defaults=values)[0]
