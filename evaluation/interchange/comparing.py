"""Two runs side by side: what moved for each model, which samples flipped, and the paired interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from django.utils.translation import gettext_noop

from evaluation import errors, registry
from evaluation.metrics import Totals
from evaluation.models import Run
from evaluation.protocol import DataSet, Protocol, Rate
from evaluation.reports.numbers.comparing import Comparison, paired
from evaluation.reports.numbers.counting import COMBINED, is_present, of_units
from evaluation.reports.numbers.verdict_table import Ints, VerdictTable, verdict_table
from evaluation.runs import queries
from evaluation.runs.plan import Plan, plan_of
from generation.models import ReleasedSample

MOST_FLIPS = 200  # listed for each pair of models and data set


@dataclass(frozen=True, slots=True)
class Flip:
    """A sample that only one of two answers failed: what the rate counts as failed, of what it counts, in each run."""

    sample: str
    first: tuple[int, int]
    second: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Moved:
    """A model (or two) on one data set: rates on the samples that both runs judged. `flips`: the first of them; `worse` of them
    failed in the second run alone, `better` in the first alone."""

    first: str
    second: str
    dataset: str
    label: str
    rate: str
    shared: int
    difference: Comparison
    worse: int
    better: int
    flips: Sequence[Flip]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """`same_release`: else samples are matched by their keys, `changed` of which are another version in the second release.

    `only_first`, `only_second`: models of one run that nothing is compared with.
    """

    first: Run
    second: Run
    same_release: bool
    shared_samples: int
    changed: int
    only_first: Sequence[str]
    only_second: Sequence[str]
    rows: Sequence[Moved]

    @property
    def rates(self) -> Sequence[Rate]:
        """The rates of their benchmark."""
        return registry.protocol(self.first.release.benchmark).rates


def compare_runs(first: Run, second: Run) -> RunComparison:
    """Each model that both runs tested, by name; where each tested one alone, these two. Second minus first.

    Raises OtherBenchmarks.
    """
    if first.release.benchmark != second.release.benchmark:
        raise errors.OtherBenchmarks(f"{first.release.benchmark}, {second.release.benchmark}")
    protocol = registry.protocol(first.release.benchmark)
    names = [list(run.tested.order_by("pk").values_list("endpoint__name", flat=True)) for run in (first, second)]
    pairs = [(name, name) for name in names[0] if name in names[1]]
    if not pairs and len(names[0]) == len(names[1]) == 1:
        pairs = [(names[0][0], names[1][0])]
    shared, changed = _shared(first, second)
    asked = [one for one in queries.data_sets_of(first) if one in queries.data_sets_of(second)]
    sides = _Side(first, protocol, asked), _Side(second, protocol, asked)
    minimum = max(side.plan.minimum for side in sides)
    rows: list[Moved] = []
    for rate in protocol.rates:
        if all(is_present(side.table, rate) for side in sides):
            rows += _moved(rate, asked, protocol, shared, sides, pairs, minimum)
    order = [name for name, _label, _places in _places(asked, protocol)]
    rows.sort(key=lambda row: (pairs.index((row.first, row.second)), order.index(row.dataset)))
    matched = [{pair[side] for pair in pairs} for side in (0, 1)]
    return RunComparison(
        first,
        second,
        first.release_id == second.release_id,
        len(shared),
        changed,
        [name for name in names[0] if name not in matched[0]],
        [name for name in names[1] if name not in matched[1]],
        rows,
    )


def _shared(first: Run, second: Run) -> tuple[dict[str, str], int]:
    """The samples of both releases with their task, by key; and how many are not the same version."""
    columns = ("key", "task", "version_id")
    found = [
        {key: (task, version) for key, task, version in rows.values_list(*columns)}
        for rows in (
            ReleasedSample.objects.filter(release=run.release_id).order_by("position") for run in (first, second)
        )
    ]
    both = {key: task for key, (task, _version) in found[0].items() if key in found[1]}
    return both, sum(found[0][key] != found[1][key] for key in both)


class _Side:
    """One of the two runs: its verdicts, by the rules of its own plan, on the data sets that both asked."""

    def __init__(self, run: Run, protocol: Protocol, asked: Sequence[DataSet]) -> None:
        endpoints = tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True))
        self.plan: Plan = plan_of(run, protocol, endpoints)
        self.table: VerdictTable = verdict_table(run, asked, self.plan.outcomes)
        self._release = run.release_id

    @cached_property
    def unit_of(self) -> dict[tuple[str, int], int]:
        """(key of a sample, data set) -> unit."""
        keys = dict(ReleasedSample.objects.filter(release=self._release).order_by().values_list("pk", "key"))
        named = zip(self.table.unit_sample.tolist(), self.table.unit_dataset.tolist(), strict=True)
        return {(keys[sample], dataset): unit for unit, (sample, dataset) in enumerate(named)}

    def totals(self, of_units: Totals, model: str, units: Ints) -> Totals:
        """What one model came to on these units."""
        endpoint = self.table.endpoints.index(model)
        return of_units.map(lambda values: values[endpoint][units])


def _places(asked: Sequence[DataSet], protocol: Protocol) -> list[tuple[str, str, list[int]]]:
    """Each data set, and all of them pooled: name, label, places in the list."""
    found = [(one.name, one.label, [at]) for at, one in enumerate(asked)]
    if protocol.pooled and len(asked) > 1:
        found.append((COMBINED, gettext_noop("Combined"), list(range(len(asked)))))
    return found


def _moved(
    rate: Rate,
    asked: Sequence[DataSet],
    protocol: Protocol,
    shared: Mapping[str, str],
    sides: tuple[_Side, _Side],
    pairs: Sequence[tuple[str, str]],
    minimum: int,
) -> list[Moved]:
    first, second = sides
    table = first.table
    counted = [of_units(side.table, rate) for side in sides]
    of_arm = [side.table.unit_is_control == (rate.arm == "control") for side in sides]
    rows = []
    for name, label, within in _places(asked, protocol):
        both = [
            (key, unit, second.unit_of[key, dataset])
            for (key, dataset), unit in first.unit_of.items()
            if dataset in within and key in shared and (key, dataset) in second.unit_of
            if of_arm[0][unit] and of_arm[1][second.unit_of[key, dataset]]
        ]
        units = [np.array([each[side] for each in both], dtype=np.int64) for side in (1, 2)]
        for pair in pairs:
            was, now = (sides[at].totals(counted[at], pair[at], units[at]) for at in (0, 1))
            named = {"dataset": name, "first": pair[1], "second": pair[0]}
            difference = paired(rate, now, was, table.unit_cluster[units[0]], named, minimum)
            together = (was.counted > 0) & (now.counted > 0)
            changed = np.flatnonzero(together & ((was.hits > 0) != (now.hits > 0))).tolist()
            worse = sum(int(now.hits[at] > 0) for at in changed)
            flips = [
                Flip(both[at][0], *((int(each.hits[at]), int(each.counted[at])) for each in (was, now)))
                for at in changed[:MOST_FLIPS]
            ]
            told = (*pair, name, label, rate.name, int(together.sum()), difference)
            rows.append(Moved(*told, worse, len(changed) - worse, flips))
    return rows


def as_dict(found: RunComparison) -> dict[str, object]:
    """The comparison as JSON-able values. `first` and `second` of a rate are the runs'; `difference` is second minus first."""
    return {
        "first": found.first.pk,
        "second": found.second.pk,
        "releases": [str(found.first.release), str(found.second.release)],
        "same_release": found.same_release,
        "shared_samples": found.shared_samples,
        "changed_samples": found.changed,
        "only_first": list(found.only_first),
        "only_second": list(found.only_second),
        "rows": [_row(each) for each in found.rows],
    }


def _row(each: Moved) -> dict[str, object]:
    told = each.difference
    return {
        "model": each.first,
        "second_model": each.second,
        "dataset": each.dataset,
        "rate": each.rate,
        "shared": each.shared,
        "first": told.rates[1],  # the difference is taken as second run minus first
        "second": told.rates[0],
        "difference": told.difference,
        "low": told.low,
        "high": told.high,
        "p": told.p,
        "clusters": told.clusters,
        "worse": each.worse,
        "better": each.better,
        "flips": [
            {"sample": flip.sample, "first": list(flip.first), "second": list(flip.second)} for flip in each.flips
        ],
    }
