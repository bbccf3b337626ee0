"""Notifications of people and programs: webhooks, and each message on its way."""

import uuid

from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from review.models.people import User


class Occasion(models.TextChoices):
    """What a message is about. Stored with it, and in the choices of people and webhooks."""

    ASSIGNED = "assigned", _("a case was assigned")
    MENTIONED = "mentioned", _("somebody was mentioned")
    DISSENT = "dissent", _("reviewers disagree")
    PAUSED = "paused", _("a batch or run paused")
    FAILED = "failed", _("a batch or run ended with failures, or a release could not be frozen")
    FINISHED = "finished", _("a batch or run finished")
    BUDGET = "budget", _("a budget is nearly spent")
    FROZEN = "frozen", _("a release was frozen")
    DIGEST = "digest", _("each morning: what waits for review")
    TEST = "test", _("test")


class Webhook(models.Model):
    """An address of another program. `secret_env` is the NAME of the variable with its secret."""

    name = models.SlugField(max_length=60, unique=True)
    url = models.CharField(max_length=500)
    secret_env = models.CharField(max_length=100)
    occasions = models.JSONField(default=list)
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """A message to one person by e-mail, or to one webhook.

    `next_at`: when it is due. A sender first moves it forward, so it is also the lease.
    `once`: of messages that may be told twice, what must be told only once.
    """

    class Status(models.TextChoices):
        WAITING = "waiting", _("waiting")
        SENT = "sent", _("sent")
        GIVEN_UP = "given-up", _("given up")

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    occasion = models.CharField(max_length=10, choices=Occasion)
    person = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, null=True, related_name="deliveries")
    facts = models.JSONField(default=dict)  # names, numbers and addresses; never text of a case
    once = models.CharField(max_length=100, blank=True)
    status = models.CharField(max_length=8, choices=Status, default=Status.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)
    next_at = models.DateTimeField(default=timezone.now)
    error = models.TextField(blank=True)

    class Meta:
        ordering = [F("id").asc()]
        indexes = [models.Index(fields=["next_at"], condition=Q(status="waiting"), name="delivery_due")]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["waiting", "sent", "given-up"]), name="delivery_status_known"
            ),
            models.CheckConstraint(
                condition=Q(person=None, webhook__isnull=False) | Q(person__isnull=False, webhook=None),
                name="delivery_to_one",
            ),
            models.UniqueConstraint(fields=["person", "once"], condition=~Q(once=""), name="person_told_once"),
            models.UniqueConstraint(fields=["webhook", "once"], condition=~Q(once=""), name="webhook_told_once"),
        ]
