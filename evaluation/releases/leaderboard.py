"""Leaderboards: the models of a release by their latest complete runs with benchmark settings."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations

import numpy as np

from evaluation import registry
from evaluation.models import Run
from evaluation.numbers.comparing import compare_pair
from evaluation.numbers.coverage import Coverage, coverage
from evaluation.numbers.rules import COMBINED
from evaluation.numbers.totals import unit_totals
from evaluation.protocol import DataSet, Protocol, Rate
from evaluation.published import FilledTable, filled
from evaluation.releases import queries as releases_queries
from evaluation.reports import queries as reports_queries
from evaluation.runs import queries as runs_queries
from evaluation.runs.comparability import Comparability, JudgingDifference, comparability
from evaluation.runs.plan import plan_of
from evaluation.runs.rows import result_cache
from evaluation.runs.selecting_models import reported_names, selection
from evaluation.runs.verdicts import run_frame
from evaluation.statistics.multiplicity import Rank, holm, ranks
from generation.models import Endpoint, Release
from generation.samples import errata
from review.rules.answers import Hidden, Shown, shown

MAX_RANKED = 30  # with more models, the table has rates without ranks, as those need all pairs


@dataclass(frozen=True, slots=True)
class Standing:
    """A rate on one data set, from the report of the run."""

    dataset: str
    value: float | None
    low: float | None
    high: float | None
    numerator: int
    denominator: int
    excluded: int


@dataclass(frozen=True, slots=True)
class LeaderboardEntry:
    """A model with its rate on each data set and the run that measured it.

    `rank`: None if the models could not be compared, or if the run was judged in another way than
    the ranked ones. `differs`: how its judging differs from theirs.
    `selected`: samples were chosen by what the model got wrong, so its rate is biased and it has no
    rank by default.
    `coverage`: of incomplete results, which are published as such and have no rank; else None.
    """

    endpoint: str
    model: str
    run: int
    judge: str
    measured_at: datetime
    simulated: bool
    scores: tuple[Standing, ...]
    rank: Rank | None = None
    selected: bool = False
    differs: tuple[JudgingDifference, ...] = ()
    coverage: Coverage | None = None

    @property
    def has_interval(self) -> bool:
        return any(score.low is not None for score in self.scores)


@dataclass(frozen=True, slots=True)
class IncompleteResult:
    """A model of a finished run that lacks verdicts on a part of the release."""

    run: Hidden[Run]
    endpoint: Hidden[Endpoint]
    coverage: Coverage

    @property
    @Shown("run")
    def number(self) -> int:
        return self.run.pk

    @property
    @Shown("endpoint")
    def model(self) -> str:
        return self.endpoint.name


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The models of a release, the best first, by the first rate on the last or pooled data set.

    Incomplete results that are published as such come last. Ranked are the models whose runs were
    judged in the way that most models share.
    `left_out`: finished runs without a model that is complete, or with other settings.
    `judges`: the judges of the runs shown.
    `undecided`: samples that are reported as wrong, without a decision; they count.
    """

    release: Hidden[Release]
    protocol: Hidden[Protocol]
    rate: Hidden[Rate]
    lower_is_better: bool
    datasets: Hidden[tuple[tuple[str, str], ...]]
    entries: tuple[LeaderboardEntry, ...]
    left_out: int
    judges: Hidden[tuple[str, ...]]
    simulated: bool
    undecided: int

    @property
    def selected(self) -> bool:
        """Whether there are models whose failures decided the choice of samples."""
        return any(entry.selected for entry in self.entries)

    @property
    def incomplete(self) -> bool:
        """Whether there are incomplete results."""
        return any(entry.coverage for entry in self.entries)

    @property
    def has_complete(self) -> bool:
        """Whether there are complete results."""
        return any(entry.coverage is None for entry in self.entries)

    @property
    def unlike(self) -> bool:
        """Whether some runs were judged in another way than the ranked ones."""
        return any(entry.differs for entry in self.entries)

    @property
    def has_intervals(self) -> bool:
        return any(entry.has_interval for entry in self.entries)

    @property
    def has_rank_ranges(self) -> bool:
        """Whether a rank has others that the comparisons do not rule out."""
        return any(entry.rank and entry.rank.best != entry.rank.worst for entry in self.entries)

    @property
    def ranked(self) -> bool:
        return any(entry.rank for entry in self.entries)

    @property
    @Shown("release")
    def name(self) -> str:
        return self.release.name

    @property
    @shown
    def version(self) -> int:
        return self.release.version

    @property
    @shown
    def release_sha256(self) -> str:
        return self.release.sha256

    @property
    @Shown("rate")
    def rate_name(self) -> str:
        return self.rate.name

    @property
    @shown
    def rule(self) -> str:
        return self.rate.rule


def leaderboard(release: Release, *, all_ranked: bool = False) -> Leaderboard:
    """The leaderboard of a release. Results of runs are computed once and cached.

    Models whose failures decided the choice of samples come last and without a rank, unless
    `all_ranked`.
    """
    protocol = registry.protocol(release.benchmark)
    rate, datasets = protocol.rates[0], runs_queries.data_sets_in(release)
    finished, usable = _finished_runs(release)
    candidates: dict[int, list[tuple[Run, Endpoint]]] = defaultdict(list)
    incomplete: list[IncompleteResult] = []
    published = {(row.run_id, row.endpoint_id) for row in releases_queries.incomplete_publications(release)}
    for run in usable:  # newest first
        coverages = {of_model.endpoint: of_model for of_model in coverage_of(run, datasets)}
        for endpoint in run.endpoints.all():
            of_model = coverages[endpoint.name]
            if of_model.complete:
                candidates[endpoint.pk].append((run, endpoint))
            elif (run.pk, endpoint.pk) in published:
                incomplete.append(IncompleteResult(run, endpoint, of_model))
    withdrawn = errata.withdrawn_by_release([release.pk]).get(release.pk, 0)
    runs: dict[int, Run] = {}
    for of_endpoint in candidates.values():
        runs |= {run.pk: run for run, _endpoint in of_endpoint}
    shown_runs = runs | {result.run.pk: result.run for result in incomplete}
    keys = {pk: _key(run, "leaderboard", protocol) for pk, run in shown_runs.items()}
    ways = {pk: _way(run, protocol, withdrawn) for pk, run in shown_runs.items()}
    # The way of judging that most models share; of several, that of the newest run, which is first.
    latest = [ways[of_endpoint[0][0].pk] for of_endpoint in candidates.values()]
    usual = None
    if latest:
        usual = max(latest, key=latest.count)
    # A model's latest run of that kind, or else its latest.
    newest: dict[int, tuple[Run, Endpoint]] = {}
    for pk, of_endpoint in candidates.items():
        newest[pk] = next((each for each in of_endpoint if ways[each[0].pk] == usual), of_endpoint[0])
    pools = protocol.pools(dataset.name for dataset in datasets)
    pooled = ((COMBINED, "Combined"),) if pools else ()
    columns = (*((dataset.name, dataset.label) for dataset in datasets), *pooled)
    listed: list[tuple[Run, Endpoint, Coverage | None]] = []
    listed += [(run, endpoint, None) for run, endpoint in newest.values()]
    listed += [(result.run, result.endpoint, result.coverage) for result in incomplete]
    chosen_by = selection(release)
    reported = {}
    if chosen_by.names:
        reported = reported_names(run for run, _endpoint, _coverage in listed)
    entries = []
    for run, endpoint, lacking in listed:
        by_model = result_cache.cached(keys[run.pk], lambda run=run: _scores(run))  # type: ignore[misc]
        entries.append(
            LeaderboardEntry(
                endpoint=endpoint.name,
                model=endpoint.model,
                run=run.pk,
                judge=run.judge.name if run.judge else "",
                measured_at=run.finished_at or run.created_at,
                simulated=runs_queries.is_simulated(run),
                scores=_in_columns(by_model.get(endpoint.name, ()), columns),
                differs=tuple(ways[run.pk].differences(usual)) if usual else (),
                selected=chosen_by.includes(endpoint, reported.get((run.pk, endpoint.pk), "")),
                coverage=lacking,
            )
        )
    lower = protocol.is_lower_better(rate)
    ranked = []
    for entry in entries:
        is_compared = entry.coverage is None and not entry.differs and (all_ranked or not entry.selected)
        if is_compared and entry.scores[-1].value is not None:
            ranked.append(entry)
    names = {entry.endpoint for entry in ranked}
    measured = [(run, endpoint) for run, endpoint in newest.values() if endpoint.name in names]
    rank_of = _ranks(measured, ranked, rate, datasets, keys, lower=lower)
    entries = [entry if entry.coverage else replace(entry, rank=rank_of.get(entry.endpoint)) for entry in entries]
    entries.sort(
        key=lambda entry: (entry.coverage is not None, entry.selected and not all_ranked, *_sort_key(entry, lower))
    )
    return Leaderboard(
        release=release,
        protocol=protocol,
        rate=rate,
        lower_is_better=lower,
        datasets=columns,
        entries=tuple(entries),
        left_out=len(finished) - len(shown_runs),
        judges=tuple(sorted({entry.judge for entry in entries if entry.judge})),
        simulated=release.simulated or any(entry.simulated for entry in entries),
        undecided=errata.undecided_count(release),
    )


def _in_columns(scores: Sequence[Standing], columns: Sequence[tuple[str, str]]) -> tuple[Standing, ...]:
    """The scores of a run in the columns of the leaderboard, without values where it has no data.

    A run that did not ask all data sets has no score on all of them pooled.
    """
    by_dataset = {score.dataset: score for score in scores}
    if not all(name in by_dataset for name, _label in columns):
        by_dataset.pop(COMBINED, None)
    return tuple(by_dataset.get(name) or Standing(name, None, None, None, 0, 0, 0) for name, _label in columns)


def _finished_runs(release: Release) -> tuple[list[Run], list[Run]]:
    """The finished runs of a release, and those with the benchmark's settings; newest first."""
    finished = list(runs_queries.runs().filter(release=release, status=Run.Status.FINISHED))
    result_cache.read_marks(finished)
    usable = [run for run in finished if run.sampling == Run.Sampling.PROTOCOL and run.prompt_set_id is None]
    return finished, usable


def coverage_of(run: Run, datasets: Sequence[DataSet]) -> tuple[Coverage, ...]:
    """The coverage of each model of a finished run on all of these data sets."""
    key = result_cache.key_of(run, "coverage", datasets)
    return result_cache.cached(key, lambda: coverage(run_frame(run, datasets)))


def incomplete_results(release: Release) -> list[IncompleteResult]:
    """The models of finished runs that lack verdicts, newest run first.

    Not of runs with other settings than the benchmark's.
    """
    datasets = runs_queries.data_sets_in(release)
    results = []
    for run in _finished_runs(release)[1]:
        by_model = {of_model.endpoint: of_model for of_model in coverage_of(run, datasets)}
        for endpoint in run.endpoints.all():
            of_model = by_model[endpoint.name]
            if of_model.counted and not of_model.complete:
                results.append(IncompleteResult(run, endpoint, of_model))
    return results


def _way(run: Run, protocol: Protocol, withdrawn: int) -> Comparability:
    """How a run was made and judged, cached."""
    key = _key(run, "comparability", protocol)
    return result_cache.cached(key, lambda: comparability(run, protocol, withdrawn))


def _key(run: Run, kind: str, protocol: Protocol) -> str:
    """The cache key for a result of a run; it changes when the run grows or changes."""
    names = tuple(sorted(endpoint.name for endpoint in run.endpoints.all()))
    inputs = plan_of(run, protocol, names), runs_queries.data_sets_of(run), names, protocol.rates
    return result_cache.key_of(run, kind, *inputs)


def _scores(run: Run) -> dict[str, list[Standing]]:
    """The scores of a run by endpoint."""
    report = reports_queries.report(run)
    scores: dict[str, list[Standing]] = defaultdict(list)
    for row in report.overall:
        rate = row.rates[report.rate.name]
        counted = (rate.numerator, rate.denominator, rate.excluded)
        scores[row.endpoint].append(Standing(row.dataset, rate.value, rate.low, rate.high, *counted))
    return dict(scores)


def _ranks(
    measured: Sequence[tuple[Run, Endpoint]],
    entries: Sequence[LeaderboardEntry],
    rate: Rate,
    datasets: Sequence[DataSet],
    keys: Mapping[int, str],
    *,
    lower: bool,
) -> Mapping[str, Rank]:
    """The ranks by the last score, each with the range of ranks that the data do not rule out.

    Empty if the models cannot be compared.
    """
    values = {entry.endpoint: entry.scores[-1].value for entry in entries}
    sort_values = {name: value if lower else -value for name, value in values.items() if value is not None}
    if not 2 <= len(sort_values) <= MAX_RANKED:
        return {}
    pooled = entries[0].scores[-1].dataset == COMBINED
    stamp = ",".join(f"{endpoint.pk}:{keys[run.pk]}" for run, endpoint in measured)
    key = ""
    if all(keys.values()):
        key = f"ranks-{hashlib.sha256(stamp.encode()).hexdigest()}"
    pairs = result_cache.cached(key, lambda: _compare_pairs(measured, rate, datasets if pooled else datasets[-1:]))
    return ranks(sort_values, pairs if lower else {pair: (-difference, p) for pair, (difference, p) in pairs.items()})


def _compare_pairs(
    measured: Sequence[tuple[Run, Endpoint]], rate: Rate, datasets: Sequence[DataSet]
) -> dict[tuple[str, str], tuple[float, float]]:
    """Pair of models -> difference of their rates on shared samples, and p adjusted by Holm.

    Counts like the reports of their runs, with the same rules for outcomes and the same clusters.
    """
    plans = {run.pk: plan_of(run, registry.protocol(run.release.benchmark), ()) for run, _tested in measured}
    frames = {run.pk: run_frame(run, datasets, plans[run.pk].outcomes).current for run, _endpoint in measured}
    by_run = {pk: unit_totals(frame, [rate])[rate.name] for pk, frame in frames.items()}
    keys = np.unique(np.concatenate([of_run.keys for of_run in by_run.values()]))
    clusters = np.zeros(len(keys), dtype=np.int64)
    for of_run in by_run.values():
        clusters[np.searchsorted(keys, of_run.keys)] = of_run.units.cluster
    totals = {endpoint.name: by_run[run.pk].placed(keys, endpoint.name) for run, endpoint in measured}
    minimum = max(of_run.minimum for of_run in plans.values())
    defined = []
    for one, other in combinations(totals, 2):
        names = {"dataset": "", "first": one, "second": other}
        pair = compare_pair(rate, totals[one], totals[other], clusters, names, minimum)
        if pair.difference is not None and pair.p is not None:
            defined.append(((one, other), pair.difference, pair.p))
    adjusted = holm([p for _names, _difference, p in defined])
    return {names: (difference, p) for (names, difference, _p), p in zip(defined, adjusted, strict=True)}


def _sort_key(entry: LeaderboardEntry, lower: bool) -> tuple[bool, float, str]:
    value = entry.scores[-1].value
    return value is None, (value or 0) * (1 if lower else -1), entry.endpoint


def beside_published(board: Leaderboard, benchmark: str) -> tuple[FilledTable, ...]:
    """The published tables with the board's rate, cut to its columns, with the board's models."""
    datasets = [name for name, _label in board.datasets]
    whole = ""
    if datasets:
        whole = datasets[-1]
    if COMBINED in datasets:
        whole = COMBINED
    tables = []
    for table in registry.published(benchmark):
        kept = []
        for place, column in enumerate(table.columns):
            shows_rate = (column.measure, column.name, column.facet) == ("rate", board.rate.name, "")
            if shows_rate and (column.dataset or whole) in datasets:
                kept.append(place)
        rows = [replace(row, values=tuple(row.values[place] for place in kept)) for row in table.rows]
        rows = [row for row in rows if any(value is not None for value in row.values)]
        if not rows:
            continue
        cut = replace(table, columns=tuple(table.columns[place] for place in kept), rows=tuple(rows))
        own = {}
        for entry in board.entries:
            if entry.coverage is None:
                values = {score.dataset: score.value for score in entry.scores}
                own[entry.endpoint] = [values.get(column.dataset or whole) for column in cut.columns]
        tables.append(filled(cut, own))
    return tuple(tables)
