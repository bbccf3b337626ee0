"""What a report over the API is made of."""

from typing import Any

from rest_framework import serializers

from evaluation.protocol import ScoreRule
from evaluation.reports.numbers.averages import Contrast
from evaluation.reports.numbers.changes import Bottleneck, Change
from evaluation.reports.numbers.comparing import ModelComparison
from evaluation.reports.numbers.counting import OutcomeCount
from evaluation.reports.numbers.held_out import HeldOutGap
from evaluation.reports.numbers.scoring import ScoreRow
from evaluation.runs.api import PlanSerializer
from evaluation.statistics.intervals import Method
from evaluation.statistics.multiplicity import Rank
from evaluation.verdicts.plans import ROLES
from evaluation.verdicts.rates import Rate
from review.common.serializers import DataclassSerializer


class MeasuredSerializer(serializers.Serializer[Any]):
    """A rate with its numerator, denominator, unjudged count and 95 % interval over samples."""

    rate = serializers.FloatField(allow_null=True)
    numerator = serializers.IntegerField(help_text="A sum of weights; for F1, twice the true positives.")
    denominator = serializers.IntegerField()
    unjudged = serializers.IntegerField(help_text="How many judgments the rate leaves out.")
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    method = serializers.ChoiceField(
        choices=[method.value for method in Method],
        help_text="How the interval was made. `too-few`: there is none, as too few samples were counted.",
    )
    clusters = serializers.IntegerField(help_text="Samples counted, or the source records above them.")
    n = serializers.IntegerField(help_text="Rubrics or samples counted, without weights.")
    incomplete = serializers.BooleanField(
        required=False,
        help_text="True: pools data sets of which one was asked and has no verdict: there is no pooled rate.",
    )
    best = serializers.FloatField(
        allow_null=True, help_text="The rate if everything excluded had counted for the model."
    )
    worst = serializers.FloatField(
        allow_null=True, help_text="The rate if everything excluded had counted against the model."
    )


class CellRateSerializer(MeasuredSerializer):
    """The same, with the rate as `value` too."""

    value = serializers.FloatField(allow_null=True)


class RowSerializer(MeasuredSerializer):
    """An endpoint on a data set: its first rate, all rates by name, and the verdict counts behind them."""

    endpoint = serializers.CharField()
    dataset = serializers.CharField()
    value = serializers.CharField(required=False, help_text="Value of the facet; absent in the overall row.")
    label = serializers.CharField(required=False)  # type: ignore[assignment]
    rates = serializers.DictField(child=CellRateSerializer())
    verdicts = serializers.DictField(child=serializers.IntegerField())


class RateSerializer(DataclassSerializer):
    """How a rate is counted."""

    mirrors = Rate
    shows = "name label rule"

    interval = serializers.ChoiceField(choices=["wilson", "skew-corrected-t"])
    unit = serializers.ChoiceField(choices=["criterion", "sample"], help_text="What is counted.")
    arm = serializers.ChoiceField(choices=["trap", "control"], help_text="On which samples.")
    weights = serializers.DictField(child=serializers.IntegerField(), help_text="Weights of rubrics; empty: all equal.")
    planned = serializers.BooleanField(
        required=False, help_text="The primary metric of the plan; others are exploratory."
    )


class OfDatasetSerializer(serializers.Serializer[Any]):
    """A rate on one data set."""

    dataset = serializers.CharField()
    value = serializers.FloatField(allow_null=True)


class ContrastSerializer(DataclassSerializer):
    """A rate of one endpoint on two data sets that the benchmark contrasts: the first minus the second."""

    mirrors = Contrast
    shows = "endpoint label rate difference"

    first = OfDatasetSerializer()
    second = OfDatasetSerializer()


class ChangeSerializer(DataclassSerializer):
    """The effect of another variant of the question on one model, over the samples with verdicts in both data sets.

    `endpoint`: empty for the mean of the models. `kept`, `broken`, `fixed`, `stayed`: samples that
    were right before and after, and so on.
    """

    mirrors = Change
    shows = "label rate first second endpoint gain low high p p_adjusted clusters fix_rate break_rate"

    first_rate = serializers.FloatField(allow_null=True)
    second_rate = serializers.FloatField(allow_null=True)
    kept = serializers.IntegerField()
    broken = serializers.IntegerField()
    fixed = serializers.IntegerField()
    stayed = serializers.IntegerField()


class BottleneckSerializer(DataclassSerializer):
    """For a baseline data set and a rate: the contrast with the largest mean gain over the models.

    `lead`: by how much more than `runner_up`, paired by sample; `p_adjusted`: by Holm over the
    baselines of the rate.
    """

    mirrors = Bottleneck


class HeldOutSerializer(DataclassSerializer):
    """A model's rate on public samples, and on held-out ones: the first minus the second.

    A model that does better on public samples may have seen them.
    """

    mirrors = HeldOutGap


class AverageSerializer(serializers.Serializer[Any]):
    """Unweighted means of a rate in one variant: of each data set over models, of each model over data sets."""

    rate = serializers.CharField()
    variant = serializers.CharField(allow_blank=True)
    datasets = serializers.DictField(child=serializers.FloatField(allow_null=True))
    models = serializers.DictField(child=serializers.FloatField(allow_null=True))


class DatasetSerializer(serializers.Serializer[Any]):
    """A data set of the release, or their pool."""

    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]


class FrozenPlanSerializer(PlanSerializer):
    """The analysis plan. `frozen`: false for a run launched before plans were introduced."""

    frozen = serializers.BooleanField()


class SamplesSerializer(serializers.Serializer[Any]):
    """Samples counted, of those asked; a sample counts once in each data set."""

    counted = serializers.IntegerField()
    asked = serializers.IntegerField()


class OutcomeSerializer(DataclassSerializer):
    """How many responses of a model on a data set ended in one way, and how their rubrics are counted."""

    mirrors = OutcomeCount
    kind = serializers.CharField(
        help_text="judged, refused, empty, filtered, cut_off, failed, unparsed, judge_failed, no_majority, pending"
    )
    counted = serializers.IntegerField(help_text="Rubrics with a verdict.")
    rule = serializers.CharField(help_text="judged, excluded, or the verdict that is counted.")


class ModelsComparedSerializer(DataclassSerializer):
    """Two models on the samples that both answered: the first's rate less the second's.

    `p_adjusted`: by Holm, over all planned comparisons or over the pairs of a data set; in a
    breakdown by Benjamini-Hochberg over its cells.
    """

    mirrors = ModelComparison
    shows = "dataset rate first second difference low high p p_adjusted clusters n odds_ratio cohens_h only_second"

    value = serializers.CharField(required=False, help_text="Value of the facet, in a breakdown.")
    first_rate = serializers.FloatField(allow_null=True)
    second_rate = serializers.FloatField(allow_null=True)
    only_first = serializers.IntegerField(allow_null=True, help_text="Samples that only the first model failed.")
    p_samples = serializers.FloatField(allow_null=True, help_text="McNemar's exact test on these.")
    planned = serializers.BooleanField()
    role = serializers.ChoiceField(
        choices=ROLES, help_text="`secondary`: by the primary metric, but not on the primary data set of the plan."
    )


class PlaceSerializer(DataclassSerializer):
    """A place, 1 the best, and the places that the data do not rule out with 95 % confidence."""

    mirrors = Rank


class RankSerializer(PlaceSerializer):
    """The place of a model by one rate on one data set."""

    dataset = serializers.CharField()
    rate = serializers.CharField()
    endpoint = serializers.CharField()


class ScoreRuleSerializer(DataclassSerializer):
    """How a score is computed, and which responses have it."""

    mirrors = ScoreRule


class MeasuredScoreSerializer(serializers.Serializer[Any]):
    """The mean of a score with its 95 % interval over samples, and how it is spread."""

    n = serializers.IntegerField(help_text="Responses with a score.")
    without = serializers.IntegerField(help_text="Judged responses without a score.")
    mean = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    sd = serializers.FloatField(allow_null=True)
    clusters = serializers.IntegerField()
    p5 = serializers.FloatField(allow_null=True)
    q1 = serializers.FloatField(allow_null=True)
    median = serializers.FloatField(allow_null=True)
    q3 = serializers.FloatField(allow_null=True)
    p95 = serializers.FloatField(allow_null=True)


class ScoreRowSerializer(DataclassSerializer):
    """The scores of an endpoint on a data set, by name."""

    mirrors = ScoreRow

    value = serializers.CharField(required=False, help_text="Value of the facet; absent in the overall row.")
    label = serializers.CharField(required=False)  # type: ignore[assignment]
    scores = serializers.DictField(child=MeasuredScoreSerializer())
