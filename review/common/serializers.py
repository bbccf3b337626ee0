"""Answers, rows, frozen cases and physicians' answers as JSON, shared by the apps' APIs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, is_typeddict

from django.core.exceptions import NON_FIELD_ERRORS
from django.db.models import Model
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.settings import api_settings

from review.models.enums import values_of
from review.rules import limits
from review.rules.blocks import HighlightLabel, Level, Point, Question, RubricText, TrapTerm, Turn
from review.rules.citations import KINDS, LEVELS
from review.rules.questions import RUBRIC_VALUES
from review.rules.shown_fields import ShownField, shown_fields
from review.rules.state_machine import Declaration, Reason, Verdict

Field = serializers.Field[Any, Any, Any, Any]
Fields = Mapping[str, Field]  # of a request, by name
FORM_TOKEN = "csrfmiddlewaretoken"  # noqa: S105  (the name of a field, which browsers send with files)

_FIELDS: dict[type, Callable[..., Field]] = {
    str: serializers.CharField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    date: serializers.DateField,
    datetime: serializers.DateTimeField,
}


@cache
def serializer_of(kind: Any) -> type[serializers.Serializer[Any]]:
    """The serializer of an answer: a dataclass or a TypedDict (`review.rules.shown_fields`)."""
    declared: dict[str, Any] = {"__doc__": kind.__doc__}
    for field in shown_fields(kind):
        options: dict[str, Any] = {}
        if field.attribute != field.name:
            options["source"] = field.attribute
        if field.is_recent:
            options["default"] = field.default
        declared[field.name] = _field(field.hint, field, options)
    fields = declared.pop("fields", None)
    made: Any = type(f"{kind.__name__}Serializer", (serializers.Serializer,), declared)
    if fields is not None:  # the name of a property of serializers
        made._declared_fields["fields"] = fields
    return made  # type: ignore[no-any-return]


def _field(hint: Any, field: ShownField, options: dict[str, Any]) -> Field:
    """The field for a type hint: plain type, enum, answer, sequence, mapping or optional."""
    origin = get_origin(hint)
    kinds = [kind for kind in get_args(hint) if kind not in (NoneType, Ellipsis)]
    if origin is NotRequired:
        return _field(kinds[0], field, {**options, "required": False})
    if origin in (Union, UnionType):
        return _field(kinds[0], field, {**options, "allow_null": True})
    if origin is Literal:
        return serializers.ChoiceField(choices=kinds, **options)
    if origin in (tuple, list, set, frozenset, Sequence):
        if _is_answer(kinds[0]):
            return serializer_of(kinds[0])(**options, many=True)
        return serializers.ListField(child=_field(kinds[0], field, {}), **options)
    if origin in (Mapping, dict):
        if kinds[1] is not Any:
            options = {**options, "child": _field(kinds[1], field, {})}
        return serializers.DictField(**options)
    if _is_answer(hint):
        return serializer_of(hint)(**options)
    if issubclass(hint, Enum):
        return serializers.ChoiceField(choices=[member.value for member in hint], **options)
    if hint is Decimal:
        help_text = "In the currency of the prices."
        return serializers.DecimalField(max_digits=24, decimal_places=field.places, help_text=help_text, **options)
    return _FIELDS[hint](**options)


def _is_answer(hint: Any) -> bool:
    return is_dataclass(hint) or is_typeddict(hint)


class RowSerializer(serializers.ModelSerializer[Any]):
    """Serializes a row: the columns in `Meta.fields`, and every declared field."""

    def get_field_names(self, declared_fields: Mapping[str, Field], info: Any) -> list[str]:
        return list(dict.fromkeys([*self.Meta.fields, *declared_fields]))


def rows_of(
    name: str, model: type[Model], columns: str, doc: str = "", /, *, extends: Any = RowSerializer, **fields: Field
) -> type[serializers.Serializer[Any]]:
    """The serializer of rows of a model: columns, divided by spaces, and further fields.

    `name` and `doc` are shown in the schema. `extends`: a serializer of rows whose columns and
    fields come first.
    """
    inherited = getattr(getattr(extends, "Meta", None), "fields", [])
    meta = type("Meta", (), {"model": model, "fields": [*inherited, *columns.split()]})
    return type(f"{name}Serializer", (extends,), {"__doc__": doc, "Meta": meta, **fields})


def extended(name: str, serializer: Any, doc: str = "", /, **fields: Field) -> type[serializers.Serializer[Any]]:
    """A serializer with further fields. `name` and `doc` are shown in the schema; empty: its own."""
    return type(f"{name}Serializer", (serializer,), {"__doc__": doc or serializer.__doc__, **fields})


def related(source: str) -> serializers.CharField:
    """A text of a related row, null without one. `source`: where, as in `author.username`."""
    return serializers.CharField(source=source, default=None, allow_null=True)


class WithValues:
    """A row with further values, for a serializer that shows both."""

    def __init__(self, row: Any, **values: Any) -> None:
        self.__dict__.update(values, _row=row)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)


def refuse_unknown_fields(serializer: serializers.Serializer[Any], data: Any) -> None:
    """Raise DRF's ValidationError if `data` has fields that the serializer does not have."""
    unknown = []
    if isinstance(data, Mapping):
        unknown = sorted(set(data) - set(serializer.fields) - {FORM_TOKEN})
    if unknown:
        names = [str(name)[: limits.NAME] for name in unknown[: limits.PROBLEMS]]
        raise serializers.ValidationError({name: [_("There is no such field.")] for name in names})


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses fields that it does not have."""

    def to_internal_value(self, data: Any) -> Any:
        refuse_unknown_fields(self, data)
        return super().to_internal_value(data)


def field_errors(detail: Any, field: str = "") -> Iterator[dict[str, str]]:
    """DRF's nested errors as a flat list.

    `field` is a dotted path (`answers.rubrics.R1.value`), or '' for errors of the whole.
    """
    if isinstance(detail, dict):
        for key, inner in detail.items():
            inner_field = field
            if key not in (api_settings.NON_FIELD_ERRORS_KEY, NON_FIELD_ERRORS):
                inner_field = f"{field}.{key}".lstrip(".")
            yield from field_errors(inner, inner_field)
    elif isinstance(detail, list):
        for number, inner in enumerate(detail):
            inner_field = field
            if isinstance(inner, dict):
                inner_field = f"{field}.{number}".lstrip(".")
            yield from field_errors(inner, inner_field)
    else:
        yield {"field": field, "code": detail.code, "detail": str(detail)}


def _text(most: int, **options: Any) -> serializers.CharField:
    """A text as typed, of at most that many characters."""
    return serializers.CharField(allow_blank=True, default="", trim_whitespace=False, max_length=most, **options)


def _code(most: int = limits.CODE, **options: Any) -> serializers.CharField:
    """A text on one line, such as the code of a reason."""
    return serializers.CharField(allow_blank=True, default="", max_length=most, **options)


def _choice(choices: Sequence[str], **options: Any) -> serializers.ChoiceField:
    return serializers.ChoiceField(choices=choices, allow_blank=True, default="", **options)


class AnswerSerializer(StrictSerializer):
    """The answer to one question."""

    value = _code(limits.VALUE)
    note = _text(limits.TEXT)


class RubricAnswerSerializer(StrictSerializer):
    """The answer to one rubric. `wording` is the physician's own if the value is 'corrected'."""

    value = _choice(RUBRIC_VALUES)
    wording = _text(limits.CRITERION)
    note = _text(limits.TEXT)
    severity = _code()


class CitationSerializer(StrictSerializer):
    """Evidence. `reference`: a guideline's or book's name (with its `section`), DOI, PMID, URL or
    part of this case; `read_on`: ISO date. Kind `case`: `passage` must be in the text of the case;
    `section` becomes its place ("1.3:5-16", passage and code points). Kind `search` (searched, not
    found): `reference` is where, `passage` the words, `read_on` when. `trap`, `level`: where the
    terms of the case have `levels`, each citation belongs to one trap and has a level.
    """

    kind = _choice(KINDS)
    reference = _code(limits.REFERENCE)
    section = _code(limits.SECTION)
    passage = _text(limits.TEXT)
    read_on = _code(limits.DAY)
    trap = _code()
    level = _choice(LEVELS)


class AddedRubricSerializer(StrictSerializer):
    """A rubric written by the physician, tied to the sample's traps by their tags."""

    criterion = serializers.CharField(allow_blank=True, trim_whitespace=False, max_length=limits.CRITERION)
    tags = serializers.ListField(
        child=serializers.CharField(max_length=limits.CODE), default=list, max_length=limits.TAGS
    )
    severity = _code()


class HighlightSerializer(StrictSerializer):
    """Words of a text of the case. `passage`: block and turn, counted from 1 ("1.3"; "1.3.source"
    for the text before it was changed); `start` and `end` count its Unicode code points; `quote`:
    exactly these words. `first_look` is set by the server: highlighted before the traps were
    revealed, in the text shown then.
    """

    quote = serializers.CharField(trim_whitespace=False, max_length=limits.QUOTE)
    label = serializers.CharField()  # type: ignore[assignment]
    passage = serializers.CharField(max_length=limits.PASSAGE)
    start = serializers.IntegerField(min_value=0, max_value=2**31 - 1)
    end = serializers.IntegerField(min_value=0, max_value=2**31 - 1)
    first_look = serializers.BooleanField(default=False)


class AnswersSerializer(StrictSerializer):
    """A physician's answers so far, by the keys of the case's form. A draft may leave answers
    blank.
    """

    questions = serializers.DictField(child=AnswerSerializer(), default=dict)
    rubrics = serializers.DictField(child=RubricAnswerSerializer(), default=dict)
    verdict = _choice(values_of(Verdict))
    reason = _text(limits.TEXT)
    reason_code = _code(help_text="For a rejection: one of the form's reasons.")
    dissent_code = _code(
        help_text="One of the form's dissents, if the secondary confirms an approval that the primary rejected."
    )
    change_reason = _text(limits.TEXT, help_text="Why the secondary's confirmed answer differs from the blind one.")
    declaration = _choice(
        values_of(Declaration),
        help_text="If the secondary approves other rubrics than the primary: only the wording differs, or the meaning.",
    )
    citations = CitationSerializer(many=True, default=list, max_length=limits.CITATIONS)  # type: ignore[call-arg]
    added = AddedRubricSerializer(many=True, default=list, max_length=limits.ADDED)  # type: ignore[call-arg]
    highlights = HighlightSerializer(many=True, default=list, max_length=2 * limits.HIGHLIGHTS)  # type: ignore[call-arg]


TOKEN: Fields = {
    "token": serializers.UUIDField(
        help_text="The claim's fencing token, as shown in the assignment. Each phase has its own."
    )
}


class BlockSerializer(serializers.Serializer[Any]):
    """A block to show, by `kind`: text (text, tone), dialogue (turns), diff (before, after), table
    (columns, rows, tone), image (url, alt), points (x_label, y_label, points).
    """

    kind = serializers.CharField()
    title = serializers.CharField()
    tone = serializers.CharField(required=False)
    text = serializers.CharField(required=False)
    turns = serializer_of(Turn)(many=True, required=False)
    before = serializer_of(Turn)(many=True, required=False)
    after = serializer_of(Turn)(many=True, required=False)
    columns = serializers.ListField(child=serializers.CharField(), required=False)
    rows = serializers.ListField(child=serializers.ListField(child=serializers.CharField()), required=False)
    url = serializers.CharField(required=False)
    alt = serializers.CharField(required=False)
    x_label = serializers.CharField(required=False)
    y_label = serializers.CharField(required=False)
    points = serializer_of(Point)(many=True, required=False)


class FormSerializer(serializers.Serializer[Any]):
    """All questions about one case; until the first look is committed, only those of the first look. `severities`:
    asked for each rubric that is kept. `rubrics_editable`: rubrics may be removed and added.
    `rubrics_when`: `<key>=<value>`, the answer with which rubrics are judged; empty: always.
    """

    questions = serializer_of(Question)(many=True)
    rubrics = serializer_of(RubricText)(many=True)
    severities = serializer_of(Level)(many=True, default=list)
    reasons = serializer_of(Reason)(many=True, default=list)
    dissents = serializer_of(Reason)(
        many=True, default=list, help_text="Reasons for a confirmed approval against the primary's rejection."
    )
    rubrics_editable = serializers.BooleanField(default=False)
    rubrics_when = serializers.CharField(default="", allow_blank=True)
    severity_asks = serializers.CharField(default="", allow_blank=True)
    asks_verdict = serializers.BooleanField(default=True, help_text="Off: leave out the verdict.")
    labels = serializer_of(HighlightLabel)(many=True, default=list)
    terms = serializer_of(TrapTerm)(many=True, default=list)


class ShownSpecSerializer(serializers.Serializer[Any]):
    """A case as a physician may see it. `asked_for`: why the previous version was rejected."""

    benchmark = serializers.CharField()
    version = serializers.IntegerField()
    title = serializers.CharField()
    language = serializers.CharField()
    simulated = serializers.BooleanField()
    asked_for = serializers.ListField(child=serializers.CharField())
    blocks = BlockSerializer(many=True)
    form = FormSerializer()


class SpecSerializer(ShownSpecSerializer):
    """A case as frozen, with the name of its sample."""

    lineage = serializers.CharField()
