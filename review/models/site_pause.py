"""The pause in which a restored site begins."""

from django.db import models
from django.db.models import Q
from django.utils import timezone


class SitePause(models.Model):
    """The site is paused while the one row of this table exists (`review.common.site_pause`)."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    since = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="site_paused_once")]

    def __str__(self) -> str:
        return f"paused since {self.since:%Y-%m-%d %H:%M}"
