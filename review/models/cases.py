"""Cases under review, and cases with a known answer."""

from django.db import models
from django.db.models import Q
from django.dispatch import Signal
from django.utils.functional import cached_property
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from review.models.public_ids import CaseId
from review.rules.case_spec import CaseSpec, spec_from_json, spec_from_text
from review.rules.state_machine import FINAL, Ground, State, shown_status

account_made = Signal()  # sent in the transaction that stores `user`; review.accounts writes the event


class Case(models.Model):
    """One sample version put before physicians. `spec` is frozen; `state` is the machine's position, kept for indexing."""

    State = State

    class Kind(models.TextChoices):
        """WORK counts. CALIBRATION has a known answer and one physician. REPEAT shows a physician an own case again.

        VALIDATION is a model's answer: physicians decide on the criteria that a judge decided on.
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
    state = models.CharField(max_length=16, choices=[(s.value, s.value) for s in State], default=State.PRIMARY)
    ground = models.CharField(max_length=32, blank=True)
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)

    undiscussed = False  # known to have no remark, so that nothing need be asked

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lineage", "version"], name="case_one_per_version"),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in State]), name="case_state_known"),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=False, state__in=sorted(FINAL))
                | (Q(closed_at__isnull=True) & ~Q(state__in=sorted(FINAL))),
                name="case_closed_iff_final",
            ),
            models.CheckConstraint(condition=Q(ground__in=["", *(g.value for g in Ground)]), name="case_ground_known"),
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
        """Whether it is one physician's own: a case of training, or one shown again."""
        return self.kind in (self.Kind.CALIBRATION, self.Kind.REPEAT)

    @property
    def public_id(self) -> str:
        """What physicians see in place of the primary key."""
        return CaseId().to_url(self.pk)

    @property
    def status(self) -> str:
        """The state, or that nobody was asked to review it."""
        return shown_status(self.state, self.ground)

    @cached_property
    def frozen(self) -> CaseSpec:
        """The spec as values."""
        return spec_from_json(self.spec)

    def freeze(self, text: str) -> None:
        """Take `frozen` from the JSON of `spec`, which was not read as a column."""
        self.frozen = spec_from_text(text)

    @property
    def shown(self) -> CaseSpec:
        """The same, with its questions in the reader's language where an admin worded them in it."""
        return self.frozen.in_language(get_language() or "")


class CalibrationItem(models.Model):
    """A case with a known answer, from which each physician gets a copy of the own. `expected`: answers as JSON."""

    benchmark = models.CharField(max_length=64)
    title = models.CharField(max_length=300)
    spec = models.JSONField()
    expected = models.JSONField()
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField()
