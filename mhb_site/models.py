"""Tables of the site itself."""

from django.db import models


class CacheEntry(models.Model):
    """One entry of Django's database cache, with the columns that its backend needs.

    Only the backend reads and writes it. As a model, the table is created and removed by `migrate`,
    not by the backend's own `createcachetable`.
    """

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "mhb_site_cache"

    def __str__(self) -> str:
        return self.cache_key
