"""The cache in the database reads only what this site stored."""

import base64
import pickle
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.core.signing import Signer

from mhb_site.models import CacheEntry

pytestmark = pytest.mark.usefixtures("db")


class Harmful:
    """Touches a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


@pytest.mark.both
def test_values_come_back_whatever_their_type() -> None:
    value = ({"rates": [0.5, None], "when": datetime(2026, 1, 2, tzinfo=UTC)}, frozenset({1}))
    cache.set("a", value)
    assert cache.get("a") == value
    cache.set("a", None)
    assert cache.get("a", "absent") is None


def test_a_pickle_that_the_site_did_not_sign_is_never_read(tmp_path: Path) -> None:
    harm = pickle.dumps(Harmful(tmp_path / "ran"))
    cache.set("a", 1)
    cache.set("b", 2)
    signed_for_b = CacheEntry.objects.get(cache_key=":1:b").value
    stored = (
        base64.b64encode(harm).decode(),
        base64.urlsafe_b64encode(harm).decode() + ":" + signed_for_b.partition(":")[2],
        Signer(key="another site's", salt="mhb_site.cache::1:a").sign(base64.urlsafe_b64encode(harm).decode()),
        signed_for_b,
        "",
    )
    for value in stored:
        CacheEntry.objects.filter(cache_key=":1:a").update(value=value)
        assert cache.get("a", "absent") == "absent"
        assert cache.get_many(["a", "b"]) == {"b": 2}
    assert not (tmp_path / "ran").exists()


@pytest.mark.both
def test_only_the_first_adds_until_the_entry_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.add("a", 1, 10)
    assert not cache.add("a", 2, 10)
    assert cache.get("a") == 1
    then = time.time() + 20
    monkeypatch.setattr("time.time", lambda: then)
    monkeypatch.setattr("django.utils.timezone.now", lambda: datetime.fromtimestamp(then, UTC))
    assert cache.get("a") is None
    assert not cache.touch("missing", 10)
    assert cache.add("a", 3, 10)
    assert cache.touch("a", None)
    assert cache.get("a") == 3
