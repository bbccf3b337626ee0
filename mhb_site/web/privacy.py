"""What answers leave behind in browsers and in caches on their way."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from generation.images.responses import REVALIDATED


class NoStoreMiddleware:
    """Nothing that a view answers is stored: a shared computer keeps no case, and a proxy no answer to somebody else.

    But for images, which the reader's own browser may keep and asks about each time it shows them. Static files are answered
    before this.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.get("Cache-Control") != REVALIDATED:
            response["Cache-Control"] = "no-store"
        return response
