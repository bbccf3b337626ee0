"""All verdicts of a run as numpy arrays, read in a few statements, with no object per judgment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from django.db.models import Case, CharField, F, QuerySet, Value, When
from numpy.typing import NDArray

from evaluation import registry
from evaluation.metrics import UNJUDGED
from evaluation.models import Judgment, Response, Run
from evaluation.protocol import EXCLUDED, JUDGE_FAILED, JUDGE_FAILURES, JUDGED, UNPARSED, DataSet
from evaluation.reports.numbers.columns import Rows, have_small_ids, send_list_query
from evaluation.runs.services import NO_RESPONSE, NOT_JUDGED
from generation.models import Facet, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work
from review.common.sql import pipelined, send_query

Ints = NDArray[np.signedinteger[Any]]
INDEX_TYPE = np.int32  # an array of more than 2,147,483,647 items would not fit into memory
Status = Work.Status
PENDING = "pending"  # like JUDGE_FAILURES, a reason why an answered response has no verdict
POLARITY = "polarity"  # the breakdown by polarity of rubrics, which is not a stored facet
RUBRIC = "rubric"  # membership by rubric key, for rates that count only one key
BROKEN = "BrokenReply"
CONTROL = "control"
Groups = list[tuple[tuple[Any, ...], tuple[Ints, ...]]]
ReadGroups = Callable[[], Groups]
SPARSE = 8  # ids spread over a range of more than this many times their number are searched


class IdIndex:
    """Maps ids to their positions among the known ids, in ascending order."""

    def __init__(self, ids: Ints) -> None:
        self._first = int(ids.min()) if len(ids) else 0
        self._positions: Any = None
        span = int(ids.max()) - self._first + 1 if len(ids) else 0
        if span <= SPARSE * len(ids):
            # Ids of rows are dense: marking and looking up is faster than sorting and searching.
            is_known = np.zeros(span, dtype=np.bool_)
            is_known[ids - self._first] = True
            self.ids: Ints = np.flatnonzero(is_known) + self._first
            self._positions = np.cumsum(is_known, dtype=INDEX_TYPE)
            self._positions -= 1
        else:
            self.ids = np.unique(ids)

    def __call__(self, ids: Ints) -> Ints:
        """The positions of these ids, all of which must be known."""
        if self._positions is None:
            return np.searchsorted(self.ids, ids)
        positions: Ints = np.take(self._positions, ids - self._first, mode="clip")
        return positions

    def contains(self, ids: Ints) -> NDArray[np.bool_]:
        """Whether each of these ids is known."""
        if not len(self):
            return np.zeros(len(ids), dtype=np.bool_)
        is_known: NDArray[np.bool_] = self.ids[np.minimum(self(ids), len(self) - 1)] == ids
        return is_known

    def __len__(self) -> int:
        return len(self.ids)


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
    rubrics: int
    # Facet -> value -> which rubrics have it.
    members: Mapping[str, Mapping[str, NDArray[np.bool_]]]
    responses: Mapping[tuple[int, int, str], int]  # (endpoint, data set, outcome) -> count
    failed: Mapping[int, int]  # endpoint -> failed responses
    # Endpoint -> verdict -> count, before any rule for outcomes or failures of the judge.
    verdict_counts: Mapping[int, Mapping[str, int]]
    response: Ints
    rubric_ids: Ints  # ascending
    scores: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    # Intermediate results that several rates share.
    memo: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def units(self) -> int:
        return len(self.unit_dataset)

    def only(self, rows: NDArray[np.bool_]) -> "VerdictTable":
        """The table restricted to some of the judgments; all units are kept."""
        return replace(
            self,
            **{
                name: getattr(self, name)[rows]
                for name in ("endpoint", "unit", "rubric", "verdict", "kind", "response")
            },
            scores={name: values[rows] for name, values in self.scores.items()},
            memo={},
        )


Samples = tuple[IdIndex, tuple[list[str], Ints], tuple[Ints, NDArray[np.bool_]]]


def verdict_table(run: Run, datasets: Sequence[DataSet], rules: Mapping[str, str]) -> VerdictTable:
    """Read the verdicts of a run. `rules`: how each outcome and failure of the judge counts."""
    with pipelined():
        return send_table_query(run, datasets, rules)()


def send_table_query(run: Run, datasets: Sequence[DataSet], rules: Mapping[str, str]) -> Callable[[], VerdictTable]:
    """Query the rows of a `verdict_table`; returns a function that reads them.

    The queries are sent immediately while statements are `pipelined`.
    """
    tested = send_query(run.tested.order_by("pk").values_list("endpoint", "endpoint__name"))
    samples = _send_samples_query(run.release)
    small = have_small_ids(Response, ReleasedRubric)
    judgments = _send_judgments_query(run, small=small)
    # After the judgments, so that each judgment finds its response while the run is in progress.
    ended = Response.objects.filter(run=run).exclude(outcome="")
    failing = Case(When(status=Status.FAILED, then=True), default=False)
    by = ["endpoint", "variant", "outcome", failing]
    responses = send_list_query([(ended, by)], "id", "sample_id", small=small)
    return lambda: _table(run, datasets, rules, tested(), _samples(samples()), judgments, responses)


def _table(
    run: Run,
    datasets: Sequence[DataSet],
    rules: Mapping[str, str],
    tested: Sequence[tuple[Any, ...]],
    samples: Samples,
    read_judgments: ReadGroups,
    read_responses: ReadGroups,
) -> VerdictTable:
    endpoint_index = {pk: position for position, (pk, _name) in enumerate(tested)}
    sample_index, (tasks, task), clusters_and_controls = samples
    of_samples = _rows_among(ReleasedRubric.objects.all(), "sample", run, sample_index)
    rubrics = send_list_query([(of_samples, ["polarity"])], "id", "sample_id")
    dataset_index = {(data.task, data.variant): position for position, data in enumerate(datasets)}
    outcomes = list(Response.Outcome.values)
    responses: dict[tuple[int, int, str], int] = {}
    failed: dict[int, int] = {}
    judgment_groups, row_response, row_rubric = _group_judgments(read_judgments())
    groups = read_responses()
    response_index = IdIndex(_concatenated([response_ids for _group, (response_ids, _samples) in groups]))
    sample_of, group_of = np.zeros((2, len(response_index)), dtype=INDEX_TYPE)
    by_task = np.full((len(groups), len(tasks)), -1, dtype=INDEX_TYPE)  # group, task -> data set
    group_keys = [(endpoint_index[endpoint], outcomes.index(outcome)) for (endpoint, _, outcome, _), _ids in groups]
    group_endpoint, group_outcome = np.array(group_keys, dtype=INDEX_TYPE).reshape(-1, 2).T
    for group_number, ((endpoint, variant, outcome, has_failed), (response_ids, sample_ids)) in enumerate(groups):
        endpoint_position, sample_positions = endpoint_index[endpoint], sample_index(sample_ids)
        response_positions = response_index(response_ids)
        by_task[group_number] = [dataset_index.get((name, variant), -1) for name in tasks]
        sample_of[response_positions], group_of[response_positions] = sample_positions, group_number
        dataset = by_task[group_number, task[sample_positions]]
        for position, count in enumerate(np.bincount(dataset[dataset >= 0], minlength=len(datasets))):
            responses[endpoint_position, position, outcome] = responses.get(
                (endpoint_position, position, outcome), 0
            ) + int(count)
        if has_failed:
            failed[endpoint_position] = failed.get(endpoint_position, 0) + len(response_ids)
    del groups
    rubric_index, only_rubric = _rubrics([columns for _group, columns in rubrics()], sample_index)
    members = _send_members_query(run, rubric_index)

    given_by_rule = (rule for rule in rules.values() if rule not in (JUDGED, EXCLUDED))
    verdicts = tuple(dict.fromkeys([UNJUDGED, *sorted({*judgment_groups.verdicts} - {UNJUDGED}), *given_by_rule]))
    response = response_index(row_response)
    sample, group = sample_of[response], group_of[response]
    del response, response_index, sample_of, group_of
    dataset = by_task[group, task[sample]]
    rows, judgment_group = dataset >= 0, judgment_groups.group
    if not rows.all():
        sample, group, dataset = sample[rows], group[rows], dataset[rows]
        row_response, row_rubric, judgment_group = row_response[rows], row_rubric[rows], judgment_group[rows]
    endpoint_of = group_endpoint[group]
    verdict = np.array([verdicts.index(name) for name in judgment_groups.verdicts], dtype=INDEX_TYPE)[judgment_group]
    given_counts = np.bincount(endpoint_of * len(verdicts) + verdict, minlength=len(tested) * len(verdicts)).reshape(
        -1, len(verdicts)
    )
    kinds = (JUDGED, *outcomes[1:], *JUDGE_FAILURES, PENDING)
    kind = np.array([kinds.index(name) for name in judgment_groups.kinds], dtype=INDEX_TYPE)[judgment_group]
    for name in JUDGE_FAILURES:
        if (rule := rules.get(name, EXCLUDED)) != EXCLUDED:
            has_failure = np.array([failure == name for failure in judgment_groups.failures], dtype=np.bool_)[
                judgment_group
            ]
            verdict[has_failure] = verdicts.index(rule)
    for position in np.unique(group_outcome).tolist():
        rule, of_outcome = rules.get(outcomes[position], JUDGED), group_outcome == position
        if position:  # outcome 0 is 'answered', whose kind is 'judged' or a failure of the judge
            kind[of_outcome[group]] = position
        if rule != JUDGED:
            verdict[of_outcome[group]] = 0 if rule == EXCLUDED else verdicts.index(rule)
    del group, judgment_group

    # Equals np.unique, without sorting a million rows.
    rubric = rubric_index(row_rubric) if only_rubric is None else only_rubric[sample]
    unit_key = sample * max(1, len(datasets)) + dataset
    del sample, dataset
    is_present = np.zeros(len(sample_index) * max(1, len(datasets)), dtype=np.bool_)
    is_present[unit_key] = True
    units, unit = np.flatnonzero(is_present), (np.cumsum(is_present, dtype=INDEX_TYPE) - 1)[unit_key]
    unit_sample, unit_dataset = np.divmod(units, max(1, len(datasets)))
    cluster, is_control = clusters_and_controls
    return VerdictTable(
        endpoints=tuple(name for _pk, name in tested),
        datasets=tuple(data.name for data in datasets),
        verdicts=verdicts,
        kinds=kinds,
        endpoint=endpoint_of,
        unit=unit,
        rubric=rubric,
        verdict=verdict,
        kind=kind,
        unit_sample=sample_index.ids[unit_sample],
        unit_dataset=unit_dataset.astype(INDEX_TYPE),
        unit_cluster=cluster[unit_sample],
        unit_is_control=is_control[unit_sample],
        rubrics=len(rubric_index),
        members=_members(members(), rubric_index),
        responses=responses,
        failed=failed,
        verdict_counts={
            endpoint_position: dict(zip(verdicts, counts.tolist(), strict=True))
            for endpoint_position, counts in enumerate(given_counts.reshape(-1, len(verdicts)))
        },
        response=row_response,
        rubric_ids=rubric_index.ids,
    )


def _rubrics(groups: Sequence[tuple[Ints, ...]], sample_index: IdIndex) -> tuple[IdIndex, Ints | None]:
    """The index of the rubrics of the samples; and the index of the only rubric of each sample.

    The latter is None where a sample has several rubrics.
    """
    ids, samples = (_concatenated([columns[position] for columns in groups]) for position in (0, 1))
    is_used = sample_index.contains(samples)
    ids, samples = ids[is_used], sample_index(samples[is_used])
    index = IdIndex(ids)
    if not len(ids) or np.bincount(samples).max() > 1:
        return index, None
    only = np.zeros(len(sample_index), dtype=INDEX_TYPE)
    only[samples] = index(ids)
    return index, only


def load_samples(release: Release) -> Samples:
    """A release's samples: index, (task names, tasks), (clusters, which are controls)."""
    return _samples(_send_samples_query(release)())


def _send_samples_query(release: Release) -> ReadGroups:
    columns = ["id", "version__sample__record_id", "version__sample_id"]
    return send_list_query(
        [(ReleasedSample.objects.filter(release=release), ["task", "version__sample__arm"])], *columns
    )


def _samples(groups: Groups) -> Samples:
    index = IdIndex(_concatenated([ids for _group, (ids, *_others) in groups]))
    tasks = sorted({name for (name, _arm), _numbers in groups})
    record, origin = np.zeros((2, len(index)), dtype=np.int64)
    task = np.zeros(len(index), dtype=INDEX_TYPE)
    control = np.zeros(len(index), dtype=np.bool_)
    for (name, arm), (ids, records, origins) in groups:
        positions = index(ids)
        record[positions], origin[positions], task[positions], control[positions] = (
            records,
            origins,
            tasks.index(name),
            arm == CONTROL,
        )
    # A record is a cluster if several samples were made from it.
    record_index = IdIndex(record)
    record_of, some_origin = record_index(record), np.zeros(len(record_index), dtype=np.int64)
    some_origin[record_of] = origin
    shared = np.zeros(len(record_index), dtype=np.bool_)
    shared[record_of[some_origin[record_of] != origin]] = True
    cluster = np.where(shared[record_of], -record - 1, index.ids)
    return index, (tasks, task), (cluster, control)


@dataclass(frozen=True, slots=True)
class _JudgmentGroups:
    """Groups of judgments with the same verdict, status and error.

    Each group has a verdict, a kind, and the failure of the judge ('' for none). `group`: the group
    of each judgment.
    """

    verdicts: list[str]
    kinds: list[str]
    failures: list[str]
    group: Ints


def _send_judgments_query(run: Run, *, small: bool) -> ReadGroups:
    # With a verdict, status and error do not matter, and an index has the verdicts in order.
    empty, rows = Value("", CharField()), Judgment.objects.filter(run=run)
    parts: list[Rows] = [(rows.exclude(verdict=""), ["verdict", empty, empty])]
    parts.append((rows.filter(verdict=""), ["verdict", "status", "error"]))
    return send_list_query(parts, "response_id", "rubric_id", small=small, by_index=True)


def _group_judgments(groups: Groups) -> tuple[_JudgmentGroups, Ints, Ints]:
    """The groups, and the response and rubric ids of all judgments."""
    verdicts, kinds, failures = [], [], []
    for (verdict, status, error), _of in groups:
        failed = status == Status.FAILED
        failure = (UNPARSED if error == BROKEN else JUDGE_FAILED) if failed else ""
        verdicts.append(verdict or UNJUDGED)
        kinds.append(JUDGED if verdict else failure or PENDING)
        failures.append("" if error in (NO_RESPONSE, NOT_JUDGED) else failure)
    group_of = np.repeat(np.arange(len(groups), dtype=INDEX_TYPE), [len(columns[0]) for _group, columns in groups])
    responses, rubrics = (_concatenated([columns[position] for _group, columns in groups]) for position in (0, 1))
    return _JudgmentGroups(verdicts, kinds, failures, group_of), responses, rubrics


def _concatenated(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([*parts, np.array([], dtype=np.int64)])


def _send_members_query(run: Run, index: IdIndex) -> ReadGroups:
    of_release = ReleasedRubric.objects.filter(sample__release=run.release)
    with_polarity = of_release.filter(
        sample__version__rubrics__key=F("key"),
        sample__version__rubrics__polarity__in=["must", "must not"],
    )
    facets = send_list_query([(_rows_among(Facet.objects.all(), "rubric", run, index), ["name", "value"])], "rubric_id")
    polarities = send_list_query([(with_polarity, [Value(POLARITY), "sample__version__rubrics__polarity"])], "id")
    parts = [facets, polarities]
    keys = {rate.rubric for rate in registry.protocol(run.release.benchmark).rates if rate.rubric}
    if keys:
        parts.append(send_list_query([(of_release.filter(key__in=keys), [Value(RUBRIC), "key"])], "id"))
    return lambda: [row for part in parts for row in part()]


def _members(rows: Groups, index: IdIndex) -> dict[str, dict[str, NDArray[np.bool_]]]:
    """Facet -> value -> which rubrics have it; includes 'polarity' if the rubrics have one."""
    members: dict[str, dict[str, NDArray[np.bool_]]] = {}
    for (name, value), (ids,) in rows:
        has_value = members.setdefault(name, {}).setdefault(value, np.zeros(len(index), dtype=np.bool_))
        has_value[index(ids[index.contains(ids)])] = True
    return members


def _rows_among(rows: QuerySet[Any], name: str, run: Run, index: IdIndex) -> QuerySet[Any]:
    """The rows whose sample or rubric is in `index`, and possibly others.

    A range of ids replaces the join with the release where the ids are dense.
    """
    if len(index) and index.ids[-1] - index.ids[0] < 2 * len(index):
        first, last = int(index.ids[0]), int(index.ids[-1])
        return rows.filter(**{f"{name}__gte": first, f"{name}__lte": last})
    release = "release" if name == "sample" else "sample__release"
    return rows.filter(**{f"{name}__{release}": run.release_id})
