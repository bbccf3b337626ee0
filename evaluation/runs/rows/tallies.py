"""How many rows of a run are done, kept so that its progress does not count a million of them again.

A tally holds for the rows up to a number, below which no row is open. Rows above it are counted when somebody asks.
"""

from typing import Any

from django.db.models import Max, Q, QuerySet

from evaluation.models import Judgment, Response, Run, Vote
from generation.models.work import Work

Status = Work.Status
ROWS: dict[str, Any] = {"responses": Response, "judgments": Judgment, "votes": Vote}
MARGIN = 10_000  # of a run that works: rows with lower numbers may not be committed yet


def tally(pk: int) -> None:
    """Count what came to its end since the last time; all of it, where nothing is open any more."""
    known = Run.objects.filter(pk=pk).first()
    if known is None:
        return
    found: dict[str, int] = {}
    for name, model in ROWS.items():
        if model is Vote and not known.panel:
            continue
        rows: QuerySet[Any] = model._default_manager.filter(Q(run=pk))
        opened = [_first(rows, status) for status in (Status.QUEUED, Status.RUNNING)]
        before, to = int(getattr(known, f"{name}_done_to")), int(rows.aggregate(last=Max("pk"))["last"] or 0)
        done = int(getattr(known, f"{name}_done"))
        if any(opened):
            to = min(each for each in opened if each) - 1 - MARGIN
        if to > before or not any(opened):
            new = rows.filter(status=Status.DONE, pk__lte=to)
            if any(opened):
                new = new.filter(pk__gt=before)
            else:
                done = 0
            found |= {f"{name}_done": done + new.count(), f"{name}_done_to": to}
    if found:
        Run.objects.filter(pk=pk).update(**found)


def forget(pk: int) -> None:
    """Count anew from the start: rows that had ended are open again."""
    Run.objects.filter(pk=pk).update(**{f"{name}_{what}": 0 for name in ROWS for what in ("done", "done_to")})


def tally_some() -> None:
    """Go on with the runs that work, and with one that ended before there were tallies."""
    ended = Run.objects.filter(judgments_done_to=0, rubrics_total__gt=0, status=Run.Status.FINISHED)
    for pk in [
        *Run.objects.filter(status=Run.Status.RUNNING).values_list("pk", flat=True),
        *ended.order_by("pk").values_list("pk", flat=True)[:1],
    ]:
        tally(pk)


def _first(rows: QuerySet[Any], status: str) -> int | None:
    found: int | None = rows.filter(status=status).order_by("pk").values_list("pk", flat=True).first()
    return found
