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
    newer, older = "", ""
    if start:
        newer = page_url(request, "cursor", max(start - size, 0))
    if len(fetched) > size:
        older = page_url(request, "cursor", start + size)
    return Page(rows=fetched[:size], newer=newer, older=older)


def page_url(request: HttpRequest, name: str, position: object) -> str:
    """The URL of this list at another position; 0 is its beginning."""
    query = request.GET.copy()
    query.pop(name, None)
    if position:
        query[name] = str(position)
    return f"?{query.urlencode()}"


def keyset_page(
    rows: QuerySet[M],
    request: HttpRequest,
    keys: tuple[str, ...] = ("pk",),
    *,
    size: int = 50,
    newest_first: bool = False,
    name: str = "cursor",
) -> Page[M]:
    """The page that the URL asks for, in one query, ordered by one or two columns of integers.

    The query parameter `name` is 'after-7' or 'before-7', with a primary key, or 'after-7.12' of
    two columns that are unique together; anything else is the first page. `older` is the following
    page and `newer` the preceding one, even if the order is oldest first. With an index on the
    columns the database starts right at the position, however many rows come before it.
    """
    direction, _, position = request.GET.get(name, "").partition("-")
    numbers = [whole_number(part) for part in position.split(".")]
    boundary = None
    if direction in ("after", "before") and len(numbers) == len(keys) and None not in numbers:
        boundary = numbers
    backwards = boundary is not None and direction == "before"
    descending = backwards != newest_first
    if boundary is not None:
        lookup = "gt"
        if descending:
            lookup = "lt"
        beyond = Q(**{f"{keys[-1]}__{lookup}": boundary[-1]})
        if len(keys) > 1:
            first, value = keys[0], boundary[0]
            beyond = Q(**{f"{first}__{lookup}": value}) | Q(beyond, **{first: value})
            rows = rows.filter(**{f"{first}__{lookup}e": value})  # redundant, but the index can use it
        rows = rows.filter(beyond)
    order = [*keys]
    if descending:
        order = [f"-{key}" for key in keys]
    fetched = list(rows.order_by(*order)[: size + 1])
    has_more, page_rows = len(fetched) > size, fetched[:size]
    has_newer, has_older = boundary is not None, has_more
    if backwards:
        page_rows.reverse()
        has_newer, has_older = has_more, boundary is not None

    def url_at(side: str, row: M) -> str:
        place = ".".join(str(getattr(row, key)) for key in keys)
        return page_url(request, name, f"{side}-{place}")

    newer, older = "", ""
    if page_rows and has_newer:
        newer = url_at("before", page_rows[0])
    if page_rows and has_older:
        older = url_at("after", page_rows[-1])
    return Page(rows=page_rows, newer=newer, older=older)
