"""Caches results computed from a finished run, until something that they depend on changes."""

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache as once
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.core.cache import cache
from django.db.models import Count
from django.utils.translation import get_language

from evaluation.models import Run, VoidVerdict
from generation.samples import errata

# Raise it when the same verdicts give other numbers, or when classes of cached values change.
VERSION = 17
LIFETIME = 30 * 24 * 3600  # seconds
T = TypeVar("T")


def is_over(run: Run) -> bool:
    """Whether the results of a run are final."""
    return run.finished_at is not None and run.status == Run.Status.FINISHED


def key_of(run: Run, name: str, *basis: Any) -> str:
    """The cache key of a result of a run, '' if it must not be cached.

    `name`: of the result. `basis`: everything else that it depends on.
    """
    if not is_over(run):
        return ""
    parts = [VERSION, *_state(run), *basis]
    return f"{name}:" + sha256(json.dumps(parts, sort_keys=True, default=_plain).encode()).hexdigest()


def read_marks(runs: Sequence[Run]) -> None:
    """Read for all of these runs, in two queries, what became known after they finished."""
    withdrawn = errata.withdrawn_by_release({run.release_id for run in runs})
    voids = dict(VoidVerdict.objects.filter(run__in=runs).order_by().values_list("run").annotate(n=Count("pk")))
    for run in runs:
        run.marks = withdrawn.get(run.release_id, 0), voids.get(run.pk, 0)


def _state(run: Run) -> tuple[Any, ...]:
    """All of a run that its results depend on; marks are read once, unless `read_marks` has."""
    if run.marks is None:
        read_marks([run])
    return run.pk, run.status, run.finished_at, run.rubrics_total, run.marks


def _is_unchanged(run: Run) -> bool:
    """Whether the run is still as it was when it was read."""
    stored = Run.objects.filter(pk=run.pk).first()
    return stored is not None and _state(stored) == _state(run)


def is_cached(key: str) -> bool:
    """Whether a value of `key` is cached."""
    return cache.has_key(key)


def cached(key: str, compute: Callable[[], T], *runs: Run) -> T:
    """The cached value of `key`, computed and cached if absent; without a key, only computed.

    `runs`: those of the key. A value is not cached if one of them has changed since the key was
    made, as it may be counted with a later withdrawal or void than the key says.
    """
    entry = None
    if key:
        entry = cache.get(key)
    if entry is None:
        entry = (compute(),)  # a tuple, since the value may be None
        if key and all(map(_is_unchanged, runs)):
            cache.set(key, entry, LIFETIME)
    value: T = entry[0]
    return value


def known(keys: Iterable[str]) -> dict[str, Any]:
    """The cached values of these keys; those that are absent are left out."""
    values = {}
    for key, (value,) in cache.get_many(list(keys)).items():
        values[key] = value
    return values


def cached_page(key: str, render: Callable[[], str], run: Run) -> str:
    """A part of a page in the reader's language, cached until templates or translations change.

    `key`: of `key_of` of the run; '' renders without caching.
    """
    if not key:
        return render()
    packed = cached(f"{key}:{get_language()}:{_edition()}", lambda: zlib.compress(render().encode()), run)
    return zlib.decompress(packed).decode()


@once
def _edition() -> str:
    """A digest that changes with templates and translations."""
    base = Path(settings.BASE_DIR)
    files = sorted([*base.glob("templates/**/*.html"), *base.glob("mhb_site/locale/*/LC_MESSAGES/*.mo")])
    stamps = [(str(file), file.stat().st_mtime_ns) for file in files]
    return sha256(repr(stamps).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """The value in a form that JSON can encode, the same in every process."""
    if isinstance(value, frozenset):
        return sorted(value)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return str(value)
