"""Imported data sets and their records."""

from pathlib import Path

from django.conf import settings
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
    archived_at = models.DateTimeField(null=True, blank=True)  # lists and choices leave it out since

    def __str__(self) -> str:
        return self.name


class SourceRecord(models.Model):
    """One record of a source, under the id it has there.

    `private` is stored but never shown, exported or sent to a model.

    `language`: '' if the detector was not sure (generation.common.languages). Its confidence is
    null if the detector was not used.

    `match`: the digest of the text by which records of other sources refer to this one; '' if none
    can. The records that this one refers to are in `refers`, resolved on every read, so that the
    order in which sources are imported does not matter.

    `shares`: what several records may have in common, each as KIND:DIGEST, separated by spaces:
    images, a document, a patient. Samples of records that share any of it, directly or through
    others, are one cluster in every interval. '' if nothing is known.

    `revision`: an import that updates adds a corrected record as the next one, which is then the
    `latest`; what was made from the one before keeps it.
    """

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="records", db_index=False)
    external_id = models.CharField(max_length=200)
    revision = models.PositiveIntegerField(default=1)
    latest = models.BooleanField(default=True)
    title = models.CharField(max_length=300)
    language = models.CharField(max_length=16, blank=True)
    language_confidence = models.FloatField(null=True, blank=True)
    content = models.JSONField()
    private = models.JSONField(default=dict, blank=True)
    match = models.CharField(max_length=64, blank=True)
    shares = models.TextField(blank=True, default="", db_default="")
    archived_at = models.DateTimeField(null=True, blank=True)  # no batch draws it since

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "external_id", "revision"], name="record_once_per_source"),
            models.UniqueConstraint(
                fields=["source", "external_id"], condition=models.Q(latest=True), name="record_latest_once"
            ),
        ]
        indexes = [models.Index(fields=["match"], name="record_match")]

    def __str__(self) -> str:
        return self.external_id


class Reference(models.Model):
    """A reference to any record of `format` whose `match` is `digest`; there may be none (yet)."""

    record = models.ForeignKey(SourceRecord, on_delete=models.CASCADE, related_name="refers", db_index=False)
    format = models.CharField(max_length=40)
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["record", "format", "digest"], name="reference_once")]
        indexes = [models.Index(fields=["digest", "format", "record"], name="reference_digest")]


class NamedValues(models.Model):
    """A chunk of the values that records of a source have under one name: [record, text, ...].

    They are stored so that another record's value can be drawn; one row per value would be dozens
    of rows per record. The values under one name are numbered from 0 in import order; this chunk
    holds numbers `first` up to, but not including, `end`. `name`: the digest of the name.
    """

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=64)
    first = models.PositiveIntegerField()
    end = models.PositiveIntegerField()
    values = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "name", "first"], name="named_values_place")]


class SavedMapping(models.Model):
    """Which column of a table is which field, under a name; imports keep a copy of it."""

    name = models.SlugField(max_length=100, unique=True)
    mapping = models.JSONField()
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class ImportStatus(models.TextChoices):
    """The statuses of all work, plus cancelled by a user: records added until then stay."""

    QUEUED = Work.Status.QUEUED.value, Work.Status.QUEUED.label
    RUNNING = Work.Status.RUNNING.value, Work.Status.RUNNING.label
    DONE = Work.Status.DONE.value, Work.Status.DONE.label
    FAILED = Work.Status.FAILED.value, Work.Status.FAILED.label
    CANCELLED = "cancelled", _("cancelled")


class Import(Work):
    """The import of one file into a source.

    Reading a file again adds no record twice, so a killed import simply starts over.
    """

    status = models.CharField(max_length=10, choices=ImportStatus, default=ImportStatus.QUEUED)
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="imports")
    file_name = models.CharField(max_length=300)
    path = models.CharField(max_length=1000)
    uploaded = models.BooleanField(default=False)  # a file of ours, deleted after it was read
    layout = models.CharField(max_length=40, blank=True)
    mapping = models.JSONField(default=dict, blank=True)  # of a table: `TableMapping`
    rows = models.PositiveIntegerField(default=0)
    added = models.PositiveIntegerField(default=0)
    same = models.PositiveIntegerField(default=0)
    differs = models.PositiveIntegerField(default=0)  # rows with a known id and another content
    updates = models.BooleanField(default=False)  # take these over as new revisions
    refused = models.PositiveIntegerField(default=0)
    facets = models.JSONField(default=dict)  # name -> value -> good rows
    # format -> good rows that refer to a record of that format, or that one refers to
    joined = models.JSONField(default=dict)
    # kind -> {n, rows: the first of them}; null until the file is read (`sources.oddities`)
    oddities = models.JSONField(null=True, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = work_constraints("import", ImportStatus)

    @property
    def file(self) -> Path:
        """The file to read: an upload lies in this site's own folder, also after a move."""
        if self.uploaded:
            return Path(settings.MEDIA_ROOT) / Path(self.path).name
        return Path(self.path)


class ImportRefusal(models.Model):
    """A rejected row: its place in the file and the reason.

    `differs`: it was not rejected, but has a known id and another content.
    """

    run = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="refusals")
    where = models.CharField(max_length=100)
    reason = models.TextField()
    differs = models.BooleanField(default=False)
