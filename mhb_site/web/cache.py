"""Django's cache in the database, whose values are signed: only what this site stored is read.

Values are pickles, which can run code when they are read. A person who can write to the table, but
does not know the site's secret, must not be able to run any.
"""

import pickle
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.db import DatabaseCache
from django.core.signing import BadSignature, Signer
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from mhb_site.models import CacheEntry


class _Pickle:
    """The serializer of `Signer`, which checks the signature before it reads a value."""

    @staticmethod
    def dumps(value: Any) -> bytes:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    @staticmethod
    def loads(data: bytes) -> Any:
        return pickle.loads(data)  # noqa: S301 - signed by this site


def _signer(key: str) -> Signer:
    return Signer(salt=f"mhb_site.cache:{key}")  # a value of another key is refused


class SignedDatabaseCache(DatabaseCache):
    """An entry that this site did not sign for its key counts as absent."""

    def get_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        names = {self.make_and_validate_key(key, version=version): key for key in keys}
        values: dict[str, Any] = {}
        fresh = CacheEntry.objects.filter(cache_key__in=names, expires__gte=timezone.now())
        for name, stored in fresh.values_list("cache_key", "value"):
            try:
                values[names[name]] = _signer(name).unsign_object(stored, serializer=_Pickle)
            except BadSignature:
                continue
        return values

    def _base_set(self, mode: str, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT) -> bool:
        moment, now = self.get_backend_timeout(timeout), timezone.now()
        if moment is None:
            expires = datetime.max.replace(tzinfo=UTC)
        else:
            expires = datetime.fromtimestamp(moment, UTC)
        expires = expires.replace(microsecond=0)
        rows = CacheEntry.objects.filter(cache_key=key)
        if (count := CacheEntry.objects.count()) > self._max_entries:
            with connection.cursor() as cursor:
                self._cull(connection.alias, cursor, now, count)  # type: ignore[attr-defined]
        try:
            with transaction.atomic():
                if mode == "touch":
                    return rows.update(expires=expires) > 0
                entry = CacheEntry(key, _signer(key).sign_object(value, serializer=_Pickle), expires)
                if mode == "add":
                    rows.filter(expires__lt=now).delete()
                    entry.save(force_insert=True)
                else:
                    CacheEntry.objects.bulk_create(
                        [entry], update_conflicts=True, unique_fields=["cache_key"], update_fields=["value", "expires"]
                    )
        except DatabaseError:  # as Django's: another process stored it first, or the database is busy
            return False
        return True
