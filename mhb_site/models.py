"""What the site itself keeps in the database."""

from django.db import models


class CacheEntry(models.Model):
    """One entry of Django's cache, in the columns that its database backend asks for; nothing else reads or writes it.

    The backend has a command of its own that makes such a table. As a model it comes with `migrate`, and goes with it.
    """

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "mhb_site_cache"

    def __str__(self) -> str:
        return self.cache_key
