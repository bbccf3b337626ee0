"""Finds work on jobs that nobody is on."""

from typing import Any

from generation.engine.task_queue import give_back_expired
from generation.jobs.kinds import JobKind
from generation.jobs.services import settle


def sweep(kind: JobKind[Any]) -> list[int]:
    """Give back what died with its holder, settle jobs, and say which want a worker, each once for each lane it may have."""
    for rows in kind.rows.values():
        give_back_expired(rows)
    kind.clean_up()
    for pk in kind.unsettled():
        settle(pk)
    return kind.due()
