"""Tallies of a run's finished rows, so that progress need not count a million rows each time.

A tally covers the rows up to an id below which no row is open. Rows above it are counted on demand.
"""

from typing import Any

from django.db.models import Max, Q, QuerySet

from evaluation.models import Judgment, Response, Run, Vote
from generation.models.work import Work

Status = Work.Status
ROWS: dict[str, Any] = {"responses": Response, "judgments": Judgment, "votes": Vote}
MARGIN = 10_000  # for a running run: rows with lower ids may not be committed yet


def tally(pk: int) -> None:
    """Add the rows that ended since the last tally; recount all rows once none is open."""
    run = Run.objects.filter(pk=pk).first()
    if run is None:
        return
    changes: dict[str, int] = {}
    for name, model in ROWS.items():
        if model is Vote and not run.panel:
            continue
        rows: QuerySet[Any] = model._default_manager.filter(Q(run=pk))
        ids = rows.order_by("pk").values_list("pk", flat=True)
        open_ids = []
        for status in (Status.QUEUED, Status.RUNNING):
            if first := ids.filter(status=status).first():
                open_ids.append(first)
        previous_id, last_id = int(getattr(run, f"{name}_done_to")), int(rows.aggregate(last=Max("pk"))["last"] or 0)
        done = int(getattr(run, f"{name}_done"))
        if open_ids:
            last_id = min(open_ids) - 1 - MARGIN
        if last_id > previous_id or not open_ids:
            ended = rows.filter(status=Status.DONE, pk__lte=last_id)
            if open_ids:
                ended = ended.filter(pk__gt=previous_id)
            else:
                done = 0
            changes |= {f"{name}_done": done + ended.count(), f"{name}_done_to": last_id}
    if changes:
        Run.objects.filter(pk=pk).update(**changes)


def reset(pk: int) -> None:
    """Discard the tallies of a run whose ended rows are open again."""
    nothing = {}
    for name in ROWS:
        nothing[f"{name}_done"] = nothing[f"{name}_done_to"] = 0
    Run.objects.filter(pk=pk).update(**nothing)


def tally_open_runs() -> None:
    """Update the tallies of running runs, and of one run that finished before tallies existed."""
    ended = Run.objects.filter(judgments_done_to=0, rubrics_total__gt=0, status=Run.Status.FINISHED)
    for pk in [
        *Run.objects.filter(status=Run.Status.RUNNING).values_list("pk", flat=True),
        *ended.order_by("pk").values_list("pk", flat=True)[:1],
    ]:
        tally(pk)
