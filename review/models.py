"""Cases, who holds them, what was said, and the trail. No logic in `save`: services write, queries read."""

import uuid
from typing import Any

from django.contrib.auth.models import AbstractUser, UserManager
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Lower
from django.dispatch import Signal
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from review.machine import FINAL, Ground, Phase, Role, State, Verdict
from review.names import NameField
from review.permissions import UserRole
from review.public_ids import AssignmentId, CaseId
from review.spec import CaseSpec, spec_from_json

account_made = Signal()  # sent in the transaction that stores `user`; review.accounts writes the event


class People(UserManager["User"]):
    """Accounts; one made by `createsuperuser` is an admin. Every account that is created here leaves its event."""

    def create_superuser(self, *args: Any, **fields: Any) -> "User":
        return super().create_superuser(*args, **{"role": UserRole.ADMIN, **fields})

    def _create_user(self, *args: Any, **fields: Any) -> "User":
        with transaction.atomic(using=self.db):
            user: User = super()._create_user(*args, **fields)  # type: ignore[misc]
            account_made.send(User, user=user)
        return user


class User(AbstractUser):
    """An account: one person in one role. `hospital`, `specialty` and `languages` describe physicians."""

    username = NameField(
        _("username"),
        max_length=150,
        unique=True,
        help_text=_("At most 150 characters: letters, digits and @/./+/-/_. Capital letters become small ones."),
        validators=[UnicodeUsernameValidator()],
        error_messages={"unique": _("A user with that username already exists.")},
    )
    role = models.CharField(max_length=16, choices=[(r.value, r.value) for r in UserRole], default=UserRole.PHYSICIAN)
    hospital = models.CharField(max_length=200, blank=True)
    specialty = models.CharField(max_length=100, blank=True)
    languages = models.JSONField(default=list, blank=True)  # ISO 639-1 codes; empty: any
    stages = models.JSONField(default=list, blank=True)  # stages this physician may work in; empty: any
    daily_cap = models.PositiveSmallIntegerField(null=True, blank=True)  # cases a day; empty: no cap
    paused_at = models.DateTimeField(null=True, blank=True)  # paused by an admin: takes no new case
    sessions_ended = models.PositiveIntegerField(default=0)  # sessions hold it too: counted up, it ends them all

    simulated = models.BooleanField(default=False)  # a scripted stand-in for a physician: from its making, for good

    objects = People()  # type: ignore[misc]

    class Meta(AbstractUser.Meta):
        constraints = [
            models.CheckConstraint(condition=Q(role__in=[r.value for r in UserRole]), name="user_role_known"),
            models.UniqueConstraint(Lower("username"), name="user_name_once"),
        ]

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """What every session holds; a session that holds another one is over."""
        of_password: str = super()._get_session_auth_hash(secret)  # type: ignore[misc]
        return f"{of_password}-{self.sessions_ended}" if self.sessions_ended else of_password

    def __str__(self) -> str:
        name = self.get_full_name() or self.username
        return gettext("%(name)s (simulated)") % {"name": name} if self.simulated else name


class Case(models.Model):
    """One sample version put before physicians. `spec` is frozen; `state` is the machine's position, kept for indexing."""

    State = State

    class Kind(models.TextChoices):
        """WORK counts. CALIBRATION has a known answer and one physician. REPEAT shows a physician an own case again."""

        WORK = "work", _("work")
        CALIBRATION = "calibration", _("calibration")
        REPEAT = "repeat", _("repeat")

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

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lineage", "version"], name="case_one_per_version"),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in State]), name="case_state_known"),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=False, state__in=FINAL)
                | (Q(closed_at__isnull=True) & ~Q(state__in=FINAL)),
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
                condition=Q(kind="work", item__isnull=True, repeats__isnull=True)
                | Q(kind="calibration", item__isnull=False, repeats__isnull=True)
                | Q(kind="repeat", item__isnull=True, repeats__isnull=False),
                name="case_kind_whole",
            ),
        ]
        indexes = [models.Index(fields=["state", "-priority", "id"]), models.Index(fields=["benchmark", "state"])]

    def __str__(self) -> str:
        return f"{self.title} (v{self.version})"

    @property
    def public_id(self) -> str:
        """What physicians see in place of the primary key."""
        return CaseId().to_url(self.pk)

    @cached_property
    def frozen(self) -> CaseSpec:
        """The spec as values."""
        return spec_from_json(self.spec)


class Assignment(models.Model):
    """One physician's hold on one role of one case.

    OPEN: nobody holds it. HELD: a physician works on it, fenced by `token`; once `lease_until` has passed anybody may take
    it over as long as nothing was committed. WAITING: committed, the next phase is not open yet. DONE: nothing more to say.
    `phase` is what is to be submitted next. The fields from `priority` on are copies of what the case asks of whoever takes
    it, so that a claim is answered by one narrow index however many cases wait.
    """

    class Hold(models.TextChoices):
        OPEN = "open", _("open")
        HELD = "held", _("held")
        WAITING = "waiting", _("waiting")
        DONE = "done", _("done")

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="assignments")
    role = models.CharField(max_length=16, choices=[(r.value, r.value) for r in Role])
    phase = models.CharField(max_length=16, choices=[(p.value, p.value) for p in Phase], default=Phase.COMMIT)
    hold = models.CharField(max_length=8, choices=Hold, default=Hold.OPEN)
    physician = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="assignments")
    reserved_for = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="reserved")
    why = models.CharField(max_length=200, blank=True)  # why the holder got it, in one line (a msgid)
    priority = models.SmallIntegerField(default=0)
    turn = models.PositiveSmallIntegerField(
        default=2
    )  # 0 adjudication, 1 secondary, 2 primary: nearly done comes first
    language = models.CharField(max_length=16, blank=True)  # ISO 639-1; empty: any
    specialty = models.CharField(max_length=100, blank=True)  # in lower case; empty: any
    calibration = models.CharField(max_length=64, blank=True)  # the benchmark whose calibration must have been passed
    other_hospital = models.BooleanField(default=False)
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
        """What physicians see in place of the primary key."""
        return AssignmentId().to_url(self.pk)

    def new_token(self) -> uuid.UUID:
        """A fresh fencing token: whoever still has the old one is too late."""
        self.token = uuid.uuid4()
        return self.token


class Draft(models.Model):
    """What a physician has typed and not submitted. It belongs to the person, so that losing the lease loses nothing."""

    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="drafts")
    physician = models.ForeignKey(User, on_delete=models.PROTECT, related_name="drafts")
    phase = models.CharField(max_length=16, choices=[(p.value, p.value) for p in Phase])
    answers = models.JSONField()
    revision = models.PositiveIntegerField(default=1)
    saved_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["assignment", "physician", "phase"], name="draft_one_per_phase"),
        ]


class Review(models.Model):
    """What a physician submitted: written once. Taken back (`Retraction`), the next `attempt` follows it.

    `guideline` is the version of the guideline that was in force; `signed_as` and `meaning` are the name and the meaning
    (review, verification, adjudication) under which it was signed off.
    """

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="reviews")
    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="reviews")
    physician = models.ForeignKey(User, on_delete=models.PROTECT, related_name="reviews")
    role = models.CharField(max_length=16, choices=[(r.value, r.value) for r in Role])
    phase = models.CharField(max_length=16, choices=[(p.value, p.value) for p in Phase])
    answers = models.JSONField()
    verdict = models.CharField(max_length=8, choices=[(v.value, v.value) for v in Verdict])
    inadequate = models.BooleanField()
    submitted_at = models.DateTimeField()
    attempt = models.PositiveSmallIntegerField(default=1)
    guideline = models.ForeignKey("Guideline", on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    signed_as = models.CharField(max_length=200, blank=True)
    meaning = models.CharField(max_length=16, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["case", "role", "phase", "attempt"], name="review_one_per_turn"),
            models.CheckConstraint(condition=Q(verdict__in=[v.value for v in Verdict]), name="review_verdict_known"),
        ]
        indexes = [models.Index(fields=["physician", "-submitted_at"])]
        ordering = [F("id").asc()]


class Retraction(models.Model):
    """A submitted review taken back, by its author while nobody had built on it, or by an admin who sets a role back. It
    counts as not given."""

    review = models.OneToOneField(Review, on_delete=models.PROTECT, related_name="retraction")
    at = models.DateTimeField()


class FirstLook(models.Model):
    """What a physician answered before the traps were revealed: written once, and part of the review from then on."""

    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="first_looks")
    physician = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    answers = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["assignment", "physician"], name="first_look_once")]


class ActiveInterval(models.Model):
    """A stretch of time in which a physician really worked on a case: the page visible, the person not away."""

    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="intervals")
    physician = models.ForeignKey(User, on_delete=models.PROTECT, related_name="intervals")
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(ended_at__gte=F("began_at")), name="interval_forward"),
            models.UniqueConstraint(fields=["assignment", "physician", "began_at"], name="interval_once"),
        ]
        indexes = [models.Index(fields=["physician", "began_at"])]


class Declined(models.Model):
    """A physician will not take this case, with the reason; it is never offered to this physician again.

    Also written where an admin sets back a role whose holder has left (`claims.set_back`)."""

    class Reason(models.TextChoices):
        CONFLICT = "conflict", _("conflict of interest")
        FIELD = "field", _("not my field")
        LANGUAGE = "language", _("not my language")
        OTHER = "other", _("another reason")

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="declined")
    physician = models.ForeignKey(User, on_delete=models.PROTECT, related_name="declined")
    reason = models.CharField(max_length=10, choices=Reason)
    text = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["case", "physician"], name="declined_once")]


class Guideline(models.Model):
    """What reviewers of a stage are told, in Markdown. A change is a new version; reviews name the one they followed."""

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
    """A line of the discussion on a case, or a comment on a span of its text (`anchor`: block, turn, start, end, quote)."""

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="remarks")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="remarks")
    anchor = models.JSONField(null=True, blank=True)
    text = models.TextField()
    at = models.DateTimeField()

    class Meta:
        ordering = [F("id").asc()]


class Notice(models.Model):
    """Something that waits for one person: a mention, a problem reported, a discussion opened."""

    class Kind(models.TextChoices):
        MENTION = "mention", _("mention")
        PROBLEM = "problem", _("problem reported")
        DISCUSSION = "discussion", _("discussion opened")

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="notices")
    kind = models.CharField(max_length=12, choices=Kind)
    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="+")
    remark = models.ForeignKey(Remark, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    text = models.TextField(blank=True)
    at = models.DateTimeField()
    read_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["user", "read_at"])]


class CalibrationItem(models.Model):
    """A case with a known answer, from which each physician gets a copy of the own. `expected`: answers as JSON."""

    benchmark = models.CharField(max_length=64)
    title = models.CharField(max_length=300)
    spec = models.JSONField()
    expected = models.JSONField()
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField()


class Chained(models.Model):
    """A row of a chain: `hash` covers its content and `previous`, the hash of the row before it. See `review.chain`."""

    sequence = models.PositiveBigIntegerField(unique=True)  # 1, 2, 3 and so on, without a gap
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        abstract = True


class ChainHead(models.Model):
    """Where a chain ends, so that a cut-off end is seen. Writers queue up for this row. It can move but not go away.

    `key` makes pseudonyms of accounts (hexadecimal); it is no secret from whoever can read the accounts.
    """

    name = models.CharField(primary_key=True, max_length=16)  # the chain's model
    sequence = models.PositiveBigIntegerField()
    hash = models.CharField(max_length=64)
    key = models.CharField(max_length=64)


class Audit(models.Model):
    """One check of the chains: how far it has come, where the trail ended when it began, and what is wrong.

    `faults` are the first of them, `faults_count` is how many there are.
    """

    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    asked_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True, blank=True)  # the last sign of life of whoever checks
    ended_at = models.DateTimeField(null=True, blank=True)
    total = models.PositiveBigIntegerField(default=0)
    checked = models.PositiveBigIntegerField(default=0)
    reviews = models.PositiveBigIntegerField(default=0)
    unsealed = models.PositiveBigIntegerField(default=0)  # reviews from before the chain, whose event holds no digest
    sequence = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64, blank=True)
    faults = models.JSONField(default=list)
    faults_count = models.PositiveBigIntegerField(default=0)


class Event(Chained):
    """The trail of a case: append-only, by database trigger. `number`: its place among the events of the case, from 1."""

    class Kind(models.TextChoices):
        OPENED = "opened", _("opened")
        CLAIMED = "claimed", _("claimed")
        TAKEN_OVER = "taken-over", _("taken over after the lease ran out")
        RELEASED = "released", _("given back")
        EXPIRED = "expired", _("lease ran out")
        SUBMITTED = "submitted", _("submitted")
        MOVED = "moved", _("moved on")
        CLOSED = "closed", _("closed")
        WITHDRAWN = "withdrawn", _("withdrawn")
        PRIORITISED = "prioritised", _("priority changed")
        SPECIALTY = "specialty", _("specialty changed")
        REVEALED = "revealed", _("traps revealed")
        RETRACTED = "retracted", _("review taken back")
        DECLINED = "declined", _("declined")
        PROBLEM = "problem", _("problem reported")
        REASSIGNED = "reassigned", _("reassigned")
        REMARKED = "remarked", _("remarked")

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="events")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=Kind)
    actor = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    at = models.DateTimeField()
    data = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["case", "number"], name="event_numbered_once")]
        ordering = [F("id").asc()]


class PersonEvent(Chained):
    """What was done to an account, and by whom: append-only, by database trigger. The trail of a case is `Event`."""

    class Kind(models.TextChoices):
        MADE = "made", _("account made")
        EDITED = "edited", _("account changed")
        PAUSED = "paused", _("paused")
        RESUMED = "resumed", _("takes cases again")
        CLOSED = "closed", _("account closed")
        OPENED = "opened", _("account opened again")
        PASSWORD = "password", _("new password")
        SECOND_FACTOR = "second-factor", _("second factor taken away")
        OWN_FACTOR = "own-factor", _("second factor set up or removed")
        ROLE = "role", _("role changed")
        KEEPER = "keeper", _("access to Django's admin changed")
        FOUND = "found", _("account found without an event")
        CALIBRATION = "calibration", _("calibration given again")
        ITEM_MADE = "item-made", _("made a calibration case")
        ITEM_CHANGED = "item-changed", _("changed a calibration case")
        TERM = "term", _("added or changed a taxonomy term")

    person = models.ForeignKey(User, on_delete=models.PROTECT, related_name="account_events")
    kind = models.CharField(max_length=16, choices=Kind)
    actor = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    at = models.DateTimeField()
    data = models.JSONField(default=dict)

    class Meta:
        ordering = [F("id").asc()]
