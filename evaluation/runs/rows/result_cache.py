"""Keeps what is costly to work out of a finished run, until something changes that it rests on."""

import json
import zlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache as once
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.core.cache import cache
from django.utils.translation import get_language

from evaluation.models import Run

VERSION = 5  # of how numbers are made: raise it where the same verdicts would give others
DAYS = 30 * 24 * 3600  # seconds
T = TypeVar("T")


def is_over(run: Run) -> bool:
    """Whether what is worked out of a run stays as it is."""
    return run.finished_at is not None and run.status == Run.Status.FINISHED


def key_of(run: Run, what: str, *on: Any) -> str:
    """The key under which something of a run is kept, '' where it must not be. `on`: what else it rests on."""
    if not is_over(run):
        return ""
    rests = [VERSION, run.pk, run.finished_at, run.rubrics_total, *on]
    return f"{what}:" + sha256(json.dumps(rests, sort_keys=True, default=_plain).encode()).hexdigest()


def keep(key: str, make: Callable[[], T]) -> T:
    """What is kept under the key, else made now and kept; with no key just made."""
    found = cache.get(key) if key else None
    if found is None:
        found = (make(),)  # None may be what is kept
        if key:
            cache.set(key, found, DAYS)
    kept: T = found[0]
    return kept


def keep_page(key: str, render: Callable[[], str]) -> str:
    """A part of a page in the reader's language: it is kept as long as neither templates nor translations change."""
    if not key:
        return render()
    packed = keep(f"{key}:{get_language()}:{_edition()}", lambda: zlib.compress(render().encode()))
    return zlib.decompress(packed).decode()


@once
def _edition() -> str:
    """Changes with the templates and the translations."""
    base = Path(settings.BASE_DIR)
    files = sorted([*base.glob("templates/**/*.html"), *base.glob("mhb_site/locale/*/LC_MESSAGES/*.mo")])
    return sha256(repr([(str(file), file.stat().st_mtime_ns) for file in files]).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """What JSON does not have, the same in every process."""
    if isinstance(value, frozenset):
        return sorted(value)
    return {each.name: getattr(value, each.name) for each in fields(value)} if is_dataclass(value) else str(value)
