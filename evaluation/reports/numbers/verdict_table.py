"""All verdicts of a run as arrays, read in a handful of statements: the database lists numbers, no judgment is an object."""

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
from evaluation.reports.numbers.columns import Rows, are_small, requested_lists
from evaluation.runs.services import NO_RESPONSE, NOT_JUDGED
from generation.models import Facet, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work
from review.common.sql import pipelined, send_query

Ints = NDArray[np.signedinteger[Any]]
PLACE = np.int32  # of places: a list of more than 2,147,483,647 would not fit into memory
Status = Work.Status
PENDING = "pending"  # beside JUDGE_FAILURES: why an answered response has no verdict
POLARITY = "polarity"  # a breakdown that every release may have, and no facet of it
RUBRIC = "rubric"  # which rubrics have a key, where a rate counts those alone
BROKEN = "BrokenReply"
CONTROL = "control"
Groups = list[tuple[tuple[Any, ...], tuple[Ints, ...]]]
Listed = Callable[[], Groups]
SPARSE = 8  # times as many numbers in a range as are known: then they are searched


class Places:
    """Finds numbers among known ones."""

    def __init__(self, numbers: Ints) -> None:
        self._first = int(numbers.min()) if len(numbers) else 0
        self._at: Any = None
        span = int(numbers.max()) - self._first + 1 if len(numbers) else 0
        if span <= SPARSE * len(numbers):
            # Numbers of rows lie close together: they are marked, not sorted, and looked up, not searched.
            there = np.zeros(span, dtype=np.bool_)
            there[numbers - self._first] = True
            self.known: Ints = np.flatnonzero(there) + self._first
            self._at = np.cumsum(there, dtype=PLACE)
            self._at -= 1
        else:
            self.known = np.unique(numbers)

    def __call__(self, wanted: Ints) -> Ints:
        """Where these stand, all of which are known."""
        if self._at is None:
            return np.searchsorted(self.known, wanted)
        found: Ints = np.take(self._at, wanted - self._first, mode="clip")
        return found

    def has(self, wanted: Ints) -> NDArray[np.bool_]:
        """Which of these are known."""
        if not len(self):
            return np.zeros(len(wanted), dtype=np.bool_)
        found: NDArray[np.bool_] = self.known[np.minimum(self(wanted), len(self) - 1)] == wanted
        return found

    def __len__(self) -> int:
        return len(self.known)


@dataclass(frozen=True)
class VerdictTable:
    """A row a judgment: `endpoint`, `unit` (a sample in one data set), `rubric` and `verdict` are places in the lists beside
    (`PLACE`).

    `verdicts` are those that count: the judge's or, by the rule for the outcome of the response, another. `kind`: place in
    `kinds` of why there is or is no verdict. `unit_sample`: the number of its sample. `unit_cluster`: samples of one source
    record are one cluster, others each its own. `response`: the number of its response; `scores`: name -> the number that code
    gave it, NaN where none did.
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
    members: Mapping[str, Mapping[str, NDArray[np.bool_]]]  # facet -> value -> whether a rubric is of it
    responses: Mapping[tuple[int, int, str], int]  # (endpoint, data set, outcome) -> how many
    failed: Mapping[int, int]  # endpoint -> responses without a text
    given: Mapping[int, Mapping[str, int]]  # endpoint -> verdict that was given, whatever counts -> how often
    response: Ints
    rubric_ids: Ints  # the numbers of the rubrics, in order
    scores: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)  # what is worked out of units once

    @property
    def units(self) -> int:
        return len(self.unit_dataset)

    def only(self, rows: NDArray[np.bool_]) -> "VerdictTable":
        """The same with some of the judgments."""
        return replace(
            self,
            **{
                name: getattr(self, name)[rows]
                for name in ("endpoint", "unit", "rubric", "verdict", "kind", "response")
            },
            scores={name: numbers[rows] for name, numbers in self.scores.items()},
            memo={},
        )


Samples = tuple[Places, tuple[list[str], Ints], tuple[Ints, NDArray[np.bool_]]]


def verdict_table(run: Run, datasets: Sequence[DataSet], rules: Mapping[str, str]) -> VerdictTable:
    """The verdicts of a run. `rules`: how each outcome and each failure of a judge is counted."""
    with pipelined():
        return requested_table(run, datasets, rules)()


def requested_table(run: Run, datasets: Sequence[DataSet], rules: Mapping[str, str]) -> Callable[[], VerdictTable]:
    """What gives the `verdict_table`, whose rows the database lists from now on where statements are `pipelined`."""
    tested = send_query(run.tested.order_by("pk").values_list("endpoint", "endpoint__name"))
    samples = _requested_samples(run.release)
    small = are_small(Response, ReleasedRubric)
    judgments = _requested_judgments(run, small=small)
    # After the judgments, so that each has its own among them while the run goes on.
    asked = Response.objects.filter(run=run).exclude(outcome="")
    failing = Case(When(status=Status.FAILED, then=True), default=False)
    by = ["endpoint", "variant", "outcome", failing]
    responses = requested_lists([(asked, by)], "id", "sample_id", small=small)
    return lambda: _table(run, datasets, rules, tested(), _samples(samples()), judgments, responses)


def _table(
    run: Run,
    datasets: Sequence[DataSet],
    rules: Mapping[str, str],
    tested: Sequence[tuple[Any, ...]],
    samples: Samples,
    judgments: Listed,
    answers: Listed,
) -> VerdictTable:
    place_of = {pk: place for place, (pk, _name) in enumerate(tested)}
    sample_place, (tasks, task), origin = samples
    of_samples = _among(ReleasedRubric.objects.all(), "sample", run, sample_place)
    rubrics = requested_lists([(of_samples, ["polarity"])], "id", "sample_id")
    at = {(one.task, one.variant): place for place, one in enumerate(datasets)}
    outcomes = list(Response.Outcome.values)
    responses: dict[tuple[int, int, str], int] = {}
    failed: dict[int, int] = {}
    told, row_response, row_rubric = _judgments(judgments())
    groups = answers()
    response_place = Places(_joined([pks for _group, (pks, _of) in groups]))
    sample_of, group_of = np.zeros((2, len(response_place)), dtype=PLACE)
    by_task = np.full((len(groups), len(tasks)), -1, dtype=PLACE)  # group, task -> data set
    about = [(place_of[endpoint], outcomes.index(outcome)) for (endpoint, _, outcome, _), _ids in groups]
    group_endpoint, group_outcome = np.array(about, dtype=PLACE).reshape(-1, 2).T
    for number, ((endpoint, variant, outcome, has_failed), (pks, of)) in enumerate(groups):
        who, where = place_of[endpoint], sample_place(of)
        stands = response_place(pks)
        by_task[number] = [at.get((name, variant), -1) for name in tasks]
        sample_of[stands], group_of[stands] = where, number
        dataset = by_task[number, task[where]]
        for place, count in enumerate(np.bincount(dataset[dataset >= 0], minlength=len(datasets))):
            responses[who, place, outcome] = responses.get((who, place, outcome), 0) + int(count)
        if has_failed:
            failed[who] = failed.get(who, 0) + len(pks)
    del groups
    rubric_place, only_rubric = _rubrics([of for _group, of in rubrics()], sample_place)
    members = _requested_members(run, rubric_place)

    given_by_rule = (rule for rule in rules.values() if rule not in (JUDGED, EXCLUDED))
    verdicts = tuple(dict.fromkeys([UNJUDGED, *sorted({*told.verdicts} - {UNJUDGED}), *given_by_rule]))
    response = response_place(row_response)
    sample, group = sample_of[response], group_of[response]
    del response, response_place, sample_of, group_of
    dataset = by_task[group, task[sample]]
    rows, told_of = dataset >= 0, told.group
    if not rows.all():
        sample, group, dataset = sample[rows], group[rows], dataset[rows]
        row_response, row_rubric, told_of = row_response[rows], row_rubric[rows], told_of[rows]
    endpoint_of = group_endpoint[group]
    own = np.array([verdicts.index(each) for each in told.verdicts], dtype=PLACE)[told_of]
    given = np.bincount(endpoint_of * len(verdicts) + own, minlength=len(tested) * len(verdicts)).reshape(
        -1, len(verdicts)
    )
    kinds = (JUDGED, *outcomes[1:], *JUDGE_FAILURES, PENDING)
    why = np.array([kinds.index(each) for each in told.kinds], dtype=PLACE)[told_of]
    for name in JUDGE_FAILURES:
        if (rule := rules.get(name, EXCLUDED)) != EXCLUDED:
            failed_so = np.array([each == name for each in told.failures], dtype=np.bool_)[told_of]
            own[failed_so] = verdicts.index(rule)
    for place in np.unique(group_outcome).tolist():
        rule, of_outcome = rules.get(outcomes[place], JUDGED), group_outcome == place
        if place:  # the first outcome is 'answered', as the first kind is 'judged'
            why[of_outcome[group]] = place
        if rule != JUDGED:
            own[of_outcome[group]] = 0 if rule == EXCLUDED else verdicts.index(rule)
    del group, told_of

    # What np.unique says, without sorting a million rows.
    rubric = rubric_place(row_rubric) if only_rubric is None else only_rubric[sample]
    asked_of = sample * max(1, len(datasets)) + dataset
    del sample, dataset
    present = np.zeros(len(sample_place) * max(1, len(datasets)), dtype=np.bool_)
    present[asked_of] = True
    units, unit = np.flatnonzero(present), (np.cumsum(present, dtype=PLACE) - 1)[asked_of]
    unit_sample, unit_dataset = np.divmod(units, max(1, len(datasets)))
    cluster, is_control = origin
    return VerdictTable(
        endpoints=tuple(name for _pk, name in tested),
        datasets=tuple(one.name for one in datasets),
        verdicts=verdicts,
        kinds=kinds,
        endpoint=endpoint_of,
        unit=unit,
        rubric=rubric,
        verdict=own,
        kind=why,
        unit_sample=sample_place.known[unit_sample],
        unit_dataset=unit_dataset.astype(PLACE),
        unit_cluster=cluster[unit_sample],
        unit_is_control=is_control[unit_sample],
        rubrics=len(rubric_place),
        members=_members(members(), rubric_place),
        responses=responses,
        failed=failed,
        given={
            who: dict(zip(verdicts, counts.tolist(), strict=True))
            for who, counts in enumerate(given.reshape(-1, len(verdicts)))
        },
        response=row_response,
        rubric_ids=rubric_place.known,
    )


def _rubrics(listed_rubrics: Sequence[tuple[Ints, ...]], sample_place: Places) -> tuple[Places, Ints | None]:
    """Where the rubrics of the samples stand; and of each sample the place of its only rubric, None where one has several."""
    ids, samples = (_joined([of[at] for of in listed_rubrics]) for at in (0, 1))
    there = sample_place.has(samples)
    ids, samples = ids[there], sample_place(samples[there])
    place = Places(ids)
    if not len(ids) or np.bincount(samples).max() > 1:
        return place, None
    only = np.zeros(len(sample_place), dtype=PLACE)
    only[samples] = place(ids)
    return place, only


def samples_of(release: Release) -> Samples:
    """Of the samples of the release: places, (names of tasks, of each its task), and (cluster, whether it is a control)."""
    return _samples(_requested_samples(release)())


def _requested_samples(release: Release) -> Listed:
    of_sample = ["id", "version__sample__record_id", "version__sample_id"]
    return requested_lists(
        [(ReleasedSample.objects.filter(release=release), ["task", "version__sample__arm"])], *of_sample
    )


def _samples(groups: Groups) -> Samples:
    place = Places(_joined([ids for _group, (ids, *_of) in groups]))
    tasks = sorted({name for (name, _arm), _numbers in groups})
    record, origin = np.zeros((2, len(place)), dtype=np.int64)
    task = np.zeros(len(place), dtype=PLACE)
    control = np.zeros(len(place), dtype=np.bool_)
    for (name, arm), (ids, records, origins) in groups:
        where = place(ids)
        record[where], origin[where], task[where], control[where] = records, origins, tasks.index(name), arm == CONTROL
    # A record is a cluster where several samples were made from it.
    record_place = Places(record)
    at, one = record_place(record), np.zeros(len(record_place), dtype=np.int64)
    one[at] = origin
    shared = np.zeros(len(record_place), dtype=np.bool_)
    shared[at[one[at] != origin]] = True
    cluster = np.where(shared[at], -record - 1, place.known)
    return place, (tasks, task), (cluster, control)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Judgments that ended alike. Of each group: its verdict, its kind, and the failure of a judge that it is ('' for none);
    of each row its group."""

    verdicts: list[str]
    kinds: list[str]
    failures: list[str]
    group: Ints


def _requested_judgments(run: Run, *, small: bool) -> Listed:
    # Where there is a verdict, nothing else matters, and an index has them in order.
    ended, rows = Value("", CharField()), Judgment.objects.filter(run=run)
    parts: list[Rows] = [(rows.exclude(verdict=""), ["verdict", ended, ended])]
    parts.append((rows.filter(verdict=""), ["verdict", "status", "error"]))
    return requested_lists(parts, "response_id", "rubric_id", small=small, by_index=True)


def _judgments(groups: Groups) -> tuple[_Groups, Ints, Ints]:
    """(groups, responses, rubrics)."""
    verdicts, kinds, failures = [], [], []
    for (verdict, status, error), _of in groups:
        failed = status == Status.FAILED
        failure = (UNPARSED if error == BROKEN else JUDGE_FAILED) if failed else ""
        verdicts.append(verdict or UNJUDGED)
        kinds.append(JUDGED if verdict else failure or PENDING)
        failures.append("" if error in (NO_RESPONSE, NOT_JUDGED) else failure)
    numbers = np.repeat(np.arange(len(groups), dtype=PLACE), [len(of[0]) for _group, of in groups])
    responses, rubrics = (_joined([of[at] for _group, of in groups]) for at in (0, 1))
    return _Groups(verdicts, kinds, failures, numbers), responses, rubrics


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([*parts, np.array([], dtype=np.int64)])


def _requested_members(run: Run, place: Places) -> Listed:
    of_release = ReleasedRubric.objects.filter(sample__release=run.release)
    said = of_release.filter(
        sample__version__rubrics__key=F("key"),
        sample__version__rubrics__polarity__in=["must", "must not"],
    )
    facets = requested_lists([(_among(Facet.objects.all(), "rubric", run, place), ["name", "value"])], "rubric_id")
    polarities = requested_lists([(said, [Value(POLARITY), "sample__version__rubrics__polarity"])], "id")
    parts = [facets, polarities]
    keys = {rate.rubric for rate in registry.protocol(run.release.benchmark).rates if rate.rubric}
    if keys:
        parts.append(requested_lists([(of_release.filter(key__in=keys), [Value(RUBRIC), "key"])], "id"))
    return lambda: [row for part in parts for row in part()]


def _members(rows: Groups, place: Places) -> dict[str, dict[str, NDArray[np.bool_]]]:
    """Facet -> value -> which rubrics are of it; 'polarity' among the facets, where the rubrics have one."""
    found: dict[str, dict[str, NDArray[np.bool_]]] = {}
    for (name, value), (ids,) in rows:
        of = found.setdefault(name, {}).setdefault(value, np.zeros(len(place), dtype=np.bool_))
        of[place(ids[place.has(ids)])] = True
    return found


def _among(rows: QuerySet[Any], name: str, run: Run, place: Places) -> QuerySet[Any]:
    """The rows whose sample or rubric is in `place`, and perhaps others: where its numbers lie close, nothing is joined."""
    if len(place) and place.known[-1] - place.known[0] < 2 * len(place):
        first, last = int(place.known[0]), int(place.known[-1])
        return rows.filter(**{f"{name}__gte": first, f"{name}__lte": last})
    release = "release" if name == "sample" else "sample__release"
    return rows.filter(**{f"{name}__{release}": run.release_id})
