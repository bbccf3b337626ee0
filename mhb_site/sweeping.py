"""The sweeper: finds what nobody took. With the database and this alone, every piece of work is brought to its end."""

from evaluation import services as evaluation
from evaluation import tasks as evaluation_tasks
from generation import services as generation
from generation import tasks as generation_tasks
from generation.tasks import wake
from review import services as review


def sweep() -> dict[str, int]:
    """One round: give back expired leases, carry review outcomes over, wake workers. Returns what was found."""
    leases = review.expire_leases()
    due = generation.sweep()
    runs = evaluation.sweep()
    for pk in due.imports:
        wake(generation_tasks.run_import, pk)
    for pk in due.batches:
        wake(generation_tasks.work_on_batch, pk)
    for pk in runs:
        wake(evaluation_tasks.work_on_run, pk)
    return {"leases": leases, "imports": len(due.imports), "batches": len(due.batches), "runs": len(runs)}
