"""What a report over the API is made of."""

from typing import Any

from rest_framework import serializers

from evaluation.metrics import MeasuredRate
from evaluation.numbers.averages import Averages, Contrast
from evaluation.numbers.comparing import ModelComparison
from evaluation.numbers.plans import ROLES
from evaluation.numbers.rates import Rate
from evaluation.numbers.scoring import ScoreRow
from evaluation.numbers.values import RateOnDataset
from evaluation.runs.api import PlanSerializer
from evaluation.statistics.intervals import Method
from review.common.serializers import extended, serializer_of

MeasuredSerializer = extended(
    "Measured",
    serializer_of(MeasuredRate),
    """A rate with its 95 % interval over samples.

    `numerator`: a sum of weights; for F1, twice the true positives. `unjudged`: how many judgments
    the rate leaves out. `method`: how the interval was made; `too-few`: there is none, as too few
    samples were counted. `clusters`: samples counted, or the source records above them. `n`:
    rubrics or samples counted, without weights. `best`, `worst`: the rate if everything excluded
    had counted for the model, or against it. `incomplete`: it pools data sets of which one was
    asked and has no verdict, so there is no pooled rate.
    """,
    method=serializers.ChoiceField(choices=[method.value for method in Method]),
    incomplete=serializers.BooleanField(required=False),
)

CellRateSerializer = extended(
    "CellRate",
    MeasuredSerializer,
    "The same, with the rate as `value` too.",
    value=serializers.FloatField(allow_null=True),
)

RateRowSerializer = extended(
    "RateRow",
    MeasuredSerializer,
    """An endpoint on a data set: its first rate, all rates by name, and the verdict counts behind them.

    `value`: of the facet; it and its `label` are absent in an overall row.
    """,
    endpoint=serializers.CharField(),
    dataset=serializers.CharField(),
    verdicts=serializers.DictField(child=serializers.IntegerField()),
    value=serializers.CharField(required=False),
    label=serializers.CharField(required=False),
    rates=serializers.DictField(child=CellRateSerializer()),
)

RateSerializer = extended(
    "Rate",
    serializer_of(Rate),
    """How a rate is counted: of which `unit`, on the samples of which `arm`.

    `weights`: of rubrics; empty: all equal. `planned`: the primary metric of the plan; others are
    exploratory.
    """,
    weights=serializers.DictField(child=serializers.IntegerField()),
    planned=serializers.BooleanField(required=False),
)


class ErrataSerializer(serializers.Serializer[Any]):
    """How many samples were withdrawn, and the rates with them; empty if none were."""

    withdrawn = serializers.IntegerField()
    with_withdrawn = RateRowSerializer(many=True)


ContrastSerializer = extended(
    "Contrast",
    serializer_of(Contrast),
    "A rate of one endpoint on two data sets that the benchmark contrasts: the first minus the second.",
    first=serializer_of(RateOnDataset)(),
    second=serializer_of(RateOnDataset)(),
)

AverageSerializer = extended(
    "Average",
    serializer_of(Averages),
    "Unweighted means of a rate in one variant: of each data set over models, of each model over data sets.",
    rate=serializers.CharField(),
    variant=serializers.CharField(allow_blank=True),
)


class DatasetSerializer(serializers.Serializer[Any]):
    """A data set of the release, or their pool."""

    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]


FrozenPlanSerializer = extended(
    "FrozenPlan",
    PlanSerializer,
    "The analysis plan. `frozen`: false for a run launched before plans were introduced.",
    frozen=serializers.BooleanField(),
)


ModelsComparedSerializer = extended(
    "ModelsCompared",
    serializer_of(ModelComparison),
    """Two models on the samples that both answered: the first's rate less the second's.

    `p_adjusted`: by Holm, over all planned comparisons or over the pairs of a data set; in a
    breakdown by Benjamini-Hochberg over its cells. `only_first`: samples that only the first model
    failed; `p_samples`: McNemar's exact test on these. `role`, `secondary`: by the primary metric,
    but not on the primary data set of the plan. `value`: of the facet, in a breakdown.
    """,
    value=serializers.CharField(required=False),
    planned=serializers.BooleanField(),
    role=serializers.ChoiceField(choices=ROLES),
)

ScoreRowSerializer = extended(
    "ScoreRow",
    serializer_of(ScoreRow),
    """The scores of an endpoint on a data set, by name.

    `value`: of the facet; it and its `label` are absent in an overall row.
    """,
    value=serializers.CharField(required=False),
    label=serializers.CharField(required=False),
)
