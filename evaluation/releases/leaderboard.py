"""The models that were measured on a release, each once, by complete runs with the benchmark's own settings."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation import registry
from evaluation.models import Response, Run
from evaluation.protocol import DataSet, Protocol, Rate
from evaluation.reports import queries as reports_queries
from evaluation.reports.numbers import counting
from evaluation.reports.numbers.comparing import paired
from evaluation.reports.numbers.verdict_table import Ints, VerdictTable, verdict_table
from evaluation.runs import queries as runs_queries
from evaluation.runs.plan import plan_of
from evaluation.runs.rows import result_cache
from evaluation.runs.selection import reported_names, selection
from evaluation.statistics.multiplicity import Rank, holm, ranks
from generation.models import Endpoint, Release
from generation.models.work import Work

MOST_RANKED = 30  # models that are compared in pairs: beyond it the table has rates without ranks


@dataclass(frozen=True, slots=True)
class Score:
    """A rate on one data set, as the report of the run has it."""

    dataset: str
    value: float | None
    low: float | None
    high: float | None
    numerator: int
    denominator: int
    excluded: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One model: the run that measured it, and its rate on each data set. `rank` where the models could be compared.

    `selected`: samples were chosen by what it got wrong, so its rate is biased and it has no rank by default.
    """

    endpoint: str
    model: str
    run: int
    judge: str
    measured_at: datetime
    simulated: bool
    scores: tuple[Score, ...]
    rank: Rank | None = None
    selected: bool = False


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The models of a release by the first rate of its benchmark on its last data set, the best first.

    `left_out`: runs that are over and are not complete, or were made with other settings. `judges`: who decided.
    """

    protocol: Protocol
    rate: Rate
    lower_is_better: bool
    datasets: tuple[tuple[str, str], ...]
    entries: tuple[Entry, ...]
    left_out: int
    judges: tuple[str, ...]
    simulated: bool

    @property
    def selected(self) -> bool:
        """Whether there are models by whose failures samples were chosen."""
        return any(entry.selected for entry in self.entries)

    @property
    def ranked(self) -> bool:
        return any(entry.rank for entry in self.entries)


def leaderboard(release: Release, *, all_ranked: bool = False) -> Leaderboard:
    """Who was measured on a release, and how well. What runs came to is counted once and kept.

    Models by whose failures the samples were chosen stand below the others and have no rank, unless `all_ranked` says so.
    """
    protocol = registry.protocol(release.benchmark)
    rate, there = protocol.rates[0], runs_queries.data_sets_in(release)
    over = list(runs_queries.runs().filter(release=release, status=Run.Status.FINISHED))
    complete = [run for run in over if _is_complete(run, protocol, there)]
    newest: dict[int, tuple[Run, Endpoint]] = {}
    for run in complete:  # newest first
        answered = _fully_answered(run)
        for endpoint in run.endpoints.all():
            if endpoint.pk in answered:
                newest.setdefault(endpoint.pk, (run, endpoint))
    chosen_by = selection(release)
    reported = reported_names(run for run, _endpoint in newest.values()) if chosen_by.names else {}
    used = {run.pk: run for run, _endpoint in newest.values()}
    keys = {pk: _key(run, "leaderboard", protocol) for pk, run in used.items()}
    counted = {pk: result_cache.keep(keys[pk], lambda run=run: _scores(run)) for pk, run in used.items()}  # type: ignore[misc]
    entries = [
        Entry(
            endpoint=endpoint.name,
            model=endpoint.model,
            run=run.pk,
            judge=run.judge.name if run.judge else "",
            measured_at=run.finished_at or run.created_at,
            simulated=runs_queries.is_simulated(run),
            scores=tuple(Score(**each) for each in counted[run.pk].get(endpoint.name, ())),
            selected=chosen_by.includes(endpoint, reported.get((run.pk, endpoint.pk), "")),
        )
        for run, endpoint in newest.values()
    ]
    lower = set(rate.hits) <= protocol.failing_verdicts
    ranked = [entry for entry in entries if all_ranked or not entry.selected]
    able = {entry.endpoint for entry in ranked}
    measured = [(run, endpoint) for run, endpoint in newest.values() if endpoint.name in able]
    placed = _ranks(measured, ranked, rate, there, keys, lower=lower)
    pooled = ((reports_queries.COMBINED, "Combined"),) if protocol.pooled and len(there) > 1 else ()
    return Leaderboard(
        protocol=protocol,
        rate=rate,
        lower_is_better=lower,
        datasets=(*((one.name, one.label) for one in there), *pooled),
        entries=tuple(
            sorted(
                (replace(entry, rank=placed.get(entry.endpoint)) for entry in entries),
                key=lambda entry: (entry.selected and not all_ranked, *_order(entry, lower)),
            )
        ),
        left_out=len(over) - len({run.pk for run, _endpoint in newest.values()} | {run.pk for run in complete}),
        judges=tuple(sorted({entry.judge for entry in entries if entry.judge})),
        simulated=any(entry.simulated for entry in entries),
    )


def _is_complete(run: Run, protocol: Protocol, there: Sequence[DataSet]) -> bool:
    """Whether a run that is over asked everything, with the settings that the benchmark publishes."""
    return (
        len(runs_queries.data_sets_of(run)) == len(there)
        and run.sampling == Run.Sampling.PROTOCOL
        and (protocol.judge_temperature is None or run.judge_temperature == protocol.judge_temperature)
    )


def _fully_answered(run: Run) -> set[int]:
    """The endpoints of a run none of whose responses failed."""
    rows = Response.objects.filter(run=run).order_by()
    failed = rows.exclude(status=Work.Status.DONE).values_list("endpoint", flat=True).distinct()
    return {endpoint.pk for endpoint in run.endpoints.all()} - set(failed)


def _key(run: Run, what: str, protocol: Protocol) -> str:
    """The key under which something of a run is kept; another one where the run grows or changes."""
    names = tuple(sorted(endpoint.name for endpoint in run.endpoints.all()))
    on = plan_of(run, protocol, names), runs_queries.data_sets_of(run), names, protocol.rates
    return result_cache.key_of(run, what, *on)


def _scores(run: Run) -> Mapping[str, Any]:
    """The scores of a run by endpoint, as plain values."""
    report = reports_queries.report(run)
    scores: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in report.overall:
        measured = row.rates[report.rate.name]
        low, high = measured.interval or (None, None)
        scores[row.endpoint].append(
            {
                "dataset": row.dataset,
                "value": measured.value,
                "low": low,
                "high": high,
                "numerator": measured.numerator,
                "denominator": measured.denominator,
                "excluded": measured.excluded,
            }
        )
    return dict(scores)


def _ranks(
    measured: Sequence[tuple[Run, Endpoint]],
    entries: Sequence[Entry],
    rate: Rate,
    there: Sequence[DataSet],
    keys: Mapping[int, str],
    *,
    lower: bool,
) -> Mapping[str, Rank]:
    """The places by the last score, the best first, each with those that the data do not rule out; {} where there is no
    comparing."""
    values = {entry.endpoint: entry.scores[-1].value for entry in entries if entry.scores}
    known = {name: value if lower else -value for name, value in values.items() if value is not None}
    if len(known) < 2 or len(known) > MOST_RANKED or len(known) < len(entries):
        return {}
    pooled = entries[0].scores[-1].dataset == reports_queries.COMBINED
    stamp = ",".join(f"{endpoint.pk}:{keys[run.pk]}" for run, endpoint in measured)
    key = f"ranks-{hashlib.sha256(stamp.encode()).hexdigest()}" if all(keys.values()) else ""
    pairs = result_cache.keep(key, lambda: _compared(measured, rate, there if pooled else there[-1:]))
    return ranks(known, pairs if lower else {pair: (-difference, p) for pair, (difference, p) in pairs.items()})


def _compared(
    measured: Sequence[tuple[Run, Endpoint]], rate: Rate, there: Sequence[DataSet]
) -> dict[tuple[str, str], tuple[float, float]]:
    """Pairs of models -> difference of their rates on the samples of both, and p adjusted by Holm.

    Counted as the reports of their runs count: the same rules for outcomes, the same clusters.
    """
    plans = {run.pk: plan_of(run, registry.protocol(run.release.benchmark), ()) for run, _endpoint in measured}
    tables = {run.pk: verdict_table(run, there, plans[run.pk].outcomes) for run, _endpoint in measured}
    keys = np.unique(np.concatenate([_units(table) for table in tables.values()]))
    clusters = np.zeros(len(keys), dtype=np.int64)
    totals = {}
    for pk, table in tables.items():
        place = np.searchsorted(keys, _units(table))
        clusters[place] = table.unit_cluster
        of_units = counting.of_units(table, rate)
        right_arm = table.unit_is_control == (rate.arm == "control")
        for endpoint in (endpoint for run, endpoint in measured if run.pk == pk):
            who = table.endpoints.index(endpoint.name)
            totals[endpoint.name] = of_units.map(
                lambda values, who=who, of=right_arm, at=place: _placed(values[who] * of, at, len(keys))  # type: ignore[misc]
            )
    minimum = max(plan.minimum for plan in plans.values())
    found = [
        paired(rate, totals[one], totals[other], clusters, {"dataset": "", "first": one, "second": other}, minimum)
        for one, other in combinations(totals, 2)
    ]
    told = [(each, each.difference, each.p) for each in found if each.difference is not None and each.p is not None]
    adjusted = holm([p for _each, _difference, p in told])
    return {
        (each.first, each.second): (difference, p) for (each, difference, _p), p in zip(told, adjusted, strict=True)
    }


def _units(table: VerdictTable) -> Ints:
    """Each sample in one data set as one number, the same in every run of a release."""
    return table.unit_sample * max(1, len(table.datasets)) + table.unit_dataset


def _placed(values: NDArray[Any], place: Ints, count: int) -> NDArray[Any]:
    found = np.zeros(count, dtype=values.dtype)
    found[place] = values
    return found


def _order(entry: Entry, lower: bool) -> tuple[bool, float, str]:
    value = entry.scores[-1].value if entry.scores else None
    return value is None, (value or 0) * (1 if lower else -1), entry.endpoint
