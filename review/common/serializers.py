"""Frozen cases and answers as JSON, shared by the apps' APIs."""

from dataclasses import fields
from datetime import date, datetime
from types import NoneType
from typing import Any, get_args, get_type_hints

from rest_framework import serializers

from review.rules.citations import KINDS
from review.rules.questions import RUBRIC_VALUES
from review.rules.state_machine import Verdict

_FIELDS: dict[type, Any] = {
    str: serializers.CharField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    date: serializers.DateField,
    datetime: serializers.DateTimeField,
}


class DataclassSerializer(serializers.Serializer[Any]):
    """Shows the plain fields of the dataclass `Meta.mirrors`; others have to be declared, and what is declared wins."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        shown = super().get_fields()
        mirrored = self.Meta.mirrors  # type: ignore[attr-defined]
        hints = get_type_hints(mirrored)
        found: dict[str, serializers.Field[Any, Any, Any, Any]] = {}
        for name in (each.name for each in fields(mirrored)):
            if name not in shown:
                kinds = set(get_args(hints[name]) or (hints[name],))
                options = {"allow_null": True} if NoneType in kinds else {}
                found[name] = _FIELDS[(kinds - {NoneType}).pop()](**options)
        return {**found, **shown}


class AnswerSerializer(serializers.Serializer[Any]):
    """The answer to one question."""

    value = serializers.CharField(allow_blank=True, default="", max_length=100)
    note = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)


class RubricAnswerSerializer(serializers.Serializer[Any]):
    """The answer to one rubric. `wording` is the physician's own if the value is 'corrected'."""

    value = serializers.ChoiceField(choices=RUBRIC_VALUES, allow_blank=True, default="")
    wording = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)
    note = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)
    severity = serializers.CharField(allow_blank=True, default="", max_length=100)


class CitationSerializer(serializers.Serializer[Any]):
    """Evidence. `reference`: a guideline's name (with its `section`), DOI, PMID or URL; `read_on`: ISO date."""

    kind = serializers.ChoiceField(choices=KINDS, allow_blank=True, default="")
    reference = serializers.CharField(allow_blank=True, default="", max_length=2000)
    section = serializers.CharField(allow_blank=True, default="", max_length=500)
    passage = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)
    read_on = serializers.CharField(allow_blank=True, default="", max_length=10)


class AddedRubricSerializer(serializers.Serializer[Any]):
    """A rubric written by the physician, tied to the sample's traps by their tags."""

    criterion = serializers.CharField(allow_blank=True, trim_whitespace=False)
    tags = serializers.ListField(child=serializers.CharField(max_length=100), default=list, max_length=100)
    severity = serializers.CharField(allow_blank=True, default="", max_length=100)


class AnswersSerializer(serializers.Serializer[Any]):
    """A physician's answers so far, by the keys of the case's form. A draft may leave answers blank."""

    questions = serializers.DictField(child=AnswerSerializer(), default=dict)
    rubrics = serializers.DictField(child=RubricAnswerSerializer(), default=dict)
    verdict = serializers.ChoiceField(choices=[verdict.value for verdict in Verdict], allow_blank=True, default="")
    reason = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)
    reason_code = serializers.CharField(
        allow_blank=True, default="", max_length=100, help_text="For a rejection: one of the form's reasons."
    )
    dissent_code = serializers.CharField(
        allow_blank=True,
        default="",
        max_length=100,
        help_text="One of the form's dissents, if the secondary confirms an approval that the primary rejected.",
    )
    change_reason = serializers.CharField(
        allow_blank=True,
        default="",
        trim_whitespace=False,
        help_text="Why the secondary's confirmed answer differs from the blind one.",
    )
    citations = CitationSerializer(many=True, default=list)
    added = AddedRubricSerializer(many=True, default=list)


class TokenSerializer(serializers.Serializer[Any]):
    """The claim's fencing token, as shown in the assignment. Each phase has its own."""

    token = serializers.UUIDField()


class TurnSerializer(serializers.Serializer[Any]):
    """One turn of a conversation."""

    speaker = serializers.CharField()
    text = serializers.CharField()


class PointSerializer(serializers.Serializer[Any]):
    """One point of a scatter plot; `size` is relative to the other points."""

    x = serializers.FloatField()
    y = serializers.FloatField()
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment]
    size = serializers.FloatField()
    group = serializers.CharField(allow_blank=True)


class BlockSerializer(serializers.Serializer[Any]):
    """A block to show, by `kind`: text (text, tone), dialogue (turns), diff (before, after), table (columns, rows, tone),
    image (url, alt), points (x_label, y_label, points)."""

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


class ChoiceSerializer(serializers.Serializer[Any]):
    """One possible answer to a question. `blocks`: it rules out approval and requires a note. `evidence`: it requires
    a citation."""

    value = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    blocks = serializers.BooleanField()
    inadequate = serializers.BooleanField()
    evidence = serializers.BooleanField(default=False)


class QuestionSerializer(serializers.Serializer[Any]):
    """A criterion that every reviewer judges. `asks`: the question in words, if the label only names the criterion.
    `first_look`: answered before the traps are revealed, and then final."""

    key = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    help = serializers.CharField()
    asks = serializers.CharField(default="")
    choices = ChoiceSerializer(many=True)
    first_look = serializers.BooleanField(default=False)


class RubricTextSerializer(serializers.Serializer[Any]):
    """A rubric as shown to physicians, with the tags of its traps."""

    key = serializers.CharField()
    criterion = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())


class LevelSerializer(serializers.Serializer[Any]):
    """One level of the harm scale."""

    value = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]


class ReasonSerializer(serializers.Serializer[Any]):
    """A reason to reject a sample, or to approve it against a rejection. `reducible`: a revision can fix it."""

    code = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    reducible = serializers.BooleanField()


class FormSerializer(serializers.Serializer[Any]):
    """All questions about one case; until the first look is committed, only its own. `severities`: asked for each
    rubric that is kept. `rubrics_editable`: rubrics may be removed and added."""

    questions = QuestionSerializer(many=True)
    rubrics = RubricTextSerializer(many=True)
    severities = LevelSerializer(many=True, default=list)
    reasons = ReasonSerializer(many=True, default=list)
    dissents = ReasonSerializer(
        many=True, default=list, help_text="Reasons for a confirmed approval against the primary's rejection."
    )
    rubrics_editable = serializers.BooleanField(default=False)


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
