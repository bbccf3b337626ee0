"""The sweep: finds jobs with work that no worker is doing."""

from typing import Any

from generation.engine.task_queue import requeue_expired, shorten_leases
from generation.jobs.kinds import JobKind
from generation.jobs.services import settle
from generation.models import Lane


def sweep(kind: JobKind[Any]) -> list[int]:
    """Requeue rows whose holder died and settle jobs.

    Returns the jobs that need a worker, each once for every further lane it may have.
    """
    for rows in kind.rows.values():
        requeue_expired(rows)
    shorten_leases(Lane.objects.all(), "until")
    kind.clean_up()
    for pk in kind.unsettled():
        settle(pk)
    return kind.due()
