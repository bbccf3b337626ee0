"""All verdicts of a run as numpy arrays, built from columns of ids, with no object per judgment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluation.verdicts.selection import (
    JUDGE_FAILURES,
    JUDGED,
    OUTCOMES,
    PENDING,
    UNJUDGED,
    Ints,
    counted_verdict,
    kind_of,
)

INDEX_TYPE = np.int32  # an array of more than 2,147,483,647 items would not fit into memory
Floats = NDArray[np.float64]


class DataSetKey(NamedTuple):
    """A data set: the samples of a task, asked in one variant."""

    name: str
    task: str
    variant: str


class SampleColumns(NamedTuple):
    """The samples of a release, an entry each."""

    ids: Ints
    tasks: Sequence[str]
    clusters: Ints  # of `selection.cluster_numbers`
    is_control: NDArray[np.bool_]
    is_held_out: NDArray[np.bool_]


class RubricColumns(NamedTuple):
    """The rubrics of a release. `members`: facet -> value -> ids of the rubrics that have it."""

    ids: Ints
    members: Mapping[str, Mapping[str, Ints]]


class ResponseGroup(NamedTuple):
    """Responses of one model to one variant that ended in the same way."""

    endpoint: str
    variant: str
    outcome: str
    failed: bool
    ids: Ints
    samples: Ints


class VoteGroup(NamedTuple):
    """Votes of one judge of a panel with the same number and verdict."""

    judge: str
    repeat: int
    verdict: str
    responses: Ints
    rubrics: Ints


class JudgmentGroup(NamedTuple):
    """Judgments with the same verdict, status and error."""

    verdict: str
    status: str
    error: str
    responses: Ints
    rubrics: Ints


class ScoreGroup(NamedTuple):
    """The scores of these names that code gave responses. `numbers`: a row for each response."""

    names: Sequence[str]
    responses: Ints
    rubrics: Ints
    numbers: Floats


@dataclass(frozen=True)
class VerdictTable:
    """One row per judgment; a unit is a sample in one data set.

    `endpoint`, `unit`, `rubric`, `verdict` and `kind` are indices (`INDEX_TYPE`) into `endpoints`,
    units, rubrics, `verdicts` and `kinds`.

    Attributes:
        verdict: the verdict that counts: the judge's, or another by the rule for the outcome of the
            response or for a failure of the judge.
        kind: why there is a verdict, or none.
        response: the id of the response.
        scores: name -> the score that code gave the response, NaN where it gave none.
        unit_sample: the id of the sample of each unit.
        unit_cluster: the cluster of each unit: a source record that has several samples, else the
            sample.
        rubrics: how many rubrics there are.
    """

    endpoints: tuple[str, ...]
    datasets: tuple[str, ...]
    verdicts: tuple[str, ...]
    kinds: tuple[str, ...]
    endpoint: Ints
    unit: Ints
    rubric: Ints
    verdict: Ints
    kind: Ints
    unit_sample: Ints
    unit_dataset: Ints
    unit_cluster: Ints
    unit_is_control: NDArray[np.bool_]
    unit_is_held_out: NDArray[np.bool_]
    rubrics: int
    # Facet -> value -> which rubrics have it.
    members: Mapping[str, Mapping[str, NDArray[np.bool_]]]
    responses: Mapping[tuple[int, int, str], int]  # (endpoint, data set, outcome) -> count
    failed: Mapping[int, int]  # endpoint -> failed responses
    response: Ints
    rubric_ids: Ints  # ascending
    scores: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def units(self) -> int:
        return len(self.unit_dataset)

    @cached_property
    def cell(self) -> Ints:
        """The flat index of each judgment in arrays of (models, units)."""
        return self.endpoint * self.units + self.unit

    @cached_property
    def _order(self) -> tuple[Ints, Ints]:
        """The judgments in the order of their responses and rubrics, and these as one number."""
        keys = self.response * len(self.rubric_ids) + self.rubric
        order = np.argsort(keys)
        return order, keys[order]

    def places(self, responses: Ints, rubrics: Ints) -> Ints:
        """The judgment of each of these pairs of response and rubric ids; -1 if there is none."""
        if not len(self.response):
            return np.full(len(responses), -1)
        order, keys = self._order
        sought = responses * len(self.rubric_ids) + np.searchsorted(self.rubric_ids, rubrics)
        places = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
        return np.where(keys[places] == sought, order[places], -1)

    def only(self, rows: NDArray[Any]) -> "VerdictTable":
        """The table restricted to some of the judgments; all units are kept."""
        return replace(
            self,
            **{
                name: getattr(self, name)[rows]
                for name in ("endpoint", "unit", "rubric", "verdict", "kind", "response")
            },
            scores={name: values[rows] for name, values in self.scores.items()},
        )


def build_table(
    endpoints: Sequence[str],
    datasets: Sequence[DataSetKey],
    rules: Mapping[str, str],
    samples: SampleColumns,
    rubrics: RubricColumns,
    responses: Sequence[ResponseGroup],
    judgments: Sequence[JudgmentGroup],
) -> VerdictTable:
    """The verdicts of a run. `rules`: how each outcome and failure of the judge counts.

    Judgments of responses that have not ended, or that belong to none of `datasets`, are left out.
    """
    order = np.argsort(samples.ids)
    sample_ids, clusters = samples.ids[order], samples.clusters[order]
    is_control, is_held_out = samples.is_control[order], samples.is_held_out[order]
    tasks = sorted(set(samples.tasks))
    task = np.array([tasks.index(name) for name in samples.tasks], dtype=INDEX_TYPE)[order]
    dataset_index = {(data.task, data.variant): position for position, data in enumerate(datasets)}
    response_ids = np.sort(concatenated([group.ids for group in responses]))
    sample_of, group_of = np.zeros((2, len(response_ids)), dtype=INDEX_TYPE)
    dataset_of_task = np.full((len(responses), len(tasks)), -1, dtype=INDEX_TYPE)  # by group of responses
    counts: dict[tuple[int, int, str], int] = {}
    failed: dict[int, int] = {}
    for number, group in enumerate(responses):
        endpoint, places = endpoints.index(group.endpoint), np.searchsorted(response_ids, group.ids)
        sample_of[places], group_of[places] = np.searchsorted(sample_ids, group.samples), number
        dataset_of_task[number] = [dataset_index.get((name, group.variant), -1) for name in tasks]
        dataset = dataset_of_task[number, task[sample_of[places]]]
        for position, count in enumerate(np.bincount(dataset[dataset >= 0], minlength=len(datasets)).tolist()):
            key = endpoint, position, group.outcome
            counts[key] = counts.get(key, 0) + count
        if group.failed:
            failed[endpoint] = failed.get(endpoint, 0) + len(group.ids)

    row_response = concatenated([group.responses for group in judgments])
    row_rubric = concatenated([group.rubrics for group in judgments])
    judged_as = np.repeat(np.arange(len(judgments)), [len(group.responses) for group in judgments])
    place = np.searchsorted(response_ids, row_response)
    is_kept = np.zeros(len(place), dtype=np.bool_)
    within = place < len(response_ids)
    is_kept[within] = response_ids[place[within]] == row_response[within]
    is_kept[is_kept] = dataset_of_task[group_of[place[is_kept]], task[sample_of[place[is_kept]]]] >= 0
    if not is_kept.all():
        place, row_response, row_rubric, judged_as = (
            column[is_kept] for column in (place, row_response, row_rubric, judged_as)
        )
    sample, group_number = sample_of[place], group_of[place]
    dataset = dataset_of_task[group_number, task[sample]]

    # What a judgment counts as depends only on its group and on that of its response.
    states = [(group.verdict, group.status, group.error) for group in judgments]
    counted_as = [[counted_verdict(rules, group.outcome, *state) for state in states] for group in responses]
    kind_names = [[kind_of(group.outcome, *state) for state in states] for group in responses]
    by_rule = {rule for names in counted_as for rule in names}
    verdicts = tuple(
        dict.fromkeys([UNJUDGED, *sorted({*by_rule, *(verdict for verdict, *_rest in states if verdict)})])
    )
    kinds = (JUDGED, *OUTCOMES[1:], *JUDGE_FAILURES, PENDING)
    shape = len(responses), len(judgments)
    verdict, kind = (
        np.array([[names.index(name) for name in row] for row in table], dtype=INDEX_TYPE).reshape(shape)[
            group_number, judged_as
        ]
        for names, table in ((verdicts, counted_as), (kinds, kind_names))
    )

    per_sample = max(1, len(datasets))
    unit_key = sample.astype(np.int64) * per_sample + dataset
    is_present = np.zeros(len(sample_ids) * per_sample, dtype=np.bool_)  # as np.unique, without sorting
    is_present[unit_key] = True
    units, unit = np.flatnonzero(is_present), (np.cumsum(is_present, dtype=INDEX_TYPE) - 1)[unit_key]
    unit_sample, unit_dataset = np.divmod(units, per_sample)
    rubric_ids = np.sort(rubrics.ids)
    return VerdictTable(
        endpoints=tuple(endpoints),
        datasets=tuple(data.name for data in datasets),
        verdicts=verdicts,
        kinds=kinds,
        endpoint=np.array([endpoints.index(group.endpoint) for group in responses], dtype=INDEX_TYPE)[group_number],
        unit=unit,
        rubric=np.searchsorted(rubric_ids, row_rubric).astype(INDEX_TYPE),
        verdict=verdict,
        kind=kind,
        unit_sample=sample_ids[unit_sample],
        unit_dataset=unit_dataset.astype(INDEX_TYPE),
        unit_cluster=clusters[unit_sample],
        unit_is_control=is_control[unit_sample],
        unit_is_held_out=is_held_out[unit_sample],
        rubrics=len(rubric_ids),
        members={
            name: {value: _marked(rubric_ids, ids) for value, ids in values.items()}
            for name, values in rubrics.members.items()
        },
        responses=counts,
        failed=failed,
        response=row_response,
        rubric_ids=rubric_ids,
    )


def concatenated(parts: Sequence[Ints]) -> Ints:
    """All of these arrays in one, an empty one for none."""
    return np.concatenate([*parts, np.array([], dtype=np.int64)])


def _marked(known: Ints, ids: Ints) -> NDArray[np.bool_]:
    """Which of the ascending `known` ids are among `ids`, all of which are known."""
    marks = np.zeros(len(known), dtype=np.bool_)
    marks[np.searchsorted(known, ids)] = True
    return marks
