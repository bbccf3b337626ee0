"""Leaderboards: the models of a release by their latest complete runs with benchmark settings."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations

import numpy as np

from evaluation import registry
from evaluation.models import Run
from evaluation.numbers.comparing import compare_pair, with_adjusted
from evaluation.numbers.coverage import Coverage, coverage
from evaluation.numbers.rules import COMBINED
from evaluation.numbers.totals import UnitTotals, unit_totals
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
from review.rules.shown_fields import Hidden, Shown, shown

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
    def deciding(self) -> Standing:
        """The score that decides the rank: on all data sets pooled, else on the first."""
        if self.scores[-1].dataset == COMBINED:
            return self.scores[-1]
        return self.scores[0]

    @property
    def has_interval(self) -> bool:
        return any(score.low is not None for score in self.scores)

    @property
    def has_excluded(self) -> bool:
        """Whether a rate leaves something out."""
        return any(score.excluded for score in self.scores)


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
    """The models of a release, the best first, by the first rate on all data sets or the first.

    Ranked are the models whose runs were judged in the way that most models share. Others come
    after them, and incomplete results that are published as such come last.
    `left_out`: finished runs without a model that is complete, or with other settings.
    `judges`: the judges of the runs shown.
    `undecided`: samples that are reported as wrong, without a decision; they count.
    `withdrawn`: samples that were withdrawn since; they count nowhere.
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
    withdrawn: Hidden[int]

    @property
    def ranked_by(self) -> str:
        """The label of the data set that decides the ranks; "" without entries."""
        if not self.entries:
            return ""
        return dict(self.datasets)[self.entries[0].deciding.dataset]

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
    def has_excluded(self) -> bool:
        return any(entry.has_excluded for entry in self.entries)

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
    rate, datasets = protocol.rates[0], runs_queries.usual_data_sets(release)
    columns = protocol.columns(datasets)
    finished, usable = _finished_runs(release)
    published = set(releases_queries.incomplete_publications(release).values_list("run", "endpoint"))
    complete: dict[int, list[tuple[Run, Endpoint]]] = defaultdict(list)  # by endpoint, the newest run first
    incomplete: list[tuple[Run, Endpoint, Coverage | None]] = []
    shown_runs: dict[int, Run] = {}
    for run in usable:
        for endpoint, covered in coverages(run, datasets):
            if covered.complete:
                complete[endpoint.pk].append((run, endpoint))
                shown_runs[run.pk] = run
            elif (run.pk, endpoint.pk) in published:
                incomplete.append((run, endpoint, covered))
                shown_runs[run.pk] = run
    withdrawn = errata.withdrawn_by_release([release.pk]).get(release.pk, 0)
    keys: dict[int, str] = {}
    ways: dict[int, Comparability] = {}
    for pk, run in shown_runs.items():
        keys[pk] = _key(run, "leaderboard", protocol)
        ways[pk] = _way(run, protocol, withdrawn)
    usual = _usual_way(complete.values(), ways)
    listed: list[tuple[Run, Endpoint, Coverage | None]] = []
    for of_endpoint in complete.values():
        listed.append((*_latest(of_endpoint, ways, usual), None))
    listed += incomplete
    chosen_by = selection(release)
    reported = {}
    if chosen_by.names:
        reported = reported_names(run for run, _endpoint, _coverage in listed)
    lower = protocol.is_lower_better(rate)
    sign = 1  # of a rate by which the best come first
    if not lower:
        sign = -1
    entries, ranked, measured = [], [], []
    for run, endpoint, lacking in listed:
        judge = ""
        differs: tuple[JudgingDifference, ...] = ()
        if run.judge:
            judge = run.judge.name
        if usual:
            differs = tuple(ways[run.pk].differences(usual))
        entry = LeaderboardEntry(
            endpoint=endpoint.name,
            model=endpoint.model,
            run=run.pk,
            judge=judge,
            measured_at=run.finished_at or run.created_at,
            simulated=runs_queries.is_simulated(run),
            scores=_in_columns(_scores(run, keys[run.pk]).get(endpoint.name, ()), columns),
            differs=differs,
            selected=chosen_by.includes(endpoint, reported.get((run.pk, endpoint.pk), "")),
            coverage=lacking,
        )
        entries.append(entry)
        is_compared = entry.coverage is None and not entry.differs and (all_ranked or not entry.selected)
        if is_compared and entry.deciding.value is not None:
            ranked.append(entry)
            measured.append((run, endpoint))
    rank_of = _ranks(measured, ranked, rate, datasets, keys, sign)
    with_ranks = []
    for entry in entries:
        if entry.coverage is None:
            entry = replace(entry, rank=rank_of.get(entry.endpoint))
        with_ranks.append(entry)

    def place(entry: LeaderboardEntry) -> tuple[bool, bool, bool, bool, float, str]:
        value = entry.deciding.value
        comes_last = entry.selected and not all_ranked
        differs = bool(entry.differs)
        return entry.coverage is not None, comes_last, differs, value is None, sign * (value or 0), entry.endpoint

    with_ranks.sort(key=place)
    judges = {entry.judge for entry in entries} - {""}
    return Leaderboard(
        release=release,
        protocol=protocol,
        rate=rate,
        lower_is_better=lower,
        datasets=columns,
        entries=tuple(with_ranks),
        left_out=len(finished) - len(shown_runs),
        judges=tuple(sorted(judges)),
        simulated=release.simulated or any(entry.simulated for entry in entries),
        undecided=errata.undecided_count(release),
        withdrawn=withdrawn,
    )


def _usual_way(
    complete: Iterable[Sequence[tuple[Run, Endpoint]]], ways: Mapping[int, Comparability]
) -> Comparability | None:
    """The way of judging that the latest runs of most models share; None without a complete run.

    Of several such ways, that of the newest run, which is first.
    """
    counts = Counter[Comparability]()
    for of_endpoint in complete:
        run, _endpoint = of_endpoint[0]
        counts[ways[run.pk]] += 1
    if not counts:
        return None
    return counts.most_common(1)[0][0]


def _latest(
    of_endpoint: Sequence[tuple[Run, Endpoint]], ways: Mapping[int, Comparability], usual: Comparability | None
) -> tuple[Run, Endpoint]:
    """A model's latest run that was judged in the usual way, or else its latest."""
    for run, endpoint in of_endpoint:
        if ways[run.pk] == usual:
            return run, endpoint
    return of_endpoint[0]


def _in_columns(scores: Sequence[Standing], columns: Sequence[tuple[str, str]]) -> tuple[Standing, ...]:
    """The scores of a run in the columns of the leaderboard, without values where it has no data.

    A run that did not ask all data sets has no score on all of them pooled.
    """
    by_dataset = {score.dataset: score for score in scores}
    names = dict(columns).keys()
    if not names <= by_dataset.keys():
        by_dataset.pop(COMBINED, None)
    return tuple(by_dataset.get(name) or Standing(name, None, None, None, 0, 0, 0) for name in names)


def _finished_runs(release: Release) -> tuple[list[Run], list[Run]]:
    """The finished runs of a release, and those with the benchmark's settings; newest first."""
    finished = list(runs_queries.runs().filter(release=release, status=Run.Status.FINISHED))
    result_cache.read_marks(finished)
    usable = [run for run in finished if run.sampling == Run.Sampling.PROTOCOL and run.prompt_set_id is None]
    return finished, usable


def coverages(run: Run, datasets: Sequence[DataSet]) -> Iterator[tuple[Endpoint, Coverage]]:
    """Each model of a finished run with its coverage on all of these data sets."""
    key = result_cache.key_of(run, "coverage", datasets)
    covered = result_cache.cached(key, lambda: coverage(run_frame(run, datasets)), run)
    by_name = {of_model.endpoint: of_model for of_model in covered}
    for endpoint in run.endpoints.all():
        yield endpoint, by_name[endpoint.name]


def incomplete_results(release: Release) -> list[IncompleteResult]:
    """The models of finished runs that lack verdicts, newest run first.

    Not of runs with other settings than the benchmark's.
    """
    datasets = runs_queries.usual_data_sets(release)
    results = []
    for run in _finished_runs(release)[1]:
        for endpoint, covered in coverages(run, datasets):
            if covered.counted and not covered.complete:
                results.append(IncompleteResult(run, endpoint, covered))
    return results


def incomplete_result(release: Release, run: int, model: str) -> IncompleteResult | None:
    """That of a run, by its number, and of a model, by its name; None if it lacks nothing."""
    for result in incomplete_results(release):
        if (result.run.pk, result.endpoint.name) == (run, model):
            return result
    return None


def _way(run: Run, protocol: Protocol, withdrawn: int) -> Comparability:
    """How a run was made and judged, cached."""
    key = _key(run, "comparability", protocol)
    return result_cache.cached(key, lambda: comparability(run, protocol, withdrawn), run)


def _key(run: Run, kind: str, protocol: Protocol) -> str:
    """The cache key for a result of a run; it changes when the run grows or changes."""
    names = tuple(sorted([endpoint.name for endpoint in run.endpoints.all()]))
    inputs = plan_of(run, protocol, names), runs_queries.data_sets_of(run), names, protocol.rates
    return result_cache.key_of(run, kind, *inputs)


def _scores(run: Run, key: str) -> dict[str, list[Standing]]:
    """The scores of a run by endpoint, cached."""
    return result_cache.cached(key, lambda: _reported_scores(run), run)


def _reported_scores(run: Run) -> dict[str, list[Standing]]:
    report = reports_queries.report(run)
    scores: dict[str, list[Standing]] = defaultdict(list)
    for row in report.numbers.overall:
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
    sign: int,
) -> Mapping[str, Rank]:
    """The ranks by the deciding score, each with the range of ranks that the data do not rule out.

    Empty if the models cannot be compared. `sign`: of a rate by which the best come first.
    """
    sort_values: dict[str, float] = {}
    for entry in entries:
        sort_values[entry.endpoint] = sign * (entry.deciding.value or 0)
    if not 2 <= len(sort_values) <= MAX_RANKED:
        return {}
    compared_on = datasets
    if entries[0].deciding.dataset != COMBINED:
        compared_on = datasets[:1]
    stamp = ",".join([f"{endpoint.pk}:{keys[run.pk]}" for run, endpoint in measured])
    key = ""
    if all(keys.values()):
        key = f"ranks-{hashlib.sha256(stamp.encode()).hexdigest()}"
    runs = [run for run, _endpoint in measured]
    pairs = result_cache.cached(key, lambda: _compare_pairs(measured, rate, compared_on), *runs)
    signed = {}
    for pair, (difference, p) in pairs.items():
        signed[pair] = (sign * difference, p)
    return ranks(sort_values, signed)


def _compare_pairs(
    measured: Sequence[tuple[Run, Endpoint]], rate: Rate, datasets: Sequence[DataSet]
) -> dict[tuple[str, str], tuple[float, float]]:
    """Pair of models -> difference of their rates on shared samples, and p adjusted by Holm.

    Counts like the reports of their runs, with the same rules for outcomes and the same clusters.
    """
    by_run: dict[int, UnitTotals] = {}
    minimum = 0
    for run, _endpoint in measured:
        if run.pk not in by_run:
            plan = plan_of(run, registry.protocol(run.release.benchmark), ())
            by_run[run.pk] = unit_totals(run_frame(run, datasets, plan.outcomes).current, [rate])[rate.name]
            minimum = max(minimum, plan.minimum)
    keys = np.unique(np.concatenate([of_run.keys for of_run in by_run.values()]))
    clusters = np.zeros(len(keys), dtype=np.int64)
    for of_run in by_run.values():
        clusters[np.searchsorted(keys, of_run.keys)] = of_run.units["cluster"]
    totals = {}
    for run, endpoint in measured:
        totals[endpoint.name] = by_run[run.pk].placed(keys, endpoint.name)
    compared = []
    for one, other in combinations(totals, 2):
        names = {"dataset": "", "first": one, "second": other}
        compared.append(compare_pair(rate, totals[one], totals[other], clusters, names, minimum))
    differences = {}
    for pair in with_adjusted(compared, holm):
        if pair.difference is not None and pair.p_adjusted is not None:
            differences[pair.first, pair.second] = (pair.difference, pair.p_adjusted)
    return differences


def beside_published(board: Leaderboard, benchmark: str) -> tuple[FilledTable, ...]:
    """The published tables with the board's rate, cut to its columns, with the board's models."""
    whole = registry.protocol(benchmark).whole(dict(board.datasets))
    datasets = list(dict(board.datasets))
    tables = []
    for table in registry.published(benchmark):
        kept = []
        for place, column in enumerate(table.columns):
            shows_rate = (column.measure, column.name, column.facet) == ("rate", board.rate.name, "")
            if shows_rate and (column.dataset or whole) in datasets:
                kept.append(place)
        cut = table.cut_to(kept)
        if not cut.rows:
            continue
        own = {}
        for entry in board.entries:
            if entry.coverage is None:
                values = {score.dataset: score.value for score in entry.scores}
                own[entry.endpoint] = [values.get(column.dataset or whole) for column in cut.columns]
        tables.append(filled(cut, own))
    return tuple(tables)
