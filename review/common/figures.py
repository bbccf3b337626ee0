"""Figures over all cases and reviews: on a large site workers count them, and pages read them.

They are the same for everybody who may see their page, which decides that before it asks.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.core.cache import cache
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from review.models import ChainHead

LARGE = 20_000  # entries of the audit trail from which on figures are kept
KEPT = 180  # seconds for which a count is shown, so that pages find the one before while the next is made
ASKED = 900  # seconds for which workers go on counting what nobody asks for any more
EVERY = 60  # seconds between two counts

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Figure:
    name: str
    count: Callable[..., Any]
    variants: list[tuple[str, ...]] = field(default_factory=list)

    def key(self, arguments: tuple[object, ...]) -> str:
        return ":".join(["counted", self.name, *map(str, arguments)])

    def store(self, arguments: tuple[object, ...]) -> tuple[Any, datetime]:
        """The value, and when it was counted."""
        counted = self.count(*arguments), timezone.now()
        cache.set(self.key(arguments), counted, KEPT)
        return counted


_figures: list[_Figure] = []
_times: ContextVar[list[datetime] | None] = ContextVar("when what a page shows was counted", default=None)


def telling_age(page: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """A view whose page says how old its figures are (components/counted_at.html, at its end)."""

    @wraps(page)
    def view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        times: list[datetime] = []
        token = _times.set(times)
        setattr(request, "counted_at", lambda: min(times, default=None))  # noqa: B010 -- for the template
        try:
            return page(request, *args, **kwargs)
        finally:
            _times.reset(token)

    return view


def is_large() -> bool:
    """Whether figures are kept, from the length of the audit trail, which is one row a chain."""
    return int(ChainHead.objects.aggregate(n=Sum("sequence", default=0))["n"]) >= LARGE


def figure(*variants: tuple[str, ...]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function of short texts, given by position, count anew on a small site only.

    On a large one it returns what was counted at most KEPT seconds ago. Workers count the
    `variants` (arguments) again every minute, as long as somebody asks for them.
    """

    def decorate(count: Callable[P, T]) -> Callable[P, T]:
        kept = _Figure(f"{count.__module__}.{count.__qualname__}", count, list(variants))
        _figures.append(kept)

        @wraps(count)
        def read(*arguments: P.args, **options: P.kwargs) -> T:
            if not is_large():
                return count(*arguments, **options)
            key = kept.key(arguments)
            found = cache.get_many([key, f"{key}:asked"])
            if f"{key}:asked" not in found:
                cache.set(f"{key}:asked", True, ASKED)
            counted: tuple[T, datetime]
            if key in found:
                counted = found[key]
            else:
                counted = kept.store(arguments)
            value, counted_at = counted
            if (times := _times.get()) is not None:
                times.append(counted_at)
            return value

        return read

    return decorate


def are_due() -> bool:
    """Whether a worker should count now; answers yes once in EVERY seconds, to one who asks."""
    return is_large() and cache.add("figures:counted", True, EVERY)


def count_figures() -> int:
    """Count what pages have asked for lately; returns how many figures."""
    counted = 0
    for kept in _figures:
        for arguments in kept.variants:
            if cache.get(f"{kept.key(arguments)}:asked"):
                kept.store(arguments)
                counted += 1
    return counted
