"""Assignments, drafts, submitted reviews, and what follows from them."""

import uuid

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from review.models.cases import Case
from review.models.enums import choices_of, values_of
from review.models.people import User
from review.models.public_ids import AssignmentId
from review.rules.state_machine import Consent, Phase, Role, Verdict


class Assignment(models.Model):
    """A role in a case, and the physician who holds it.

    OPEN: nobody holds it. HELD: a physician works on it, fenced by `token`; after `lease_until`
    anybody may take it over, unless something was committed. WAITING: committed, but the next phase
    is not open yet. DONE: nothing left to submit. `phase` is the one to be submitted next. The
    fields from `priority` to `senior` are copies of the case's requirements, so that a
    claim is answered by one narrow index however many cases are waiting.
    """

    class Hold(models.TextChoices):
        OPEN = "open", _("open")
        HELD = "held", _("held")
        WAITING = "waiting", _("waiting")
        DONE = "done", _("done")

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="assignments", db_index=False)
    role = models.CharField(max_length=16, choices=choices_of(Role))
    phase = models.CharField(max_length=16, choices=choices_of(Phase), default=Phase.COMMIT)
    hold = models.CharField(max_length=8, choices=Hold, default=Hold.OPEN)
    physician = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="assignments", db_index=False
    )
    reserved_for = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="reserved")
    reason = models.CharField(max_length=200, blank=True)  # for which the holder was assigned it, in one line (a msgid)
    priority = models.SmallIntegerField(default=0)
    # 0 adjudication, 1 secondary, 2 primary: cases that are nearly done come first
    turn = models.PositiveSmallIntegerField(default=2)
    language = models.CharField(max_length=16, blank=True)  # ISO 639-1; empty: any
    specialty = models.CharField(max_length=100, blank=True)  # lower-case; empty: any
    calibration = models.CharField(max_length=64, blank=True)  # benchmark whose calibration must be passed
    other_hospital = models.BooleanField(default=False)
    senior = models.BooleanField(default=False, db_default=False)  # needs a senior physician
    token = models.UUIDField(null=True, blank=True, unique=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    opened_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["case", "role"], name="assignment_one_per_role"),
            models.UniqueConstraint(
                fields=["case", "physician"],
                condition=Q(physician__isnull=False),
                name="assignment_one_role_per_physician",
            ),
            models.CheckConstraint(
                condition=Q(hold="open", physician__isnull=True, token__isnull=True)
                | (~Q(hold="open") & Q(physician__isnull=False, token__isnull=False))
                | Q(hold="done"),
                name="assignment_held_by_somebody",
            ),
        ]
        indexes = [
            models.Index(fields=["hold", "phase", "lease_until"]),
            models.Index(fields=["physician", "hold"]),
            models.Index(
                fields=["hold", "-priority", "turn", "case", "language", "specialty", "calibration", "reserved_for"],
                name="assignment_queue",
            ),
        ]

    @property
    def public_id(self) -> str:
        """The ID that physicians see instead of the primary key."""
        return AssignmentId().to_url(self.pk)

    def free(self) -> None:
        """Take it from its holder. Also stores the current `reserved_for`."""
        self.hold, self.physician, self.token, self.lease_until = self.Hold.OPEN, None, None, None
        self.reason = ""
        self.save(update_fields=["hold", "physician", "token", "lease_until", "reason", "reserved_for"])

    def new_token(self) -> uuid.UUID:
        """Set a new fencing token, which invalidates the old one."""
        self.token = uuid.uuid4()
        return self.token


class Draft(models.Model):
    """Unsubmitted answers. They belong to the physician, so that losing the lease loses nothing."""

    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="drafts", db_index=False)
    physician = models.ForeignKey(User, on_delete=models.PROTECT, related_name="drafts")
    phase = models.CharField(max_length=16, choices=choices_of(Phase))
    answers = models.JSONField()
    revision = models.PositiveIntegerField(default=1)
    saved_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["assignment", "physician", "phase"], name="draft_one_per_phase"),
        ]


class Review(models.Model):
    """A submitted review. Written once; after a `Retraction` the next one has the next `attempt`.

    `guideline` is the version of the guideline that was in force; `signed_as` and `meaning` are the
    name and the meaning (review, verification, adjudication) with which it was signed off.
    """

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="reviews", db_index=False)
    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="reviews")
    physician = models.ForeignKey(User, on_delete=models.PROTECT, related_name="reviews", db_index=False)
    role = models.CharField(max_length=16, choices=choices_of(Role))
    phase = models.CharField(max_length=16, choices=choices_of(Phase))
    answers = models.JSONField()
    verdict = models.CharField(max_length=8, choices=choices_of(Verdict))
    inadequate = models.BooleanField()
    submitted_at = models.DateTimeField()
    attempt = models.PositiveSmallIntegerField(default=1)
    guideline = models.ForeignKey("Guideline", on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    signed_as = models.CharField(max_length=200, blank=True)
    meaning = models.CharField(max_length=16, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["case", "role", "phase", "attempt"], name="review_one_per_turn"),
            models.CheckConstraint(condition=Q(verdict__in=values_of(Verdict)), name="review_verdict_known"),
        ]
        indexes = [models.Index(fields=["physician", "-submitted_at"])]
        ordering = [F("id").asc()]


class Retraction(models.Model):
    """Withdrawal of a submitted review, which then no longer counts.

    By its author, as long as nobody has built on it, or by an admin who resets a role.
    """

    review = models.OneToOneField(Review, on_delete=models.PROTECT, related_name="retraction")
    at = models.DateTimeField()


class Rewording(models.Model):
    """A secondary's approved rewording of rubrics; the primary may object until `due_at`.

    Written once. Pending while it has no `RewordingOutcome` and its case is open.
    """

    case = models.OneToOneField(Case, on_delete=models.PROTECT, related_name="rewording")
    review = models.OneToOneField(Review, on_delete=models.PROTECT, related_name="rewording")
    physician = models.ForeignKey(User, on_delete=models.PROTECT, related_name="rewordings")
    asked_at = models.DateTimeField()
    due_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(due_at__gt=F("asked_at")), name="rewording_due_later")]
        indexes = [models.Index(fields=["due_at"], name="rewording_due")]


class RewordingOutcome(models.Model):
    """Outcome of a rewording: accepted or objected to (with a reason) by the primary, or lapsed.

    Written once.
    """

    rewording = models.OneToOneField(Rewording, on_delete=models.PROTECT, related_name="outcome")
    consent = models.CharField(max_length=16, choices=choices_of(Consent))
    reason = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(consent__in=values_of(Consent)), name="rewording_consent_known"),
            models.CheckConstraint(
                condition=(Q(consent=Consent.OBJECTED.value) & ~Q(reason=""))
                | (~Q(consent=Consent.OBJECTED.value) & Q(reason="")),
                name="rewording_objection_with_reason",
            ),
        ]


class FirstLook(models.Model):
    """A physician's answers before the traps were revealed: written once, part of the review."""

    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="first_looks", db_index=False)
    physician = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    answers = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["assignment", "physician"], name="first_look_once")]


class ActiveInterval(models.Model):
    """A period of actual work on a case: the page was visible and the physician not away."""

    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="intervals", db_index=False)
    physician = models.ForeignKey(User, on_delete=models.PROTECT, related_name="intervals", db_index=False)
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(ended_at__gte=F("began_at")), name="interval_forward"),
            models.UniqueConstraint(fields=["assignment", "physician", "began_at"], name="interval_once"),
        ]
        indexes = [models.Index(fields=["physician", "began_at"])]


class Declined(models.Model):
    """A case declined by a physician, with the reason; never offered to that physician again.

    Also written for who has read what is hidden from them: holders of roles that admins reopened
    (`retraction`), new physicians who had another role (`accounts.set_role`).
    """

    class Reason(models.TextChoices):
        CONFLICT = "conflict", _("conflict of interest")
        FIELD = "field", _("not my field")
        LANGUAGE = "language", _("not my language")
        OTHER = "other", _("another reason")

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="declined", db_index=False)
    physician = models.ForeignKey(User, on_delete=models.PROTECT, related_name="declined")
    reason = models.CharField(max_length=10, choices=Reason)
    text = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["case", "physician"], name="declined_once")]
