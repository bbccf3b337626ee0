"""Frozen releases."""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from generation import errors
from generation.models.samples import Sample, SampleVersion
from generation.models.work import Work, work_constraints
from review.models import User
from review.rules.state_machine import NOT_SAMPLED, Ground, State


class Release(models.Model):
    """A frozen, versioned, checksummed set of approved samples.

    A database trigger forbids changes.
    """

    name = models.SlugField(max_length=100)
    version = models.PositiveIntegerField()
    benchmark = models.CharField(max_length=64)
    samples_count = models.PositiveIntegerField()
    rubrics_count = models.PositiveIntegerField()
    counts = models.JSONField()  # facet -> value -> {"samples": n, "rubrics": n}
    generators = models.JSONField()  # "model (endpoint)"
    provenance = models.JSONField(default=dict)  # how samples were made: name -> value -> samples
    # Why samples were approved: ground -> samples; {} in releases frozen before this was counted.
    grounds = models.JSONField(default=dict)
    # Who reviewed: {"physicians": accounts, "simulated": simulated accounts among them,
    # "simulated_samples": samples reviewed by those}; {} in releases frozen before this was
    # counted.
    reviewers = models.JSONField(default=dict)
    sources = models.JSONField()  # name, label, licence, citation, restrictions, samples
    simulated = models.BooleanField()
    sha256 = models.CharField(max_length=64)  # of the JSON Lines export
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    trail_end = models.PositiveBigIntegerField(default=0)  # the last event of the audit trail at that time
    # The chosen composition (`Composition.as_json`); {} in releases frozen before there was a
    # choice.
    composition = models.JSONField(default=dict)
    excluded = models.JSONField(default=dict)  # reason -> samples left out for it
    about = models.JSONField(default=dict)  # content of the data card beyond the counts
    canary = models.CharField(max_length=64, blank=True)  # in every file; the same for all versions of a name
    held_out_count = models.PositiveIntegerField(default=0)  # of `samples_count`
    # Of the JSON Lines of the held-out samples; `sha256` then covers the others.
    held_out_sha256 = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "version"], name="release_versioned_once")]
        ordering = [F("id").desc()]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    @property
    def public_count(self) -> int:
        """Of `samples_count`: those that are not held out."""
        return self.samples_count - self.held_out_count

    @property
    def size(self) -> str:
        """How many samples, in the English of cards and citations: "26 public of 36 samples"."""
        if not self.held_out_count:
            return f"{self.samples_count} samples"
        return f"{self.public_count} public of {self.samples_count} samples"

    @property
    def reference(self) -> str:
        """How commands and the API name it."""
        return f"{self.name}@{self.version}"

    @property
    def unreviewed(self) -> int:
        """How many of its samples no physician has reviewed."""
        return int(self.grounds.get(Ground.UNREVIEWED, 0))

    @property
    def statuses(self) -> dict[str, int]:
        """How many of its samples physicians approved, and how many were not drawn for review."""
        return {State.APPROVED.value: self.reviewed, NOT_SAMPLED: self.unreviewed}

    @property
    def simulated_samples(self) -> int:
        """How many of its samples were reviewed by simulated reviewers, alone or among others."""
        return int(self.reviewers.get("simulated_samples", 0))

    @property
    def reviewed(self) -> int:
        """How many of its samples physicians have reviewed."""
        return self.samples_count - self.unreviewed


class Freeze(Work):
    """The freezing of one release. A worker may restart it at any time, as nothing is stored early.

    `read` of `total` samples have been read; the release is stored in one transaction at the end.
    """

    name = models.CharField(max_length=100)
    benchmark = models.CharField(max_length=64)
    composition = models.JSONField(default=dict)
    card = models.JSONField(default=dict, blank=True)  # of the data card: name of a field -> text
    total = models.PositiveIntegerField(default=0)
    read = models.PositiveIntegerField(default=0)
    release = models.OneToOneField(Release, on_delete=models.PROTECT, null=True, blank=True, related_name="freeze")
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            *work_constraints("freeze"),
            models.CheckConstraint(
                condition=Q(status="done", release__isnull=False) | (~Q(status="done") & Q(release__isnull=True)),
                name="freeze_done_iff_released",
            ),
        ]

    @property
    def reason(self) -> str:
        """Why it failed, in the reader's language."""
        kind = getattr(errors, self.error, None)
        if kind:
            return str(kind(self.detail))
        return self.detail


class ReleasedSample(models.Model):
    """A sample as released. `exported` is the JSON object of the export, without its rubrics."""

    class Split(models.TextChoices):
        PUBLIC = "public", _("public")
        HELD_OUT = "held-out", _("held out")

    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="samples", db_index=False)
    position = models.PositiveIntegerField()
    version = models.ForeignKey(SampleVersion, on_delete=models.PROTECT, related_name="released")
    key = models.CharField(max_length=100)
    task = models.CharField(max_length=40)
    exported = models.JSONField()
    split = models.CharField(max_length=8, choices=Split, default=Split.PUBLIC)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["release", "position"], name="released_sample_positioned_once"),
            models.UniqueConstraint(fields=["release", "key"], name="released_sample_once"),
        ]


class ReleasedRubric(models.Model):
    """A rubric as released: in the wording and with the severity that physicians approved.

    A rubric that nobody reviewed is released as generated.
    """

    sample = models.ForeignKey(ReleasedSample, on_delete=models.PROTECT, related_name="rubrics", db_index=False)
    key = models.CharField(max_length=16)
    criterion = models.TextField()
    traps = models.JSONField(default=list)
    severity = models.CharField(max_length=40, blank=True)
    # 'must' or 'must not'; '' if unspecified, or in releases frozen before it was stored.
    polarity = models.CharField(max_length=8, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["sample", "key"], name="released_rubric_keyed_once")]


class Facet(models.Model):
    """A value by which released rubrics are counted (``subtype`` = ``A1``).

    A rubric can have several facets of the same name.
    """

    rubric = models.ForeignKey(ReleasedRubric, on_delete=models.PROTECT, related_name="facets", db_index=False)
    name = models.CharField(max_length=40)
    value = models.CharField(max_length=100)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rubric", "name", "value"], name="facet_once_per_rubric")]
        indexes = [models.Index(fields=["name", "value"])]


class Erratum(models.Model):
    """A finding about an approved sample; the latest one is in force.

    A database trigger forbids changes.

    REPORTED: somebody with access to the sample reported that it is wrong. DISMISSED: an admin
    found that it is not wrong. WITHDRAWN: it is wrong; this is final.
    """

    class Kind(models.TextChoices):
        REPORTED = "reported", _("reported")
        DISMISSED = "dismissed", _("report dismissed")
        WITHDRAWN = "withdrawn", _("withdrawn")

    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, related_name="errata")
    kind = models.CharField(max_length=9, choices=Kind)
    reason = models.TextField()
    actor = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["reported", "dismissed", "withdrawn"]) & ~Q(reason=""), name="erratum_whole"
            ),
            models.UniqueConstraint(fields=["sample"], condition=Q(kind="withdrawn"), name="erratum_withdrawn_once"),
        ]
