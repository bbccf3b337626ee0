"""Images that questions are about."""

from django.db import models


class StoredImage(models.Model):
    """An image in the data folder: JPEG or PNG, upright, without metadata.

    Records, samples, messages and the ledger refer to it by `sha256`.
    """

    sha256 = models.CharField(max_length=64, unique=True)  # of the stored file
    original = models.CharField(max_length=64, db_index=True)  # SHA-256 of the file it was first imported from
    media_type = models.CharField(max_length=40)
    width = models.PositiveIntegerField()
    height = models.PositiveIntegerField()
    size = models.PositiveIntegerField()  # bytes
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.sha256
