"""What the API of every app shares: who may, how a caller is known, how lists are paged, what a request may carry."""

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db.models import Model, QuerySet
from django.utils.translation import gettext_lazy as _
from knox.auth import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed, NotFound, ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.parsers import JSONParser
from rest_framework.permissions import BasePermission
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer, SlugRelatedField

from review.errors import NotAllowed
from review.rules import json_nesting
from review.rules.permissions import Can, allowed
from review.rules.text import is_storable

if TYPE_CHECKING:  # the settings name classes of this module, and DRF reads them while it loads its views
    from rest_framework.generics import GenericAPIView
    from rest_framework.views import APIView

MAX_ID = 2**63 - 1  # what a primary key can hold


def required_right(view: object, method: str) -> Can | None:
    """The right that `method` of `view` wants: its `can`, which is one for all methods or a mapping from method to right.

    A method that the mapping does not name wants what GET wants.
    """
    can: Can | Mapping[str, Can] | None = getattr(view, "can", None)
    return can.get(method, can["GET"]) if isinstance(can, Mapping) else can


class Needs(BasePermission):
    """Asks `review.rules.permissions` whether the caller has the right in the view's `can`.

    A view without one is closed to all.
    """

    message = NotAllowed.__doc__

    def has_permission(self, request: Request, view: "APIView") -> bool:
        can = required_right(view, request.method or "")
        return can is not None and allowed(request.user, can)


class BearerToken(TokenAuthentication):  # type: ignore[misc]
    """knox's tokens; what cannot be one (bytes that are no text, NUL) is a wrong token, not a fault of ours."""

    def authenticate_credentials(self, token: bytes) -> Any:
        if not token.isalnum() and not token.replace(b"_", b"").isalnum():
            raise AuthenticationFailed(_("Invalid token."))
        return super().authenticate_credentials(token)


class OneFormat(DefaultContentNegotiation):
    """Each address answers in one format, whatever the Accept header says, as RFC 9110 (12.4.1) lets a server do.

    Otherwise a client that asks for `application/jsonl` could not be told in JSON what was wrong.
    """

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, first.media_type


class Json(JSONParser):
    """JSON of texts that can be stored, no longer than a body may be and no deeper than JSON may nest here.

    Always read as UTF-8, which JSON is: what a Content-Type may name besides includes decompressors.
    """

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = stream.read(most + 1)
        if len(body) > most:
            raise RequestDataTooBig
        try:
            json_nesting.check(body)
        except json_nesting.TooDeep:
            raise ParseError(_("The JSON is nested too deeply.")) from None
        found = super().parse(BytesIO(body), media_type, {**(parser_context or {}), "encoding": "utf-8"})
        if not is_storable(found):
            raise ParseError(
                _("This JSON contains a character that cannot be stored (NUL, or half of a surrogate pair). Remove it.")
            )
        return found


class NewestFirst(CursorPagination):
    """By primary key, so that page one thousand costs what page one costs and new rows shift nothing."""

    ordering: str = "-pk"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def decode_cursor(self, request: Request) -> Cursor | None:
        cursor: Cursor | None = super().decode_cursor(request)
        if cursor is not None and cursor.position is not None:
            position = str(cursor.position)  # untrusted: it came with the address
            if not (position.isascii() and position.isdecimal() and int(position) <= MAX_ID):
                raise NotFound(self.invalid_cursor_message)
        return cursor


class OldestFirst(NewestFirst):
    """As `NewestFirst`, the other way round."""

    ordering = "pk"


def page_of(view: "GenericAPIView[Any]", rows: QuerySet[Any]) -> Response:
    """One page of the rows, as the serializer and the pagination of the view's action say."""
    page = view.paginate_queryset(rows) or []
    return view.get_paginated_response(view.get_serializer(page, many=True).data)


class ByName(SlugRelatedField[Model]):
    """A row named in a request; a name that there is not is that field's mistake (400), and so is what no name can be."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(slug_field="name", **kwargs)

    def to_internal_value(self, data: Any) -> Model:
        if not isinstance(data, str) or "\0" in data:
            self.fail("invalid")
        return super().to_internal_value(data)


def checked_query(query: type[Serializer[Any]], request: Request) -> dict[str, Any]:
    """The checked query parameters of a request. Raises DRF's ValidationError."""
    found = query(data=request.query_params)
    found.is_valid(raise_exception=True)
    return dict(found.validated_data)


def checked_body(body: type[Serializer[Any]], request: Request) -> dict[str, Any]:
    """The checked body of a request. Raises DRF's ValidationError, ParseError, UnsupportedMediaType."""
    found = body(data=request.data)
    found.is_valid(raise_exception=True)
    return dict(found.validated_data)
