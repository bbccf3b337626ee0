"""What the overview shows of batches: those in progress, and those that need a person. Read only."""

from collections.abc import Mapping
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from generation.batches import queries
from generation.jobs import overview
from generation.models import Batch


def _named(batch: Batch) -> tuple[Batch, str, str]:
    return batch, _("Batch %(n)s") % {"n": batch.pk}, reverse("generation:batch", args=[batch.pk])


def needing_batches(_shown: object) -> Mapping[str, Any]:
    """Batches that are paused, or whose budget is nearly spent."""
    return {"jobs": [_named(batch) for batch in overview.needing(Batch.objects.all())]}


def going_batches(_shown: object) -> Mapping[str, Any]:
    """Batches in progress: one statement."""
    batches = overview.going(queries.watched_batches())
    return {"jobs": [(*_named(batch), queries.batch_progress(batch), queries.batch_live(batch)) for batch in batches]}
