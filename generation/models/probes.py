"""The probing of a source, release or batch: can its answers be told apart without being read?"""

from django.db import models
from django.db.models import Q

from generation.models.batches import Batch
from generation.models.releases import Release
from generation.models.sources import Source
from generation.models.work import Work, work_constraints
from review.models import User


class ProbeWork(Work):
    """One probing of a set. A worker may restart it at any time, as nothing is stored early.

    `tried` of `total` probes have been tried; `result` is `probes.stored.to_json` of the report.
    """

    source = models.ForeignKey(Source, on_delete=models.PROTECT, null=True, blank=True, related_name="probings")
    release = models.ForeignKey(Release, on_delete=models.PROTECT, null=True, blank=True, related_name="probings")
    batch = models.ForeignKey(Batch, on_delete=models.PROTECT, null=True, blank=True, related_name="probings")
    total = models.PositiveIntegerField(default=0)
    tried = models.PositiveIntegerField(default=0)
    result = models.JSONField(default=dict, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            *work_constraints("probe_work"),
            models.CheckConstraint(
                condition=Q(source__isnull=False, release__isnull=True, batch__isnull=True)
                | Q(source__isnull=True, release__isnull=False, batch__isnull=True)
                | Q(source__isnull=True, release__isnull=True, batch__isnull=False),
                name="probe_work_of_one_set",
            ),
        ]
