"""The API of judges: agreement, variance, self-preference, and validation by physicians."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response as Answer
from rest_framework.views import APIView

from evaluation.judges import draw, services, summary
from evaluation.judges.numbers import values
from evaluation.judges.numbers.agreement import JudgeAgreement, PanelReport
from evaluation.judges.numbers.comparisons import CorrectedComparison, TestedDifference
from evaluation.judges.numbers.families import Kin, Preference, SelfPreference
from evaluation.judges.numbers.validation import DataSetRate, ModelValidation, ValidationReport
from evaluation.runs.kind import RUNS
from evaluation.statistics.correction import CorrectedRate
from evaluation.statistics.intervals import RateInterval
from evaluation.statistics.label_agreement import LabelAgreement
from evaluation.statistics.repeats import VarianceComponents
from evaluation.statistics.validation import JudgeQuality
from generation.jobs.serializers import SettingsSerializer
from review.common.api import validated_body
from review.common.decorators import signed_in_account
from review.common.serializers import DataclassSerializer, TypedSerializer
from review.quality.agreement import RaterAgreement
from review.rules.permissions import Can


class IntervalSerializer(DataclassSerializer):
    """A rate with its interval."""

    mirrors = RateInterval
    shows = values.INTERVAL

    method = serializers.CharField()


class CorrectedSerializer(DataclassSerializer):
    """The rate corrected by physicians' verdicts. `why`: why there is none."""

    mirrors = CorrectedRate

    why = serializers.CharField(allow_null=True)


class JudgeAgreementSerializer(DataclassSerializer):
    """Two judges, or one judge twice, on the `n` criteria on which both voted."""

    mirrors = JudgeAgreement


class SeveralJudgesSerializer(DataclassSerializer):
    """All judges of a panel together, on the `n` criteria with two or more first votes: Fleiss' kappa,
    Krippendorff's alpha.
    """

    mirrors = RaterAgreement


class PanelSerializer(DataclassSerializer):
    """The judges of a panel and how far they agree.

    `pairs`: first votes of two judges; `repeats`: the first and second vote of one judge. `several`:
    null with two judges, and under escalation, where some vote on disputes only. `undecided`:
    criteria without a majority; `undecided_rule`: how the plan counts these: `excluded`, or a
    verdict. `verdicts`: those that the judges may give, the categories of all figures;
    `verdicts_used`: how many of them they gave.
    """

    mirrors = PanelReport
    shows = "panel=rule judges judgments pairs repeats decided undecided undecided_rule several verdicts verdicts_used"


class VarianceSerializer(DataclassSerializer):
    """Components of the variance of the share of an answer's criteria that failed; null if repeats are too few to tell.

    `clipped`: estimates below 0, given as 0.
    """

    mirrors = VarianceComponents

    endpoint = serializers.CharField()


class RepeatsSerializer(TypedSerializer):
    """Answers per question, judgments per criterion, and the components of the variance."""

    typed = {int: "answers judgments"}
    models = VarianceSerializer(many=True)


class KinSerializer(DataclassSerializer):
    """An endpoint of the same model family as tested models.

    `role`: judge, or its role in making the samples.
    """

    mirrors = Kin


class FamilyRateSerializer(TypedSerializer):
    """The rate of all tested models of a family."""

    typed = {str: "family", int: "failed judged", float: "rate"}


class PreferenceSerializer(DataclassSerializer):
    """A judge's rate minus that of the judges of other families: on its own family, on others, and the difference of both.

    `difference`: below 0, the judge favours its own family.
    """

    mirrors = Preference
    shows = "judge family own others own_n others_n low high difference"


class SelfPreferenceSerializer(DataclassSerializer):
    """Endpoints of a tested model's family, and how much judges favour their own family."""

    mirrors = SelfPreference

    rates = FamilyRateSerializer(many=True)


class QualitySerializer(DataclassSerializer):
    """One rater against another, weighted by the draw. Positive means failed.

    `n`: criteria; `clusters`: samples that they come from.
    """

    mirrors = JudgeQuality


class DataSetRateSerializer(DataclassSerializer):
    """A model's rate on one data set, by the judge and corrected by physicians' verdicts on that data set."""

    mirrors = DataSetRate


class ModelValidationSerializer(DataclassSerializer):
    """The judge against physicians on one model's answers, and the second physician against the first."""

    mirrors = ModelValidation


class LabelAgreementSerializer(DataclassSerializer):
    """Agreement on the rubrics of one key: between two physicians, and of the judge as its mean agreement with both."""

    mirrors = LabelAgreement


class TestedDifferenceSerializer(DataclassSerializer):
    """The first model's rate less the second's. `p_adjusted`: by Holm, as in the report."""

    mirrors = TestedDifference


class CorrectedComparisonSerializer(DataclassSerializer):
    """Two models on the samples that both answered: by the judge, and corrected by physicians' verdicts."""

    mirrors = CorrectedComparison


class ValidationSerializer(DataclassSerializer):
    """The judge against physicians so far.

    `third`: responses that a third physician decided. `not_drawn`: models added since; another POST
    draws from these only.
    """

    mirrors = ValidationReport
    shows = f"{values.VALIDATION} created_at models labels comparisons"

    notice = serializers.CharField(required=False)


class JudgesSerializer(serializers.Serializer[Any]):
    """The judges of a run.

    `judges`: null if one judge decided once; `validation`: null until it starts.
    """

    judges = PanelSerializer(allow_null=True)
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
