"""Frozen cases and answers as JSON, shared by the apps' APIs."""

from typing import Any

from rest_framework import serializers

from review.rules.citations import KINDS
from review.rules.questions import RUBRIC_VALUES
from review.rules.state_machine import Verdict


class AnswerSerializer(serializers.Serializer[Any]):
    """The answer to one question."""

    value = serializers.CharField(allow_blank=True, default="", max_length=100)
    note = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)


class RubricAnswerSerializer(serializers.Serializer[Any]):
    """The finding on one rubric; `wording` is the physician's own where the value is 'corrected'."""

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
    """A rubric of the physician's own, tied to traps of the sample by their tags."""

    criterion = serializers.CharField(allow_blank=True, trim_whitespace=False)
    tags = serializers.ListField(child=serializers.CharField(max_length=100), default=list, max_length=100)
    severity = serializers.CharField(allow_blank=True, default="", max_length=100)


class AnswersSerializer(serializers.Serializer[Any]):
    """What a physician has answered so far, by the keys of the case's form. An unfinished draft leaves things blank."""

    questions = serializers.DictField(child=AnswerSerializer(), default=dict)
    rubrics = serializers.DictField(child=RubricAnswerSerializer(), default=dict)
    verdict = serializers.ChoiceField(choices=[verdict.value for verdict in Verdict], allow_blank=True, default="")
    reason = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)
    reason_code = serializers.CharField(
        allow_blank=True, default="", max_length=100, help_text="One of the form's reasons, with a rejection."
    )
    dissent_code = serializers.CharField(
        allow_blank=True,
        default="",
        max_length=100,
        help_text="One of the form's dissents, with the secondary's confirmed approval of what the primary rejected.",
    )
    change_reason = serializers.CharField(
        allow_blank=True,
        default="",
        trim_whitespace=False,
        help_text="Why the secondary's confirmed answer differs from the own blind one.",
    )
    citations = CitationSerializer(many=True, default=list)
    added = AddedRubricSerializer(many=True, default=list)


class TokenSerializer(serializers.Serializer[Any]):
    """The fencing token of a claim, as the assignment shows it. Every phase has its own."""

    token = serializers.UUIDField()


class TurnSerializer(serializers.Serializer[Any]):
    """One turn of a conversation."""

    speaker = serializers.CharField()
    text = serializers.CharField()


class PointSerializer(serializers.Serializer[Any]):
    """One point of a scatter; `size` in proportion to the others'."""

    x = serializers.FloatField()
    y = serializers.FloatField()
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment]
    size = serializers.FloatField()
    group = serializers.CharField(allow_blank=True)


class BlockSerializer(serializers.Serializer[Any]):
    """What is shown, by `kind`: text (text, tone), dialogue (turns), diff (before, after), table (columns, rows, tone),
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
    """One answer to a question. `blocks`: with it the case cannot be approved, and a note is required. `evidence`: it wants
    a citation."""

    value = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    blocks = serializers.BooleanField()
    inadequate = serializers.BooleanField()
    evidence = serializers.BooleanField(default=False)


class QuestionSerializer(serializers.Serializer[Any]):
    """A criterion that every reviewer judges. `first_look`: before the traps are revealed; the answer then stands."""

    key = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    help = serializers.CharField()
    choices = ChoiceSerializer(many=True)
    first_look = serializers.BooleanField(default=False)


class RubricTextSerializer(serializers.Serializer[Any]):
    """A rubric as put before physicians, with the tags of its traps."""

    key = serializers.CharField()
    criterion = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())


class LevelSerializer(serializers.Serializer[Any]):
    """One level of the harm scale."""

    value = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]


class ReasonSerializer(serializers.Serializer[Any]):
    """Why a sample is rejected, or approved against a rejection. `reducible`: it can be mended."""

    code = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    reducible = serializers.BooleanField()


class FormSerializer(serializers.Serializer[Any]):
    """Everything that is asked about one case; before the first look, only what that asks. `severities`: asked for each
    rubric that stands. `rubrics_editable`: rubrics may be removed and added."""

    questions = QuestionSerializer(many=True)
    rubrics = RubricTextSerializer(many=True)
    severities = LevelSerializer(many=True, default=list)
    reasons = ReasonSerializer(many=True, default=list)
    dissents = ReasonSerializer(
        many=True, default=list, help_text="What a confirmed approval against the primary's rejection is coded by."
    )
    rubrics_editable = serializers.BooleanField(default=False)


class ShownSpecSerializer(serializers.Serializer[Any]):
    """A case as a physician may see it. `asked_for`: why the version before was rejected."""

    benchmark = serializers.CharField()
    version = serializers.IntegerField()
    title = serializers.CharField()
    language = serializers.CharField()
    simulated = serializers.BooleanField()
    asked_for = serializers.ListField(child=serializers.CharField())
    blocks = BlockSerializer(many=True)
    form = FormSerializer()


class SpecSerializer(ShownSpecSerializer):
    """A case as it was frozen, with the name of its sample."""

    lineage = serializers.CharField()
