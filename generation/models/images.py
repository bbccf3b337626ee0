"""Images that questions are about."""

from django.db import models


class StoredImage(models.Model):
    """An image that is kept in the data folder: JPEG or PNG, upright, without metadata.

    Wherever else an image is named (records, samples, messages, the ledger), it is by this `sha256`.
    """

    sha256 = models.CharField(max_length=64, unique=True)  # of the file that is kept
    original = models.CharField(max_length=64, db_index=True)  # SHA-256 of the file that first came in as this image
    media_type = models.CharField(max_length=40)
    width = models.PositiveIntegerField()
    height = models.PositiveIntegerField()
    size = models.PositiveIntegerField()  # bytes
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.sha256
