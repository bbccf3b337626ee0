"""Guidelines, remarks on cases, and notices of mentions."""

from django.db import models
from django.db.models import F
from django.utils.translation import gettext_lazy as _

from review.models.cases import Case
from review.models.people import User
from review.rules.state_machine import State


class Guideline(models.Model):
    """Instructions for the reviewers of a stage, in Markdown.

    Every change creates a new version; reviews refer to the version that was in force.
    """

    benchmark = models.CharField(max_length=64)
    stage = models.CharField(max_length=16, choices=[(s.value, s.value) for s in State if not s.final])
    version = models.PositiveIntegerField()
    text = models.TextField()
    author = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["benchmark", "stage", "version"], name="guideline_versioned_once")
        ]


class Remark(models.Model):
    """A message in the discussion of a case, or a comment on a span of its text.

    `anchor` locates the span: block, turn, start, end, quote.
    """

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="remarks")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="remarks")
    anchor = models.JSONField(null=True, blank=True)
    text = models.TextField()
    at = models.DateTimeField()

    class Meta:
        ordering = [F("id").asc()]


class Notice(models.Model):
    """A notification for one person: a mention, a reported problem, an opened discussion."""

    class Kind(models.TextChoices):
        MENTION = "mention", _("mention")
        PROBLEM = "problem", _("problem reported")
        DISCUSSION = "discussion", _("discussion opened")

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="notices", db_index=False)
    kind = models.CharField(max_length=12, choices=Kind)
    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="+")
    remark = models.ForeignKey(Remark, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    text = models.TextField(blank=True)
    at = models.DateTimeField()
    read_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["user", "read_at"])]
