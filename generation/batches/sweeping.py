"""Finds work on batches that nobody is on."""

from dataclasses import dataclass

from django.db.models import Exists, OuterRef

from generation.batches import queries
from generation.batches.services import settle_batch
from generation.engine import worker_lane
from generation.engine.task_queue import give_back_expired
from generation.models import Batch, Draft, Import
from generation.models.work import Work
from generation.samples.services import handle_outcomes

Status = Work.Status


@dataclass(frozen=True, slots=True)
class Due:
    """What waits for a worker; a batch once for each lane that it may have."""

    imports: list[int]
    batches: list[int]


def sweep() -> Due:
    """Give back what died with its holder, carry outcomes over, and say what no worker is on."""
    give_back_expired(Import)
    give_back_expired(Draft)
    handle_outcomes()
    for batch_id in queries.batches_to_settle():
        settle_batch(batch_id)
    queued = Draft.objects.filter(batch=OuterRef("pk"), status=Status.QUEUED)
    return Due(
        imports=list(Import.objects.filter(status=Status.QUEUED).values_list("pk", flat=True)),
        batches=worker_lane.due(Batch.objects.filter(Exists(queued))),
    )
