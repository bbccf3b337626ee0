"""The agreement within the panel of a run."""

from collections import Counter, defaultdict
from itertools import combinations

from django.db.models import Count, F

from evaluation import panel, registry
from evaluation.judges.numbers.agreement import Pair, PanelReport, Tables, agreements
from evaluation.models import Judgment, Run, Vote
from evaluation.runs.queries import judges_of
from generation.models.work import Work

DONE = Work.Status.DONE


def panel_report(run: Run) -> PanelReport | None:
    """The agreement within the panel of a run; None if one judge decided once."""
    if not run.panel:
        return None
    names = tuple(judge.name for judge in judges_of(run))
    verdicts = registry.protocol(run.release.benchmark).known_verdicts
    states = Judgment.objects.filter(run=run).order_by()
    within_judges = _vote_tables(run, same_judge=True) if run.judgments_each > 1 else {}
    return PanelReport(
        rule=run.panel,
        judges=names,
        judgments=run.judgments_each,
        pairs=agreements(_vote_tables(run, same_judge=False), combinations(names, 2), verdicts),
        repeats=agreements(within_judges, ((name, name) for name in names), verdicts),
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
    tables: dict[Pair, Counter[tuple[str, str]]] = defaultdict(Counter)
    rows = votes.values_list("judge__name", "judgment__votes__judge__name", "verdict", "judgment__votes__verdict")
    for judge, other_judge, verdict, other_verdict, n in rows.annotate(n=Count("pk")):
        tables[judge, other_judge][verdict, other_verdict] += n
    return tables
