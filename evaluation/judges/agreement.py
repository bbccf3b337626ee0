"""How far the judges of a panel agree, with one another and each with itself."""

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
    """Two judges (or one judge twice) on `n` criteria on which both voted: shares from 0 to 1; None: not defined."""

    judges: tuple[str, str]
    n: int
    raw: float | None
    kappa: float | None
    ac1: float | None


@dataclass(frozen=True, slots=True)
class PanelReport:
    """`pairs`: first votes of two judges; `repeats`: a judge's first and second vote. `undecided`: without a majority."""

    rule: str
    judges: tuple[str, ...]
    judgments: int
    pairs: tuple[JudgeAgreement, ...]
    repeats: tuple[JudgeAgreement, ...]
    decided: int
    undecided: int


def panel_report(run: Run) -> PanelReport | None:
    """The agreement in a run; None where one judge decided once."""
    if not run.panel:
        return None
    judges = {judge.pk: judge.name for judge in judges_of(run)}
    verdicts = registry.protocol(run.release.benchmark).known_verdicts
    states = Judgment.objects.filter(run=run).order_by()
    between = _tables(run, same=False)
    within = _tables(run, same=True) if run.judgments_each > 1 else {}

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
        pairs=agreements(between, combinations(judges, 2)),
        repeats=agreements(within, ((pk, pk) for pk in judges)),
        decided=states.filter(status=DONE).count(),
        undecided=states.filter(error=panel.NO_MAJORITY).count(),
    )


def _tables(run: Run, *, same: bool) -> Tables:
    """(judge, other judge) -> (verdict, other verdict) -> criteria; `same`: the first and second vote of each judge."""
    votes = Vote.objects.filter(run=run, repeat=0, status=DONE).order_by()
    other = {"judgment__votes__status": DONE, "judgment__votes__repeat": int(same)}
    votes = votes.filter(judgment__votes__judge=F("judge"), **other) if same else votes.filter(**other)
    found: Tables = defaultdict(Counter)
    rows = votes.values_list("judge", "judgment__votes__judge", "verdict", "judgment__votes__verdict")
    for judge, another, verdict, theirs, n in rows.annotate(n=Count("pk")):
        found[judge, another][verdict, theirs] += n
    return found


def _agreement(judges: tuple[str, str], table: Counter[tuple[str, str]], known: Sequence[str]) -> JudgeAgreement:
    verdicts = sorted({*known, *(verdict for pair in table for verdict in pair)})
    place = {verdict: at for at, verdict in enumerate(verdicts)}
    counts = np.zeros((len(verdicts), len(verdicts)))
    for (one, other), n in table.items():
        counts[place[one], place[other]] += n
    n = int(counts.sum())
    figures = [float(figure(counts)) if n else float("nan") for figure in (kappa, ac1)]
    values = [None if np.isnan(value) else value for value in figures]
    return JudgeAgreement(judges, n, float(np.trace(counts)) / n if n else None, values[0], values[1])
