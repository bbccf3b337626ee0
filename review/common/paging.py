"""Long lists, a page at a time: the place in the list stands in the address, beside the filters."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """The rows of one page, and the addresses of its neighbours ('' where there is none)."""

    rows: list[M]
    newer: str
    older: str


def page_of(rows: QuerySet[M], request: HttpRequest, *, size: int = 50) -> Page[M]:
    """The page that `?cursor=` (rows to skip) asks for, with one query and no count; past the end, the last one."""
    asked = request.GET.get("cursor", "")
    start = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else 0
    found = list(rows[start : start + size + 1])
    if start and not found:  # what was here has left the list (an action, another filter): its last page
        start = max(rows.count() - 1, 0) // size * size
        found = list(rows[start : start + size])
    return Page(
        rows=found[:size],
        newer=_address(request, "cursor", max(start - size, 0)) if start else "",
        older=_address(request, "cursor", start + size) if len(found) > size else "",
    )


def _address(request: HttpRequest, name: str, place: object) -> str:
    """The address of this page at another place in the list; 0 is its beginning."""
    query = request.GET.copy()
    query.pop(name, None)
    if place:
        query[name] = str(place)
    return f"?{query.urlencode()}"


def keyset(
    rows: QuerySet[M], request: HttpRequest, *, size: int = 50, newest_first: bool = False, name: str = "cursor"
) -> Page[M]:
    """The page of `rows` that the address asks for, in one query, ordered by primary key whatever order `rows` had.

    The address has `name` = 'after-7' or 'before-7', 7 being a primary key; anything else is the first page. `older` leads
    on and `newer` back, also where the order is oldest first.
    """
    direction, _, key = request.GET.get(name, "").partition("-")
    at = int(key) if direction in ("after", "before") and key.isdecimal() and len(key) < 19 else None
    backwards = at is not None and direction == "before"
    if at is not None:
        rows = rows.filter(pk__gt=at) if backwards == newest_first else rows.filter(pk__lt=at)
    found = list(rows.order_by("pk" if backwards == newest_first else "-pk")[: size + 1])
    more = len(found) > size
    shown = found[:size]
    if backwards:
        shown.reverse()
    has_newer, has_older = (more, at is not None) if backwards else (at is not None, more)
    return Page(
        rows=shown,
        newer=_address(request, name, f"before-{shown[0].pk}") if shown and has_newer else "",
        older=_address(request, name, f"after-{shown[-1].pk}") if shown and has_older else "",
    )


def keyset_by(
    rows: QuerySet[M], request: HttpRequest, keys: tuple[str, str], *, size: int = 50, name: str = "cursor"
) -> Page[M]:
    """As `keyset`, oldest first, ordered by two columns of numbers that are unique together: 'after-7.12'.

    With an index on both the database begins at the place asked for, whatever it skips.
    """
    first, second = keys
    direction, _, place = request.GET.get(name, "").partition("-")
    parts = place.split(".")
    known = direction in ("after", "before") and len(parts) == 2
    at = [int(part) for part in parts] if known and all(p.isdecimal() and len(p) < 19 for p in parts) else None
    backwards = at is not None and direction == "before"
    if at is not None:
        way = "lt" if backwards else "gt"
        beyond = Q(**{f"{first}__{way}": at[0]}) | Q(**{first: at[0], f"{second}__{way}": at[1]})
        rows = rows.filter(beyond, **{f"{first}__{way}e": at[0]})  # which the index can begin with
    sign = "-" if backwards else ""
    found = list(rows.order_by(sign + first, sign + second)[: size + 1])
    more = len(found) > size
    shown = found[:size]
    if backwards:
        shown.reverse()
    has_newer, has_older = (more, at is not None) if backwards else (at is not None, more)

    def address(way: str, row: M) -> str:
        return _address(request, name, f"{way}-{getattr(row, first)}.{getattr(row, second)}")

    return Page(
        rows=shown,
        newer=address("before", shown[0]) if shown and has_newer else "",
        older=address("after", shown[-1]) if shown and has_older else "",
    )
