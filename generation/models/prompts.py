"""Prompt sets that a team wrote or brought."""

from django.db import models
from django.db.models import F, Q

from review.models import User


class PromptSet(models.Model):
    """A version of a team's own prompt set; append-only by database trigger.

    It holds the text of every prompt file of the benchmark (`texts`: file -> text), so that later
    changes of the benchmark's own files do not reach it. `digest`: the SHA-256 of the texts.
    `based_on`: the set that it was made from, "" for the benchmark's default.
    """

    benchmark = models.CharField(max_length=64)
    name = models.CharField(max_length=40)
    number = models.PositiveIntegerField()
    texts = models.JSONField()
    digest = models.CharField(max_length=64)
    based_on = models.CharField(max_length=64, blank=True)
    note = models.CharField(max_length=500, blank=True)
    author = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["benchmark", "name", "number"], name="prompt_set_numbered_once"),
            models.CheckConstraint(
                condition=Q(number__gte=1) & ~Q(name="") & ~Q(name__contains="@"), name="prompt_set_named"
            ),
        ]
        ordering = [F("id").desc()]

    def __str__(self) -> str:
        return f"{self.name}@{self.number}"
