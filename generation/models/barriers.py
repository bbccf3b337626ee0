"""Barriers: rounds over the drafts of a batch, merge events, and drafts too late to be merged."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from generation.models.batches import Batch
from generation.models.samples import Draft
from generation.models.work import Work, work_constraints
from review.models import User


class BarrierRound(Work):
    """One run of a barrier step over the drafts that wait at it.

    A draft that arrives later starts the next round. `step`: the number of the step in the recipe.
    The drafts of a round point at it (`Draft.round`).
    """

    batch = models.ForeignKey(Batch, on_delete=models.PROTECT, related_name="rounds", db_index=False)
    step = models.PositiveSmallIntegerField()
    number = models.PositiveIntegerField()
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    seconds_allowed = 60  # it compares all drafts

    class Meta:
        constraints = [
            *work_constraints("barrier_round"),
            models.UniqueConstraint(fields=["batch", "step", "number"], name="barrier_round_once"),
        ]
        indexes = [models.Index(fields=["status", "lease_until"])]


class MergeEvent(models.Model):
    """The merge of one draft into another, or its undoing. A database trigger forbids changes.

    `draft`: the draft that arrived at the barrier. `into`: the draft that continues for it from
    then on. `actor`: null if the barrier step decided; `distance` then says how far apart the two
    were. `withdrawn`: the keys of the samples that this event withdrew, "" for none.
    """

    class Kind(models.TextChoices):
        MERGED = "merged", _("merged")
        UNDONE = "undone", _("merge undone")

    draft = models.ForeignKey(Draft, on_delete=models.PROTECT, related_name="merge_events", db_index=False)
    into = models.ForeignKey(Draft, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=6, choices=Kind)
    actor = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    distance = models.FloatField(null=True, blank=True)
    reason = models.TextField()
    withdrawn = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["merged", "undone"]), name="merge_event_kind_known")
        ]
        indexes = [models.Index(fields=["draft", "id"])]


class NearMatch(models.Model):
    """A draft of a later round that resembles one that an earlier round sent on.

    People may merge the two. `draft`, `earlier`: both as they arrived at the barrier. A
    database trigger forbids changes.
    """

    draft = models.OneToOneField(Draft, on_delete=models.PROTECT, related_name="near_match")
    earlier = models.ForeignKey(Draft, on_delete=models.PROTECT, related_name="+")
    distance = models.FloatField()
    reason = models.TextField(blank=True)
