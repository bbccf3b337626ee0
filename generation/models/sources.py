"""Imported data sets and their records."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from generation.models.work import Work, work_constraints
from review.models import User


class Source(models.Model):
    """An imported data set, with its licence and citation."""

    name = models.SlugField(max_length=100, unique=True)
    format = models.CharField(max_length=40)
    label = models.CharField(max_length=200)
    licence = models.CharField(max_length=200)
    citation = models.TextField()
    restrictions = models.TextField(blank=True)
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class SourceRecord(models.Model):
    """One record of a source under its own id. `private` is kept and never shown, exported or sent to a model.

    `language`: '' where the detector was not sure (generation.common.languages). Its confidence is null where it was not asked.

    `match`: the digest of the text by which records of other sources refer to this one; '' where none can. Whom it refers to
    itself is in `refers`, resolved whenever it is read: so it does not matter which source was imported first.
    """

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="records")
    external_id = models.CharField(max_length=200)
    title = models.CharField(max_length=300)
    language = models.CharField(max_length=16, blank=True)
    language_confidence = models.FloatField(null=True, blank=True)
    content = models.JSONField()
    private = models.JSONField(default=dict, blank=True)
    match = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "external_id"], name="record_once_per_source")]
        indexes = [models.Index(fields=["match"], name="record_match")]

    def __str__(self) -> str:
        return self.external_id


class Reference(models.Model):
    """That a record refers to whatever record of a format has this `match`, whether or not there is one (yet)."""

    record = models.ForeignKey(SourceRecord, on_delete=models.CASCADE, related_name="refers", db_index=False)
    format = models.CharField(max_length=40)
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["record", "format", "digest"], name="reference_once")]
        indexes = [models.Index(fields=["digest", "format", "record"], name="reference_digest")]


class NamedValues(models.Model):
    """Some of what records of a source say under one name, so that another record's value can be drawn: [record, text, ...].

    A row for each value would be dozens for each record. Those under one name are numbered from 0 in the order in which they
    were imported; here are those from `first` to before `end`. `name`: the digest of the name.
    """

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=64)
    first = models.PositiveIntegerField()
    end = models.PositiveIntegerField()
    values = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "name", "first"], name="named_values_place")]


class ImportStatus(models.TextChoices):
    """Those of all work, and cancelled by somebody: what was added until then stays."""

    QUEUED = Work.Status.QUEUED.value, Work.Status.QUEUED.label
    RUNNING = Work.Status.RUNNING.value, Work.Status.RUNNING.label
    DONE = Work.Status.DONE.value, Work.Status.DONE.label
    FAILED = Work.Status.FAILED.value, Work.Status.FAILED.label
    CANCELLED = "cancelled", _("cancelled")


class Import(Work):
    """The reading of one file into a source. Reading it again adds nothing twice, so a killed import simply starts over."""

    status = models.CharField(max_length=10, choices=ImportStatus, default=ImportStatus.QUEUED)
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="imports")
    file_name = models.CharField(max_length=300)
    path = models.CharField(max_length=1000)
    uploaded = models.BooleanField(default=False)  # ours to delete when it has been read
    layout = models.CharField(max_length=40, blank=True)
    rows = models.PositiveIntegerField(default=0)
    added = models.PositiveIntegerField(default=0)
    known = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)
    facets = models.JSONField(default=dict)  # name -> value -> good rows
    joined = models.JSONField(default=dict)  # format -> good rows that a record of it refers to, or that refer to one
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = work_constraints("import", ImportStatus)


class ImportRefusal(models.Model):
    """One bad row: its place in the file and why it was refused."""

    run = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="refusals")
    where = models.CharField(max_length=100)
    reason = models.TextField()
