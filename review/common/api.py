"""Shared floor of every app's API: permissions, authentication, paging and checks of requests."""

from collections.abc import Iterable, Mapping, Sized
from io import BytesIO
from typing import TYPE_CHECKING, Any, NoReturn

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
from rest_framework.serializers import DictField, ListField, Serializer, SlugRelatedField, ValidationError

from review.common.provider_accounts import is_confirmed
from review.common.second_factor import is_missing
from review.common.serializers import refuse_unknown_fields
from review.errors import NotAllowed, SecondFactorMissing
from review.rules import json_nesting, limits
from review.rules.permissions import Can, may_request
from review.rules.text import has_more_values, is_storable

if TYPE_CHECKING:  # DRF's settings name classes of this module: importing its views here would be circular
    from rest_framework.generics import GenericAPIView
    from rest_framework.views import APIView

TOO_MANY_VALUES = _("The JSON has too many values. Send it in several requests.")


def required_right(view: object, method: str) -> Can | None:
    """The right needed to call `method` on `view`, from the view's `can`.

    `can` is one right for all methods, or a mapping from method to right; a method that the mapping
    does not name needs the right of GET.
    """
    can: Can | Mapping[str, Can] | None = getattr(view, "can", None)
    if isinstance(can, Mapping):
        return can.get(method, can["GET"])
    return can


class HasRight(BasePermission):
    """Requires the right in the view's `can`; a view without one is closed to everybody."""

    message = NotAllowed.__doc__

    def has_permission(self, request: Request, view: "APIView") -> bool:
        can = required_right(view, request.method or "")
        return can is not None and may_request(request.user, can, request.method)


class BearerTokenAuthentication(TokenAuthentication):  # type: ignore[misc]
    """knox tokens; malformed ones (non-text bytes, NUL) fail with 401 instead of 500."""

    def authenticate_credentials(self, token: bytes) -> Any:
        if not token.isalnum() and not token.replace(b"_", b"").isalnum():
            raise AuthenticationFailed(_("Invalid token."))
        user, auth = super().authenticate_credentials(token)
        if is_missing(user):
            raise SecondFactorMissing
        if not is_confirmed(user):
            raise AuthenticationFailed(_("Sign in through your provider again: it has not confirmed you lately."))
        return user, auth


class SingleFormatNegotiation(DefaultContentNegotiation):
    """Always uses the view's first renderer and ignores Accept, as RFC 9110 (12.4.1) permits.

    Otherwise a client that accepts only `application/jsonl` could not receive an error as JSON.
    """

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, first.media_type


class StrictJSONParser(JSONParser):
    """Parses JSON within the limits on size and nesting, and only text that can be stored.

    Always decodes UTF-8, as JSON requires: the codecs that a Content-Type may name include
    decompressors.
    """

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise RequestDataTooBig
        try:
            json_nesting.check(body)
        except json_nesting.TooDeep:
            raise ParseError(_("The JSON is nested too deeply.")) from None
        # Brackets within texts count as well, but no text that is taken has that many.
        if body.count(b"[") + body.count(b"{") > limits.JSON_VALUES:
            raise ParseError(TOO_MANY_VALUES)
        value = super().parse(BytesIO(body), media_type, {**(parser_context or {}), "encoding": "utf-8"})
        if has_more_values(value, limits.JSON_VALUES):
            raise ParseError(TOO_MANY_VALUES)
        if not is_storable(value):
            raise ParseError(
                _("This JSON contains a character that cannot be stored (NUL, or half of a surrogate pair). Remove it.")
            )
        return value


class NewestFirst(CursorPagination):
    """Cursor paging by primary key: every page costs the same, and new rows do not shift pages."""

    ordering: str = "-pk"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def decode_cursor(self, request: Request) -> Cursor | None:
        cursor: Cursor | None = super().decode_cursor(request)
        if cursor is not None and cursor.position is not None:
            position = str(cursor.position)  # untrusted: part of the URL
            if not (position.isascii() and position.isdecimal() and int(position) <= limits.MAX_ID):
                raise NotFound(self.invalid_cursor_message)
        return cursor


class OldestFirst(NewestFirst):
    """Like `NewestFirst`, in the opposite order."""

    ordering = "pk"


def paginated_response(
    view: "GenericAPIView[Any]", rows: QuerySet[Any], shape: type[Serializer[Any]] | None = None
) -> Response:
    """One page of `rows`, using the view's pagination and, without a `shape`, its serializer."""
    page = view.paginate_queryset(rows) or []
    serializer: Any = shape or view.get_serializer_class()
    return view.get_paginated_response(serializer(page, many=True, context=view.get_serializer_context()).data)


class ShortListField(ListField):
    """A list whose length is checked before its entries, each of which may take a query."""

    def __init__(self, *, max_length: int = limits.ENTRIES, **options: Any) -> None:
        super().__init__(max_length=max_length, **options)

    def to_internal_value(self, data: Any) -> list[Any]:
        if isinstance(data, Sized):
            _check_entries(data, self.max_length or 0)
        return super().to_internal_value(data)


class ShortDictField(DictField):
    """Values by name, at most `limits.ENTRIES`, with short names."""

    def to_internal_value(self, data: Any) -> dict[Any, Any]:
        if isinstance(data, Mapping):
            _check_entries(data, limits.ENTRIES)
            if any(len(str(name)) > limits.NAME for name in data):
                raise ValidationError(_("A name has more than %(most)s characters.") % {"most": limits.NAME})
        return super().to_internal_value(data)


def _check_entries(data: Sized, most: int) -> None:
    if len(data) > most:
        raise ValidationError(_("More than %(most)s entries.") % {"most": most})


class NamedRowField(SlugRelatedField[Model]):
    """A row referred to by its name; unknown or impossible names are errors of this field (400)."""

    default_error_messages = {"does_not_exist": _("There is no {what} with this name: {value}")}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(slug_field="name", **kwargs)

    def to_internal_value(self, data: Any) -> Model:
        if not isinstance(data, str) or "\0" in data or len(data) > limits.NAME:
            self.fail("invalid")
        return super().to_internal_value(data)

    def fail(self, key: str, **values: Any) -> NoReturn:
        model: type[Model] = self.get_queryset().model  # type: ignore[union-attr]
        super().fail(key, what=model._meta.verbose_name, **values)


def validated_query(serializer_class: type[Serializer[Any]], request: Request) -> dict[str, Any]:
    """The validated query parameters of a request. Raises DRF's ValidationError."""
    serializer = serializer_class(data=request.query_params)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def validated_body(
    serializer_class: type[Serializer[Any]],
    request: Request,
    *,
    changed: Model | None = None,
) -> dict[str, Any]:
    """The validated body of a request; only the fields to change of the row `changed`, if given.

    Raises DRF's ValidationError, also for fields that do not exist, ParseError, UnsupportedMediaType.
    """
    serializer = serializer_class(changed, data=request.data, partial=changed is not None)
    refuse_unknown_fields(serializer, request.data)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)
