"""What a report over the API is made of."""

from typing import Any

from rest_framework import serializers

from evaluation.metrics import MeasuredRate
from evaluation.numbers import values
from evaluation.numbers.averages import Averages, Contrast
from evaluation.numbers.changes import Bottleneck, Change
from evaluation.numbers.comparing import ModelComparison, Ranking
from evaluation.numbers.counting import OutcomeCount
from evaluation.numbers.coverage import Coverage
from evaluation.numbers.held_out import HeldOutGap
from evaluation.numbers.plans import ROLES
from evaluation.numbers.rates import Rate
from evaluation.numbers.scoring import MeasuredScore, ScoreRow
from evaluation.protocol import ScoreRule
from evaluation.runs.api import PlanSerializer
from evaluation.runs.comparability import JudgingDifference
from evaluation.statistics.intervals import Method
from evaluation.statistics.multiplicity import Rank
from review.common.serializers import DataclassSerializer, TypedSerializer


class MeasuredSerializer(DataclassSerializer):
    """A rate with its 95 % interval over samples.

    `numerator`: a sum of weights; for F1, twice the true positives. `unjudged`: how many judgments
    the rate leaves out. `method`: how the interval was made; `too-few`: there is none, as too few
    samples were counted. `clusters`: samples counted, or the source records above them. `n`:
    rubrics or samples counted, without weights. `best`, `worst`: the rate if everything excluded
    had counted for the model, or against it. `incomplete`: it pools data sets of which one was
    asked and has no verdict, so there is no pooled rate.
    """

    mirrors = MeasuredRate
    shows = values.MEASURED

    method = serializers.ChoiceField(choices=[method.value for method in Method])
    incomplete = serializers.BooleanField(required=False)


class CellRateSerializer(MeasuredSerializer):
    """The same, with the rate as `value` too."""

    shows = f"{values.MEASURED} value"


class RowSerializer(MeasuredSerializer):
    """An endpoint on a data set: its first rate, all rates by name, and the verdict counts behind them.

    `value`: of the facet; it and its `label` are absent in an overall row.
    """

    typed = {str: "endpoint dataset", dict[str, int]: "verdicts"}
    value = serializers.CharField(required=False)
    label = serializers.CharField(required=False)  # type: ignore[assignment]
    rates = serializers.DictField(child=CellRateSerializer())


class RateSerializer(DataclassSerializer):
    """How a rate is counted: of which `unit`, on the samples of which `arm`.

    `weights`: of rubrics; empty: all equal. `planned`: the primary metric of the plan; others are
    exploratory.
    """

    mirrors = Rate
    shows = values.RATE

    weights = serializers.DictField(child=serializers.IntegerField())
    planned = serializers.BooleanField(required=False)


class CoverageSerializer(DataclassSerializer):
    """How much of what a model could have had judged is there, without withdrawn samples.

    `criteria`: all that the release, the variants and the repeats could have had judged. `settled`:
    those of which nothing is missing; `counted`: those with a verdict. A model that is not
    `complete` has no rank.
    """

    mirrors = Coverage
    shows = values.COVERAGE

    complete = serializers.BooleanField()


class DifferenceSerializer(DataclassSerializer):
    """A part of how a run was made and judged that differs from other runs, which have the `usual` value."""

    mirrors = JudgingDifference


class ErrataSerializer(serializers.Serializer[Any]):
    """How many samples were withdrawn, and the rates with them; empty if none were."""

    withdrawn = serializers.IntegerField()
    with_withdrawn = RowSerializer(many=True)


class OfDatasetSerializer(TypedSerializer):
    """A rate on one data set."""

    typed = {str: "dataset", float | None: "value"}


class ContrastSerializer(DataclassSerializer):
    """A rate of one endpoint on two data sets that the benchmark contrasts: the first minus the second."""

    mirrors = Contrast
    shows = f"{values.CONTRAST} first second"

    first = OfDatasetSerializer()
    second = OfDatasetSerializer()


class ChangeSerializer(DataclassSerializer):
    """The effect of another variant of the question on one model, over the samples with verdicts in both data sets.

    `endpoint`: empty for the mean of the models. `kept`, `broken`, `fixed`, `stayed`: samples that
    were right before and after, and so on.
    """

    mirrors = Change
    shows = values.CHANGE


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


class AverageSerializer(DataclassSerializer):
    """Unweighted means of a rate in one variant: of each data set over models, of each model over data sets."""

    mirrors = Averages
    shows = "datasets=by_dataset models=by_model"

    rate = serializers.CharField()
    variant = serializers.CharField(allow_blank=True)


class DatasetSerializer(TypedSerializer):
    """A data set of the release, or their pool."""

    typed = {str: "name label"}


class FrozenPlanSerializer(PlanSerializer):
    """The analysis plan. `frozen`: false for a run launched before plans were introduced."""

    frozen = serializers.BooleanField()


class SamplesSerializer(TypedSerializer):
    """Samples counted, of those asked; a sample counts once in each data set."""

    typed = {int: "counted asked"}


class OutcomeSerializer(DataclassSerializer):
    """How many responses of a model on a data set ended in one way, and how their rubrics are counted.

    `kind`: judged, refused, empty, filtered, cut_off, failed, unparsed, judge_failed, no_majority,
    pending, missing (no answer), or why it is void: invalidated, limit, edited, superseded,
    cancelled. `counted`: rubrics with a verdict. `rule`: judged, excluded, or the verdict that is
    counted.
    """

    mirrors = OutcomeCount


class ModelsComparedSerializer(DataclassSerializer):
    """Two models on the samples that both answered: the first's rate less the second's.

    `p_adjusted`: by Holm, over all planned comparisons or over the pairs of a data set; in a
    breakdown by Benjamini-Hochberg over its cells. `only_first`: samples that only the first model
    failed; `p_samples`: McNemar's exact test on these. `role`, `secondary`: by the primary metric,
    but not on the primary data set of the plan. `value`: of the facet, in a breakdown.
    """

    mirrors = ModelComparison
    shows = values.COMPARISON

    value = serializers.CharField(required=False)
    planned = serializers.BooleanField()
    role = serializers.ChoiceField(choices=ROLES)


class PlaceSerializer(DataclassSerializer):
    """A place, 1 the best, and the places that the data do not rule out with 95 % confidence."""

    mirrors = Rank


class RankSerializer(DataclassSerializer):
    """The place of a model by one rate on one data set."""

    mirrors = Ranking


class ScoreRuleSerializer(DataclassSerializer):
    """How a score is computed, and which responses have it."""

    mirrors = ScoreRule


class MeasuredScoreSerializer(DataclassSerializer):
    """The mean of a score with its 95 % interval over samples, and how it is spread.

    `n`: responses with a score; `without`: judged responses without one.
    """

    mirrors = MeasuredScore
    shows = values.SCORE


class ScoreRowSerializer(DataclassSerializer):
    """The scores of an endpoint on a data set, by name.

    `value`: of the facet; it and its `label` are absent in an overall row.
    """

    mirrors = ScoreRow

    value = serializers.CharField(required=False)
    label = serializers.CharField(required=False)  # type: ignore[assignment]
