"""The append-only, hash-chained audit trail."""

from django.db import models
from django.db.models import F
from django.utils.translation import gettext_lazy as _

from review.models.cases import Case
from review.models.people import User


class Chained(models.Model):
    """A row of a hash chain.

    `hash` covers the row's content and `previous`, the hash of the row before it
    (`review.audit.chain_entries`).
    """

    sequence = models.PositiveBigIntegerField(unique=True)  # 1, 2, 3, ... without gaps
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        abstract = True


class ChainHead(models.Model):
    """The last position of a chain, so that a truncated chain is detected.

    Writers lock this row to take turns. It can be updated but not deleted. `key` (hexadecimal)
    derives the pseudonyms of accounts; it is no secret from those who can read the accounts.
    """

    name = models.CharField(primary_key=True, max_length=16)  # the name of the chain's model
    sequence = models.PositiveBigIntegerField()
    hash = models.CharField(max_length=64)
    key = models.CharField(max_length=64)


class Audit(models.Model):
    """One verification of the chains: its progress, the end of the trail at its start, its faults.

    `faults` holds only the first ones; `faults_count` counts all.
    """

    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    asked_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True, blank=True)  # last heartbeat of the verifying process
    ended_at = models.DateTimeField(null=True, blank=True)
    total = models.PositiveBigIntegerField(default=0)
    checked = models.PositiveBigIntegerField(default=0)
    reviews = models.PositiveBigIntegerField(default=0)
    # Reviews older than the chain, without a digest in their event.
    unsealed = models.PositiveBigIntegerField(default=0)
    sequence = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64, blank=True)
    faults = models.JSONField(default=list)
    faults_count = models.PositiveBigIntegerField(default=0)


class Event(Chained):
    """An event in the trail of a case; append-only by database trigger.

    `number` counts the events of the case from 1.
    """

    class Kind(models.TextChoices):
        OPENED = "opened", _("opened")
        CLAIMED = "claimed", _("claimed")
        TAKEN_OVER = "taken-over", _("taken over after the reservation expired")
        RELEASED = "released", _("returned to queue")
        EXPIRED = "expired", _("reservation expired")
        SUBMITTED = "submitted", _("submitted")
        MOVED = "moved", _("moved to the next stage")
        CLOSED = "closed", _("closed")
        WITHDRAWN = "withdrawn", _("withdrawn")
        PRIORITISED = "prioritised", _("priority changed")
        SPECIALTY = "specialty", _("specialty changed")
        LANGUAGE = "language", _("language changed")
        REVEALED = "revealed", _("traps revealed")
        RETRACTED = "retracted", _("submission undone")
        REWORDED = "reworded", _("wording put to the first reviewer")
        ACCEPTED = "accepted", _("wording accepted by the first reviewer")
        OBJECTED = "objected", _("objection to the wording")
        LAPSED = "lapsed", _("time for an objection expired")
        DECLINED = "declined", _("declined")
        PROBLEM = "problem", _("problem reported")
        REASSIGNED = "reassigned", _("reassigned")
        REMARKED = "remarked", _("remarked")
        MERGED = "merged", _("merged with a duplicate")
        UNMERGED = "unmerged", _("merge undone")
        IMPORTED = "imported", _("answers imported as a draft")

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="events", db_index=False)
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=Kind)
    actor = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    at = models.DateTimeField()
    data = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["case", "number"], name="event_numbered_once")]
        ordering = [F("id").asc()]


class PersonEvent(Chained):
    """An event in the trail of an account, or of the site; append-only by database trigger."""

    class Kind(models.TextChoices):
        MADE = "made", _("account created")
        EDITED = "edited", _("account edited")
        PAUSED = "paused", _("paused")
        RESUMED = "resumed", _("case assignment resumed")
        CLOSED = "closed", _("account closed")
        OPENED = "opened", _("account reopened")
        PASSWORD = "password", _("password changed")
        INVITED = "invited", _("invitation link created")
        UNINVITED = "uninvited", _("invitation withdrawn")
        SECOND_FACTOR = "second-factor", _("second factor removed")
        OWN_FACTOR = "own-factor", _("second factor set up or removed")
        ROLE = "role", _("role changed")
        KEEPER = "keeper", _("access to Django's admin changed")
        FOUND = "found", _("account without any event found")
        CALIBRATION = "calibration", _("calibration cases offered again")
        ITEM_MADE = "item-made", _("calibration case created")
        ITEM_CHANGED = "item-changed", _("calibration case edited")
        TERM = "term", _("taxonomy term added or changed")
        FORM = "form", _("review form published")
        PROMPTS = "prompts", _("prompt set saved")
        EXPORTED = "exported", _("files exported")
        ENDPOINT = "endpoint", _("endpoint added or changed")
        LAUNCHED = "launched", _("batch or run launched")
        JOB = "job", _("batch or run changed")
        IMPORT = "import", _("import started or cancelled")
        FREEZE = "freeze", _("freezing of a release started or ended")
        ERRATUM = "erratum", _("sample reported, withdrawn or kept")
        SIGNED_IN = "signed-in", _("signed in")
        LINKED = "linked", _("linked to a sign-in provider")
        READ = "read", _("case read")
        ANONYMISED = "anonymised", _("person anonymised")
        ERASED = "erased", _("texts erased")
        ARCHIVED = "archived", _("archived or restored")
        COPIED = "copied", _("own data exported")
        SESSION = "session", _("session ended")
        WEBHOOK = "webhook", _("webhook added or changed")
        TOKEN = "token", _("API token created or revoked")

    person = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="account_events")
    kind = models.CharField(max_length=16, choices=Kind)
    actor = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    at = models.DateTimeField()
    data = models.JSONField(default=dict)

    class Meta:
        ordering = [F("id").asc()]
