"""Paging of long lists; the position in the list is part of the URL, next to the filters."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest

from review.rules.text import whole_number

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """The rows of one page, and the URLs of the neighbouring pages ('' if there is none)."""

    rows: list[M]
    newer: str
    older: str


def offset_page(rows: QuerySet[M], request: HttpRequest, *, size: int = 50) -> Page[M]:
    """The page at `?cursor=` (rows to skip), in one query; past the end, the last page."""
    start = whole_number(request.GET.get("cursor", ""), 9) or 0
    fetched = list(rows[start : start + size + 1])
    if start and not fetched:  # the list has become shorter (an action, another filter): show its last page
        start = max(rows.count() - 1, 0) // size * size
        fetched = list(rows[start : start + size])
    return Page(
        rows=fetched[:size],
        newer=page_url(request, "cursor", max(start - size, 0)) if start else "",
        older=page_url(request, "cursor", start + size) if len(fetched) > size else "",
    )


def page_url(request: HttpRequest, name: str, position: object) -> str:
    """The URL of this list at another position; 0 is its beginning."""
    query = request.GET.copy()
    query.pop(name, None)
    if position:
        query[name] = str(position)
    return f"?{query.urlencode()}"


def keyset_page(
    rows: QuerySet[M], request: HttpRequest, *, size: int = 50, newest_first: bool = False, name: str = "cursor"
) -> Page[M]:
    """The page that the URL asks for, in one query, always ordered by primary key.

    The query parameter `name` is 'after-7' or 'before-7', with a primary key; anything else is the
    first page. `older` is the following page and `newer` the preceding one, even if the order is
    oldest first.
    """
    direction, _, key = request.GET.get(name, "").partition("-")
    boundary = whole_number(key) if direction in ("after", "before") else None
    backwards = boundary is not None and direction == "before"
    if boundary is not None:
        rows = rows.filter(pk__gt=boundary) if backwards == newest_first else rows.filter(pk__lt=boundary)
    fetched = list(rows.order_by("pk" if backwards == newest_first else "-pk")[: size + 1])
    has_more = len(fetched) > size
    page_rows = fetched[:size]
    if backwards:
        page_rows.reverse()
    has_newer, has_older = (has_more, boundary is not None) if backwards else (boundary is not None, has_more)
    return Page(
        rows=page_rows,
        newer=page_url(request, name, f"before-{page_rows[0].pk}") if page_rows and has_newer else "",
        older=page_url(request, name, f"after-{page_rows[-1].pk}") if page_rows and has_older else "",
    )


def keyset_page_by_columns(
    rows: QuerySet[M], request: HttpRequest, keys: tuple[str, str], *, size: int = 50, name: str = "cursor"
) -> Page[M]:
    """Like `keyset_page`, oldest first, ordered by two integer columns that are unique together.

    The position is written as 'after-7.12'. With an index on both columns the database starts right
    at the position, however many rows come before it.
    """
    first, second = keys
    direction, _, position = request.GET.get(name, "").partition("-")
    numbers = [number for part in position.split(".") if (number := whole_number(part)) is not None]
    boundary = numbers if direction in ("after", "before") and len(numbers) == 2 else None
    backwards = boundary is not None and direction == "before"
    if boundary is not None:
        lookup = "lt" if backwards else "gt"
        beyond = Q(**{f"{first}__{lookup}": boundary[0]}) | Q(
            **{first: boundary[0], f"{second}__{lookup}": boundary[1]}
        )
        rows = rows.filter(beyond, **{f"{first}__{lookup}e": boundary[0]})  # redundant, but the index can use it
    sign = "-" if backwards else ""
    fetched = list(rows.order_by(sign + first, sign + second)[: size + 1])
    has_more = len(fetched) > size
    page_rows = fetched[:size]
    if backwards:
        page_rows.reverse()
    has_newer, has_older = (has_more, boundary is not None) if backwards else (boundary is not None, has_more)

    def url_at(side: str, row: M) -> str:
        return page_url(request, name, f"{side}-{getattr(row, first)}.{getattr(row, second)}")

    return Page(
        rows=page_rows,
        newer=url_at("before", page_rows[0]) if page_rows and has_newer else "",
        older=url_at("after", page_rows[-1]) if page_rows and has_older else "",
    )
