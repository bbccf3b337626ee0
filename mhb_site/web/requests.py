"""What is refused of a request before any view sees it, for pages and API alike."""

from collections.abc import Callable, Mapping
from typing import Any

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.http import parse_header_parameters
from django.utils.translation import gettext as _

from mhb_site.web.errors import refusal
from review.rules.text import is_storable

LONGEST_ADDRESS = (
    4096  # bytes of path and query; the web server's own limit must be higher, or it answers in its own words
)
ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii")


class Utf8WSGIRequest(WSGIRequest):
    """A request whose texts are read as UTF-8 whatever its sender says: Django fails on encodings that decode no text."""

    def _set_content_type_params(self, meta: Mapping[str, Any]) -> None:
        self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))


class RequestsMiddleware:
    """Refuses what no part of the site can take: addresses that are too long (414), texts in another encoding than UTF-8 (415),
    and such as cannot be stored (400). Bodies of the API are read, and refused likewise, by `review.common.api`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if len(request.get_full_path()) > LONGEST_ADDRESS:
            request.GET = QueryDict()  # the page of the refusal needs none of it
            return refusal(request, 414, _("This address is too long. Shorten it, or include less data in it."))
        if request.content_params and request.content_params.get("charset", "utf-8").lower() not in ENCODINGS:
            return refusal(request, 415, _("This request is not encoded in UTF-8. Send it in UTF-8."))
        if not (is_storable(request.path_info) and _is_plain(request.GET)):
            return self._unstorable(request)
        return self.get_response(request)

    def process_view(self, request: HttpRequest, _view: Any, _args: Any, _kwargs: Any) -> HttpResponse | None:
        """A form's fields: here, as their body is read when it is known that they may come (CSRF)."""
        if request.method != "POST" or request.path.startswith("/api/"):
            return None
        names = [getattr(file, "name", "") for _field, files in request.FILES.lists() for file in files]
        if _is_plain(request.POST) and is_storable(names):
            return None
        return self._unstorable(request)

    def _unstorable(self, request: HttpRequest) -> HttpResponse:
        told = _(
            "This request contains a character that cannot be stored (NUL, or half of a surrogate pair). Remove it."
        )
        return refusal(request, 400, told)


def _is_plain(fields: QueryDict) -> bool:
    return all(is_storable(name) and is_storable(values) for name, values in fields.lists())
