"""Tables of the site itself."""

from django.db import models
from knox.models import AuthToken


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


class TokenName(models.Model):
    """What its owner calls an API token, to know later which program uses it."""

    token = models.OneToOneField(AuthToken, on_delete=models.CASCADE, primary_key=True, related_name="named")
    name = models.CharField(max_length=80)

    def __str__(self) -> str:
        return self.name
