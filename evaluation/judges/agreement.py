"""Agreement between the judges of a panel, and of each judge with itself."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from django.db.models import Count, F

from evaluation import panel, registry
from evaluation.models import Judgment, Run, Vote
from evaluation.runs.queries import judges_of
from generation.models.work import Work
from review.quality.agreement import ac1, kappa

DONE = Work.Status.DONE
Tables = dict[tuple[int, int], Counter[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """Agreement of two judges, or of one judge with itself, on the `n` criteria with both votes.

    `raw` is the share of equal verdicts. A figure that is not defined is None.
    """

    judges: tuple[str, str]
    n: int
    raw: float | None
    kappa: float | None
    ac1: float | None


@dataclass(frozen=True, slots=True)
class PanelReport:
    """The agreement within a panel.

    `pairs`: the first votes of two judges; `repeats`: the first and second vote of one judge.
    `judgments`: votes per judge and criterion. `decided`, `undecided`: criteria with a verdict, and
    without a majority.
    """

    rule: str
    judges: tuple[str, ...]
    judgments: int
    pairs: tuple[JudgeAgreement, ...]
    repeats: tuple[JudgeAgreement, ...]
    decided: int
    undecided: int


def panel_report(run: Run) -> PanelReport | None:
    """The agreement within the panel of a run; None if one judge decided once."""
    if not run.panel:
        return None
    judges = {judge.pk: judge.name for judge in judges_of(run)}
    verdicts = registry.protocol(run.release.benchmark).known_verdicts
    states = Judgment.objects.filter(run=run).order_by()
    between_judges = _vote_tables(run, same_judge=False)
    within_judges = _vote_tables(run, same_judge=True) if run.judgments_each > 1 else {}

    def agreements(tables: Tables, pairs: Iterable[tuple[int, int]]) -> tuple[JudgeAgreement, ...]:
        return tuple(
            _agreement((judges[one], judges[other]), tables[one, other], verdicts)
            for one, other in pairs
            if (one, other) in tables
        )

    return PanelReport(
        rule=run.panel,
        judges=tuple(judges.values()),
        judgments=run.judgments_each,
        pairs=agreements(between_judges, combinations(judges, 2)),
        repeats=agreements(within_judges, ((pk, pk) for pk in judges)),
        decided=states.filter(status=DONE).count(),
        undecided=states.filter(error=panel.NO_MAJORITY).count(),
    )


def _vote_tables(run: Run, *, same_judge: bool) -> Tables:
    """(judge, other judge) -> (verdict, other verdict) -> number of criteria.

    Compares the first votes of different judges, or with `same_judge` the first and second vote of
    each judge.
    """
    votes = Vote.objects.filter(run=run, repeat=0, status=DONE).order_by()
    other = {"judgment__votes__status": DONE, "judgment__votes__repeat": int(same_judge)}
    votes = votes.filter(judgment__votes__judge=F("judge"), **other) if same_judge else votes.filter(**other)
    tables: Tables = defaultdict(Counter)
    rows = votes.values_list("judge", "judgment__votes__judge", "verdict", "judgment__votes__verdict")
    for judge, other_judge, verdict, other_verdict, n in rows.annotate(n=Count("pk")):
        tables[judge, other_judge][verdict, other_verdict] += n
    return tables


def _agreement(judges: tuple[str, str], table: Counter[tuple[str, str]], known: Sequence[str]) -> JudgeAgreement:
    verdicts = sorted({*known, *(verdict for pair in table for verdict in pair)})
    index_of = {verdict: index for index, verdict in enumerate(verdicts)}
    counts = np.zeros((len(verdicts), len(verdicts)))
    for (one, other), n in table.items():
        counts[index_of[one], index_of[other]] += n
    n = int(counts.sum())
    figures = [float(figure(counts)) if n else float("nan") for figure in (kappa, ac1)]
    values = [None if np.isnan(value) else value for value in figures]
    return JudgeAgreement(judges, n, float(np.trace(counts)) / n if n else None, values[0], values[1])
