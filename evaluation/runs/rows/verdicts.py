"""Reads the verdicts of a run, in a handful of statements."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from django.db.models import Case, F, QuerySet, Value, When

from evaluation import registry
from evaluation.models import Judgment, Response, ResponseScore, Run, Vote
from evaluation.protocol import DataSet
from evaluation.runs.plan import outcomes_of
from evaluation.runs.queries import data_sets_of
from evaluation.runs.rows.columns import read_floats, read_lists
from evaluation.verdicts.selection import CONTROL, HELD_OUT, POLARITY, RUBRIC, Ints, cluster_numbers
from evaluation.verdicts.table import (
    DataSetKey,
    JudgmentGroup,
    ResponseGroup,
    RubricColumns,
    SampleColumns,
    ScoreGroup,
    VerdictTable,
    VoteGroup,
    build_table,
    concatenated,
)
from generation.models import Facet, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work


def verdict_table(run: Run, datasets: Sequence[DataSet], rules: Mapping[str, str]) -> VerdictTable:
    """Read the verdicts of a run. `rules`: how each outcome and failure of the judge counts."""
    tested = dict(run.tested.order_by("pk").values_list("endpoint", "endpoint__name"))
    judgments = [
        JudgmentGroup(*group, *columns)
        for group, columns in read_lists(
            Judgment.objects.filter(run=run), ["verdict", "status", "error"], "response_id", "rubric_id"
        )
    ]
    # After the judgments, so that each judgment finds its response while the run is in progress.
    failing = Case(When(status=Work.Status.FAILED, then=True), default=False)
    ended = Response.objects.filter(run=run).exclude(outcome="")
    responses = [
        ResponseGroup(tested[endpoint], variant, outcome, bool(failed), *columns)
        for (endpoint, variant, outcome, failed), columns in read_lists(
            ended, ["endpoint", "variant", "outcome", failing], "id", "sample_id"
        )
    ]
    keys = [DataSetKey(data.name, data.task, data.variant) for data in datasets]
    samples, rubrics = load_samples(run.release), _rubrics(run.release)
    return build_table(tuple(tested.values()), keys, rules, samples, rubrics, responses, judgments)


def counted_verdicts(run: Run) -> VerdictTable:
    """The verdicts of a run on all its data sets, by the rules of its plan."""
    protocol = registry.protocol(run.release.benchmark)
    return verdict_table(run, data_sets_of(run), outcomes_of(run, protocol))


class RunVerdicts:
    """The verdicts of a run and the votes of its panel, read once for all figures on its judges."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def table(self) -> VerdictTable:
        return counted_verdicts(self.run)

    @cached_property
    def votes(self) -> list[VoteGroup]:
        """The votes that have a verdict."""
        votes = Vote.objects.filter(run=self.run).exclude(verdict="")
        columns = ["judgment__response_id", "judgment__rubric_id"]
        groups = read_lists(votes, ["judge__name", "repeat", "verdict"], *columns)
        return [VoteGroup(*group, *ids) for group, ids in groups]


def read_scores(run: Run) -> list[ScoreGroup]:
    """The scores that code gave the responses of a run."""
    stored = read_floats(ResponseScore.objects.filter(run=run), ["names"], ["response_id", "rubric_id"], "numbers")
    return [
        ScoreGroup(names.split(), responses, rubrics, numbers.reshape(len(responses), -1))
        for (names,), (responses, rubrics), numbers in stored
    ]


def load_samples(release: Release) -> SampleColumns:
    """The samples of a release, with their clusters, arms and parts."""
    columns = ["id", "version__sample__record_id", "version__sample_id"]
    groups = read_lists(
        ReleasedSample.objects.filter(release=release), ["task", "version__sample__arm", "split"], *columns
    )
    ids, records, samples = (concatenated([values[position] for _group, values in groups]) for position in range(3))
    sizes = [len(values[0]) for _group, values in groups]
    return SampleColumns(
        ids=ids,
        tasks=[task for ((task, *_rest), _values), size in zip(groups, sizes, strict=True) for _ in range(size)],
        clusters=cluster_numbers(records, samples, ids),
        is_control=np.repeat([arm == CONTROL for (_task, arm, _split), _values in groups], sizes).astype(np.bool_),
        is_held_out=np.repeat([split == HELD_OUT for (_task, _arm, split), _values in groups], sizes).astype(np.bool_),
    )


def _rubrics(release: Release) -> RubricColumns:
    """The rubrics of a release with their facets, polarity, and the keys that rates count."""
    of_release = ReleasedRubric.objects.filter(sample__release=release)
    ids = concatenated([columns[0] for _group, columns in read_lists(of_release, ["polarity"], "id")])
    with_polarity = of_release.filter(
        sample__version__rubrics__key=F("key"),
        sample__version__rubrics__polarity__in=["must", "must not"],
    )
    only = [rate.only for rate in registry.protocol(release.benchmark).rates if rate.only]
    keys = {value for facet, value in only if facet == RUBRIC}
    parts: list[tuple[QuerySet[Any], list[Any], str]] = [
        (Facet.objects.filter(rubric__sample__release=release), ["name", "value"], "rubric_id"),
        (with_polarity, [Value(POLARITY), "sample__version__rubrics__polarity"], "id"),
    ]
    if keys:
        parts.append((of_release.filter(key__in=keys), [Value(RUBRIC), "key"], "id"))
    members: dict[str, dict[str, Ints]] = defaultdict(dict)
    for rows, by, column in parts:
        for (name, value), (rubric_ids,) in read_lists(rows, by, column):
            members[name][value] = rubric_ids
    return RubricColumns(ids, members)
