"""Batches and comparisons of batches."""

from django.db import models
from django.db.models import F, Q

from generation.models.endpoints import Endpoint
from generation.models.jobs import Job
from generation.models.sources import Source
from review.models import User


class Comparison(models.Model):
    """Two batches over the same records with different sets of prompts.

    It shows which set produces samples that physicians approve.
    """

    benchmark = models.CharField(max_length=64)
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="comparisons")
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        ordering = [F("id").desc()]


class Batch(Job):
    """One launch of a recipe over records, with endpoints bound to its roles.

    `plan`: {} or {"name", "targets": task -> subtype -> samples, "clusters": task -> cluster ->
    samples}, scaled to the batch. `checks`: the names of the pre-review checks that run. `prompts`:
    the set of prompt files, "" for the default set, NAME@VERSION for a team's own (`prompt_set`).
    `preset`: the name of the recipe's preset, ""
    if the recipe has none. `settings`: the preset's values at launch, with the overrides of the
    launch, whose names are in `changed`. `draw`: how its records were drawn
    (`generation.batches.draw`), {} in batches that are older than draws.
    """

    benchmark = models.CharField(max_length=64)
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="batches")
    plan = models.JSONField(default=dict, blank=True)
    checks = models.JSONField(default=list, blank=True)
    prompts = models.CharField(max_length=64, blank=True)
    preset = models.CharField(max_length=64, blank=True)
    settings = models.JSONField(default=dict, blank=True)
    changed = models.JSONField(default=list, blank=True)
    endpoint_settings = models.JSONField(default=dict, blank=True)  # endpoint -> its settings at launch
    draw = models.JSONField(default=dict, blank=True)
    comparison = models.ForeignKey(
        Comparison, on_delete=models.PROTECT, null=True, blank=True, related_name="batches", db_index=False
    )
    arm = models.CharField(max_length=1, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)  # lists leave it out since

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["comparison", "arm"], name="batch_arm_once"),
            models.CheckConstraint(
                condition=Q(comparison__isnull=True, arm="") | Q(comparison__isnull=False, arm__in=["A", "B"]),
                name="batch_arm_of_a_comparison",
            ),
        ]
        ordering = [F("id").desc()]


class BatchRole(models.Model):
    """An endpoint that plays a role of the recipe in a batch; one row each if several play it."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="roles", db_index=False)
    role = models.CharField(max_length=40)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "role", "endpoint"], name="batch_role_bound_once")]
