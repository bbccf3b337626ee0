"""Work is a row with a status and a lease."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class Work(models.Model):
    """A row of work, taken under a lease.

    `tries` counts how often the row was taken since it last made progress. Above 1, a worker
    process died while holding it, or a lane ended while retrying one of its calls.
    """

    class Status(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        DROPPED = "dropped", _("dropped")
        FAILED = "failed", _("failed")

    status = models.CharField(max_length=8, choices=Status, default=Status.QUEUED)
    token = models.UUIDField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    error = models.CharField(max_length=64, blank=True)  # the name of the error class
    detail = models.TextField(blank=True)

    seconds_allowed = 10  # of computing for it without a break (`generation.engine.watchdog`)
    asks: int | None = None  # of a row that was taken: the endpoint that its work calls, if it is a single one

    class Meta:
        abstract = True

    @property
    def subject(self) -> str:
        """Its name in the ledger: ``draft:12``."""
        return f"{self._meta.model_name}:{self.pk}"


def work_constraints(prefix: str, statuses: type[models.TextChoices] = Work.Status) -> list[models.BaseConstraint]:
    """Return the invariants of a work table: a known status, and a lease exactly while running."""
    return [
        models.CheckConstraint(condition=Q(status__in=statuses.values), name=f"{prefix}_status_known"),
        models.CheckConstraint(
            condition=Q(status="running", token__isnull=False, lease_until__isnull=False)
            | (~Q(status="running") & Q(token__isnull=True, lease_until__isnull=True)),
            name=f"{prefix}_leased_iff_running",
        ),
    ]
