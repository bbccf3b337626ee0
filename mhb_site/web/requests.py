"""Refuses requests before any view sees them, for pages and API alike."""

from collections.abc import Callable, Mapping
from typing import Any

from django.core.handlers.wsgi import WSGIRequest
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.multipartparser import MultiPartParserError
from django.http.request import MediaType
from django.utils.functional import cached_property
from django.utils.http import parse_header_parameters
from django.utils.translation import gettext as _

from mhb_site.server.bodies import MAX_BODY, MAX_UNKNOWN_BODY, UPLOADS, may_upload
from mhb_site.web.errors import refusal
from review.rules import limits
from review.rules.text import is_storable

# Bytes of path and query; the web server's own limit must be higher, or it would answer with its
# own message.
MAX_URL_LENGTH = 4096
ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii")


# What Python's parser of header parameters raises on malformed ones (RFC 2231): unknown charsets,
# numbers without end, continuations with and without numbers.
MALFORMED = (LookupError, TypeError, ValueError)


class Utf8WSGIRequest(WSGIRequest):
    """A request that is decoded as UTF-8 whatever it declares, and whose headers may be malformed.

    Django fails on encodings that are not text encodings, and on parameters that cannot be parsed.
    """

    is_malformed = False  # its Content-Type or Content-Length

    def _set_content_type_params(self, meta: Mapping[str, Any]) -> None:
        length = meta.get("CONTENT_LENGTH") or "0"
        self.is_malformed = not (length.isascii() and length.isdecimal() and len(length) < 20)
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except MALFORMED:
            self.content_type, self.content_params, self.is_malformed = "", {}, True

    @cached_property
    def accepted_types(self) -> list[MediaType]:
        """As Django's; a header that cannot be parsed accepts everything, as if it were absent."""
        try:
            return super().accepted_types
        except MALFORMED:
            return [MediaType("*/*")]

    def parse_file_upload(self, META: Mapping[str, Any], post_data: Any) -> Any:
        """Parse a multipart body. Raises MultiPartParserError (400)."""
        try:
            return super().parse_file_upload(META, post_data)
        except MALFORMED as error:
            raise MultiPartParserError("A part has a malformed header.") from error


class RequestsMiddleware:
    """Refuses malformed headers (400), long URLs (414), texts not in UTF-8 (415) or storable (400).

    `review.common.api` reads the bodies of API requests and refuses them in the same way.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if len(request.get_full_path()) > MAX_URL_LENGTH:
            request.GET = QueryDict()  # the refusal page does not need it
            return refusal(request, 414, _("This address is too long. Shorten it, or include less data in it."))
        if getattr(request, "is_malformed", False):
            return refusal(request, 400, _("The header Content-Type or Content-Length is malformed."))
        length = int(request.META.get("CONTENT_LENGTH") or 0)
        if length > MAX_UNKNOWN_BODY and length > _most_bytes(request):  # small ones need no account
            return refusal(request, 413, _("This request is too large."))
        if request.content_params and request.content_params.get("charset", "utf-8").lower() not in ENCODINGS:
            return refusal(request, 415, _("This request is not encoded in UTF-8. Send it in UTF-8."))
        if not (is_storable(request.path_info) and _is_storable_dict(request.GET)):
            return self._refuse_unstorable(request)
        response = self.get_response(request)
        if length > MAX_UNKNOWN_BODY:
            # gunicorn resets a connection with an unread body, and a proxy would answer 502 itself.
            while request._stream.read(MAX_UNKNOWN_BODY):
                pass
        return response

    def process_view(
        self, request: HttpRequest, _view: Any, _args: Any, named: Mapping[str, Any]
    ) -> HttpResponse | None:
        """Check the numbers in the address, and the fields of a form.

        The fields here, because the body is only read after the CSRF check. Raises Http404.
        """
        for value in named.values():
            if isinstance(value, int) and value > limits.MAX_ID:
                raise Http404  # no row has this number, and no database takes it
        if request.method != "POST" or request.path_info.startswith("/api/"):
            return None
        names = []
        for _field, files in request.FILES.lists():
            names += [getattr(file, "name", "") for file in files]
        if _is_storable_dict(request.POST) and is_storable(names):
            return None
        return self._refuse_unstorable(request)

    def _refuse_unstorable(self, request: HttpRequest) -> HttpResponse:
        message = _(
            "This request contains a character that cannot be stored (NUL, or half of a surrogate pair). Remove it."
        )
        return refusal(request, 400, message)


def _most_bytes(request: HttpRequest) -> float:
    """The largest body that is taken at this address of this person.

    The API's views check tokens before they read a body.
    """
    by_token = request.path_info.startswith("/api/") and "Authorization" in request.headers
    if not (by_token or request.user.is_authenticated):
        return MAX_UNKNOWN_BODY  # parsing a large form takes seconds
    may_send = by_token and request.path_info in UPLOADS
    if request.method == "POST" and (may_send or may_upload(request.user, request.path_info)):
        return float("inf")
    return MAX_BODY


def _is_storable_dict(fields: QueryDict) -> bool:
    return all(is_storable(name) and is_storable(values) for name, values in fields.lists())
