"""Cases under review, and cases with a known answer."""

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.dispatch import Signal
from django.utils.functional import cached_property
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from review.models.enums import choices_of, values_of
from review.models.public_ids import CaseId
from review.rules.state_machine import FINAL, Ground, State, shown_status

if TYPE_CHECKING:
    from review.rules.case_spec import CaseSpec

# Sent in the transaction that stores `user`; `review.audit.accounts` records the event.
account_created = Signal()


class Case(models.Model):
    """A sample version under review.

    `spec` is frozen. `state` is the state machine's position, stored so that it can be indexed.
    """

    State = State

    class Kind(models.TextChoices):
        """The purpose of a case.

        WORK: a real case; only these count. CALIBRATION: has a known answer and a single physician.
        REPEAT: shows physicians one of their earlier cases again. VALIDATION: a model's answer, on
        which physicians decide the criteria that a judge has decided.
        """

        WORK = "work", _("work")
        CALIBRATION = "calibration", _("calibration")
        REPEAT = "repeat", _("repeat")
        VALIDATION = "validation", _("judge validation")

    kind = models.CharField(max_length=12, choices=Kind, default=Kind.WORK)
    item = models.ForeignKey("CalibrationItem", on_delete=models.PROTECT, null=True, blank=True, related_name="cases")
    repeats = models.ForeignKey("Review", on_delete=models.PROTECT, null=True, blank=True, related_name="repeated_as")
    benchmark = models.CharField(max_length=64)
    lineage = models.CharField(max_length=200)
    version = models.PositiveIntegerField(default=1)
    title = models.CharField(max_length=300)
    language = models.CharField(max_length=16, blank=True)
    specialty = models.CharField(max_length=100, blank=True)
    spec = models.JSONField()
    fresh_eyes_required = models.BooleanField(default=False)
    simulated = models.BooleanField(default=False)
    priority = models.SmallIntegerField(default=0)
    discussed = models.BooleanField(default=False, db_default=False)  # somebody has commented on it
    state = models.CharField(max_length=16, choices=choices_of(State), default=State.PRIMARY)
    ground = models.CharField(max_length=32, blank=True)
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lineage", "version"], name="case_one_per_version"),
            models.CheckConstraint(condition=Q(state__in=values_of(State)), name="case_state_known"),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=False, state__in=sorted(FINAL))
                | (Q(closed_at__isnull=True) & ~Q(state__in=sorted(FINAL))),
                name="case_closed_iff_final",
            ),
            models.CheckConstraint(condition=Q(ground__in=["", *values_of(Ground)]), name="case_ground_known"),
            models.CheckConstraint(
                condition=~Q(ground=Ground.UNREVIEWED.value) | Q(state=State.APPROVED.value),
                name="case_unreviewed_is_approved",
            ),
            models.CheckConstraint(
                condition=~Q(state=State.APPROVED.value) | ~Q(ground=""), name="case_approved_on_a_ground"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["work", "validation"], item__isnull=True, repeats__isnull=True)
                | Q(kind="calibration", item__isnull=False, repeats__isnull=True)
                | Q(kind="repeat", item__isnull=True, repeats__isnull=False),
                name="case_kind_whole",
            ),
        ]
        indexes = [models.Index(fields=["state", "-priority", "id"]), models.Index(fields=["benchmark", "state"])]

    def __str__(self) -> str:
        return f"{self.title} (v{self.version})"

    @property
    def is_copy(self) -> bool:
        """Whether the case is made for a single physician: a calibration case or a repeated one."""
        return self.kind in (self.Kind.CALIBRATION, self.Kind.REPEAT)

    @property
    def public_id(self) -> str:
        """The ID that physicians see instead of the primary key."""
        return CaseId().to_url(self.pk)

    @property
    def status(self) -> str:
        """The state as displayed; a case that nobody was asked to review is not called approved."""
        return shown_status(self.state, self.ground)

    @cached_property
    def frozen(self) -> "CaseSpec":
        """The parsed `spec`."""
        from review.rules.case_spec import spec_from_json

        return spec_from_json(self.spec)

    @property
    def localized_spec(self) -> "CaseSpec":
        """The spec with the questions in the reader's language, if an admin has translated them."""
        return self.frozen.in_language(get_language() or "")


class CalibrationItem(models.Model):
    """A case with a known answer (`expected`, as JSON), of which each physician gets a copy."""

    benchmark = models.CharField(max_length=64)
    title = models.CharField(max_length=300)
    spec = models.JSONField()
    expected = models.JSONField()
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField()
