"""The API of judges: agreement, variance, self-preference, and validation by physicians."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response as Answer
from rest_framework.views import APIView

from evaluation.judges import draw, services, summary
from evaluation.judges.numbers.agreement import PanelReport
from evaluation.judges.numbers.families import SelfPreference
from evaluation.judges.numbers.validation import ValidationReport
from evaluation.runs.kind import RUNS
from evaluation.statistics.repeats import VarianceComponents
from generation.jobs.serializers import SettingsSerializer
from review.common.api import validated_body
from review.common.decorators import signed_in_account
from review.common.serializers import extended, serializer_of
from review.rules.permissions import Can

VarianceSerializer = extended(
    "Variance",
    serializer_of(VarianceComponents),
    """Components of the variance of the share of an answer's criteria that failed; null if repeats are too few to tell.

    `clipped`: estimates below 0, given as 0.
    """,
    endpoint=serializers.CharField(),
)


class RepeatsSerializer(serializers.Serializer[Any]):
    """Answers per question, judgments per criterion, and the components of the variance."""

    answers = serializers.IntegerField()
    judgments = serializers.IntegerField()

    models = VarianceSerializer(many=True)


class FamilyRateSerializer(serializers.Serializer[Any]):
    """The rate of all tested models of a family."""

    family = serializers.CharField()
    failed = serializers.IntegerField()
    judged = serializers.IntegerField()
    rate = serializers.FloatField()


SelfPreferenceSerializer = extended(
    "SelfPreference",
    serializer_of(SelfPreference),
    "Endpoints of a tested model's family, and how much judges favour their own family.",
    rates=FamilyRateSerializer(many=True),
)

ValidationSerializer = extended(
    "Validation",
    serializer_of(ValidationReport),
    """The judge against physicians so far.

    `third`: responses that a third physician decided. `not_drawn`: models added since; another POST
    draws from these only.
    """,
    notice=serializers.CharField(required=False),
)


class JudgesSerializer(serializers.Serializer[Any]):
    """The judges of a run.

    `judges`: null if one judge decided once; `validation`: null until it starts.
    """

    judges = serializer_of(PanelReport)(allow_null=True)
    repeats = RepeatsSerializer()
    self_preference = SelfPreferenceSerializer()
    selection = serializers.ListField(
        child=serializers.CharField(), help_text="Tested models whose failures were used to select the samples."
    )
    validation = ValidationSerializer(allow_null=True)


@extend_schema_field(
    {
        "oneOf": [
            {"type": "integer", "minimum": 1, "maximum": services.MAX_ITEMS},
            {"type": "string", "pattern": f"^{draw.AMOUNT}$", "example": "10%"},
        ]
    }
)
class AmountField(serializers.RegexField):
    """A number, or a share such as '10%'."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(rf"^{draw.AMOUNT}\Z", max_length=10, **kwargs)


class ValidationAskSerializer(SettingsSerializer):
    """How many responses to draw, and the seed."""

    settings_class = services.ValidationSettings

    n = AmountField(default="", help_text="How many, or a share of each stratum; default: the benchmark's.")


class RunValidation(APIView):
    """The judge of a run against physicians."""

    can = {"GET": Can.READ_RESULTS, "POST": Can.MEASURE}

    @extend_schema(responses=JudgesSerializer)
    def get(self, request: Request, pk: int) -> Answer:
        """Agreement, variance, self-preference and validation of the judges of a run."""
        return Answer(summary.as_dict(RUNS.get(pk)))

    @extend_schema(request=ValidationAskSerializer, responses={201: JudgesSerializer})
    def post(self, request: Request, pk: int) -> Answer:
        """Send a stratified draw of responses to physicians, who do not see model, judge or verdict."""
        body = validated_body(ValidationAskSerializer, request)
        services.start_validation(pk, **body, actor=signed_in_account(request))
        return Answer(summary.as_dict(RUNS.get(pk)), status=201)
