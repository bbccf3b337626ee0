"""Frozen cases and answers as JSON, shared by the apps' APIs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from django.core.exceptions import NON_FIELD_ERRORS
from django.db.models import BooleanField, DateTimeField, FloatField, IntegerField, Model
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.settings import api_settings

from review.rules import limits
from review.rules.blocks import Highlight, Point, Turn
from review.rules.case_spec import CaseSpec
from review.rules.citations import KINDS, LEVELS
from review.rules.questions import (
    RUBRIC_VALUES,
    Choice,
    Form,
    HighlightLabel,
    Level,
    Question,
    Reason,
    RubricText,
    TrapTerm,
)
from review.rules.shown_values import entries
from review.rules.state_machine import Declaration, Verdict

Field = serializers.Field[Any, Any, Any, Any]
FORM_TOKEN = "csrfmiddlewaretoken"  # noqa: S105  (the name of a field, which browsers send with files)

_FIELDS: dict[type, Callable[..., Field]] = {
    str: serializers.CharField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    date: serializers.DateField,
    datetime: serializers.DateTimeField,
    Decimal: partial(
        serializers.DecimalField, max_digits=24, decimal_places=8, help_text="In the currency of the prices."
    ),
}
_COLUMNS = {IntegerField: int, FloatField: float, BooleanField: bool, DateTimeField: datetime}
_SERIALIZERS: dict[type, "type[DataclassSerializer]"] = {}  # of the dataclasses that others contain


def _field(hint: Any, **options: Any) -> Field:
    """The field for a type hint: plain type, enum, dataclass, sequence, mapping or optional."""
    origin, kinds = get_origin(hint), [kind for kind in get_args(hint) if kind not in (NoneType, Ellipsis)]
    if origin in (Union, UnionType):
        return _field(kinds[0], **options, allow_null=True)
    if origin is Literal:
        return serializers.ChoiceField(choices=kinds, **options)
    if origin in (tuple, list, set, frozenset, Sequence):
        if kinds[0] in _SERIALIZERS:
            return _SERIALIZERS[kinds[0]](**options, many=True)
        return serializers.ListField(child=_field(kinds[0]), **options)
    if origin in (Mapping, dict):
        return (
            serializers.DictField(**options)
            if kinds[1] is Any
            else serializers.DictField(child=_field(kinds[1]), **options)
        )
    if hint in _SERIALIZERS:
        return _SERIALIZERS[hint](**options)
    if issubclass(hint, Enum):
        return serializers.ChoiceField(choices=[member.value for member in hint], **options)
    return _FIELDS[hint](**options)


class TypedValues:
    """Adds the values that a serializer lists by type in `typed`: the names of each, in a text."""

    typed: ClassVar[Mapping[Any, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        declared: dict[str, Field] = cls.__dict__.get("_declared_fields", {})
        for hint, names in cls.__dict__.get("typed", {}).items():
            declared.update({name: _field(hint) for name in names.split()})


class TypedSerializer(TypedValues, serializers.Serializer[Any]):
    """Serializes values of an object or a mapping: those in `typed`, and declared fields."""


class DataclassSerializer(TypedSerializer):
    """Serializes the dataclass or row that `mirrors` names, or a part of it.

    `shows`: names of fields and properties (`review.rules.shown_values`); by default all fields. A
    declared or typed field takes precedence over the derived one.
    """

    mirrors: ClassVar[type]
    shows: ClassVar[str] = ""
    optional: ClassVar[bool] = False  # whether JSON that is shown may lack fields

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "mirrors" in cls.__dict__:
            _SERIALIZERS.setdefault(cls.mirrors, cls)

    def get_fields(self) -> dict[str, Field]:
        shown, declared = dict[str, Field](), super().get_fields()
        for name, path in entries(self.shows or " ".join(field.name for field in fields(self.mirrors))):
            options: dict[str, Any] = {} if name == path else {"source": path}
            options |= {"required": False} if self.optional else {}
            shown[name] = declared.get(name) or _field(_type_of(self.mirrors, path), **options)
        return shown | declared


@cache
def _type_of(kind: Any, path: str) -> Any:
    """The type of a field or property, or of one of what it contains; of a row, text or number."""
    attribute, _dot, rest = path.partition(".")
    if parts := get_args(kind):  # of an optional value, a mapping or a tuple
        if NoneType in parts:
            return _type_of(parts[0], path) | None
        hint = parts[0] | None if Ellipsis in parts else parts[-1]
    elif issubclass(kind, Model) and (attribute == "pk" or not isinstance(getattr(kind, attribute, None), property)):
        field: Any = kind._meta.pk if attribute == "pk" else kind._meta.get_field(attribute)
        plain = next((plain for column, plain in _COLUMNS.items() if isinstance(field, column)), str)
        hint = plain
        if field.is_relation:
            hint = field.related_model if rest else int
        hint = hint | None if field.null else hint
    elif attribute in (hints := get_type_hints(kind)):
        hint = hints[attribute]
    else:
        hint = get_type_hints(getattr(kind, attribute).fget)["return"]
    return _type_of(hint, rest) if rest else hint


class WithValues:
    """A row with further values, for a serializer that shows both."""

    def __init__(self, row: Any, **values: Any) -> None:
        self.__dict__.update(values, _row=row)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)


class ModelRowSerializer(TypedValues, serializers.ModelSerializer[Any]):
    """Serializes a row of the model `row`: the fields that `shows` names, then the others.

    `shows`: names of fields (`review.rules.shown_values`), such as `author.username` of a related
    row. A subclass adds to what its base shows.
    """

    row: ClassVar[type[Model]]
    shows: ClassVar[str] = ""
    Meta: ClassVar[Any]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        declared: dict[str, Field] = cls.__dict__["_declared_fields"]
        names = list(cls.Meta.fields) if hasattr(cls, "Meta") else []
        for name, path in entries(cls.__dict__.get("shows", "")):
            if name != path:
                hint = _type_of(cls.row, path)
                options: dict[str, Any] = {"default": None} if NoneType in get_args(hint) else {}
                declared.setdefault(name, _field(hint, source=path, **options))
            names.append(name)
        cls.Meta = type("Meta", (), {"model": cls.row, "fields": list(dict.fromkeys([*names, *declared]))})


def refuse_unknown_fields(serializer: serializers.Serializer[Any], data: Any) -> None:
    """Raise DRF's ValidationError if `data` has fields that the serializer does not have."""
    unknown = sorted(set(data) - set(serializer.fields) - {FORM_TOKEN}) if isinstance(data, Mapping) else []
    if unknown:
        raise serializers.ValidationError(
            {name[: limits.NAME]: [_("There is no such field.")] for name in map(str, unknown[: limits.PROBLEMS])}
        )


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
            is_whole = key in (api_settings.NON_FIELD_ERRORS_KEY, NON_FIELD_ERRORS)
            yield from field_errors(inner, field if is_whole else f"{field}.{key}".lstrip("."))
    elif isinstance(detail, list):
        for number, inner in enumerate(detail):
            yield from field_errors(inner, f"{field}.{number}".lstrip(".") if isinstance(inner, dict) else field)
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


class HighlightSerializer(StrictSerializer, DataclassSerializer):
    """Words of a text of the case. `passage`: block and turn, counted from 1 ("1.3"; "1.3.source"
    for the text before it was changed); `start` and `end` count its Unicode code points; `quote`:
    exactly these words. `first_look` is set by the server: highlighted before the traps were
    revealed, in the text shown then.
    """

    mirrors = Highlight

    quote = serializers.CharField(trim_whitespace=False, max_length=limits.QUOTE)
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
    verdict = _choice([verdict.value for verdict in Verdict])
    reason = _text(limits.TEXT)
    reason_code = _code(help_text="For a rejection: one of the form's reasons.")
    dissent_code = _code(
        help_text="One of the form's dissents, if the secondary confirms an approval that the primary rejected."
    )
    change_reason = _text(limits.TEXT, help_text="Why the secondary's confirmed answer differs from the blind one.")
    declaration = _choice(
        [declaration.value for declaration in Declaration],
        help_text="If the secondary approves other rubrics than the primary: only the wording differs, or the meaning.",
    )
    citations = CitationSerializer(many=True, default=list, max_length=limits.CITATIONS)  # type: ignore[call-arg]
    added = AddedRubricSerializer(many=True, default=list, max_length=limits.ADDED)  # type: ignore[call-arg]
    highlights = HighlightSerializer(many=True, default=list, max_length=2 * limits.HIGHLIGHTS)  # type: ignore[call-arg]


class TokenSerializer(serializers.Serializer[Any]):
    """The claim's fencing token, as shown in the assignment. Each phase has its own."""

    token = serializers.UUIDField()


class TurnSerializer(DataclassSerializer):
    """One turn of a conversation. `mark`: what to look for in it."""

    mirrors = Turn
    mark = serializers.CharField(default="", allow_blank=True)


class PointSerializer(DataclassSerializer):
    """One point of a scatter plot; `size` is relative to the other points."""

    mirrors = Point


class BlockSerializer(serializers.Serializer[Any]):
    """A block to show, by `kind`: text (text, tone), dialogue (turns), diff (before, after), table
    (columns, rows, tone), image (url, alt), points (x_label, y_label, points).
    """

    kind = serializers.CharField()
    title = serializers.CharField()
    tone = serializers.CharField(required=False)
    text = serializers.CharField(required=False)
    turns = TurnSerializer(many=True, required=False)
    before = TurnSerializer(many=True, required=False)
    after = TurnSerializer(many=True, required=False)
    columns = serializers.ListField(child=serializers.CharField(), required=False)
    rows = serializers.ListField(child=serializers.ListField(child=serializers.CharField()), required=False)
    url = serializers.CharField(required=False)
    alt = serializers.CharField(required=False)
    x_label = serializers.CharField(required=False)
    y_label = serializers.CharField(required=False)
    points = PointSerializer(many=True, required=False)


class ChoiceSerializer(DataclassSerializer):
    """One possible answer to a question. `blocks`: it rules out approval and requires a note.
    `ends`: a sample rejected with it is discarded. `evidence`: it requires a citation.
    """

    mirrors = Choice
    evidence = serializers.BooleanField(default=False)
    ends = serializers.BooleanField(default=False)


class QuestionSerializer(DataclassSerializer):
    """A criterion that every reviewer judges. `asks`: the question in words, if the label only
    names the criterion. `first_look`: answered before the traps are revealed, and then final.
    """

    mirrors = Question
    choices = ChoiceSerializer(many=True)
    first_look = serializers.BooleanField(default=False)


class RubricTextSerializer(DataclassSerializer):
    """A rubric as shown to physicians, with the tags of its traps."""

    mirrors = RubricText


class TrapTermSerializer(DataclassSerializer):
    """What a tag means. `evidence`: the kinds of citation that can show the trap; empty: any.
    `levels`: the levels that can; if there are some, a citation belongs to one trap.
    """

    mirrors = TrapTerm
    evidence = serializers.ListField(child=serializers.CharField(), default=list)
    levels = serializers.ListField(child=serializers.CharField(), default=list)


class LevelSerializer(DataclassSerializer):
    """One level of the harm scale."""

    mirrors = Level


class ReasonSerializer(DataclassSerializer):
    """A reason to reject a sample, or to approve it against a rejection. `reducible`: a revision
    can fix it.
    """

    mirrors = Reason


class HighlightLabelSerializer(DataclassSerializer):
    """A label for highlighted words. `first_look`: also offered before the traps are revealed."""

    mirrors = HighlightLabel
    first_look = serializers.BooleanField(default=False)


class FormSerializer(DataclassSerializer):
    """All questions about one case; until the first look is committed, only those of the first look. `severities`:
    asked for each rubric that is kept. `rubrics_editable`: rubrics may be removed and added.
    `rubrics_when`: `<key>=<value>`, the answer with which rubrics are judged; empty: always.
    """

    mirrors = Form
    shows = "questions rubrics"

    severities = LevelSerializer(many=True, default=list)
    reasons = ReasonSerializer(many=True, default=list)
    dissents = ReasonSerializer(
        many=True, default=list, help_text="Reasons for a confirmed approval against the primary's rejection."
    )
    rubrics_editable = serializers.BooleanField(default=False)
    rubrics_when = serializers.CharField(default="", allow_blank=True)
    severity_asks = serializers.CharField(default="", allow_blank=True)
    asks_verdict = serializers.BooleanField(default=True, help_text="Off: leave out the verdict.")
    labels = HighlightLabelSerializer(many=True, default=list)
    terms = TrapTermSerializer(many=True, default=list)


class ShownSpecSerializer(DataclassSerializer):
    """A case as a physician may see it. `asked_for`: why the previous version was rejected."""

    mirrors = CaseSpec
    shows = "benchmark version title language simulated asked_for blocks form"

    blocks = BlockSerializer(many=True)


class SpecSerializer(ShownSpecSerializer):
    """A case as frozen, with the name of its sample."""

    shows = f"{ShownSpecSerializer.shows} lineage"
