"""Keeps responses out of browser and proxy caches."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from generation.images.responses import REVALIDATED


class NoStoreMiddleware:
    """Forbids storing responses of views: a shared computer keeps no case, a proxy no private page.

    Images are an exception: the reader's browser may keep them, and revalidates each time it shows
    them. Static files are served before this middleware.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.get("Cache-Control") != REVALIDATED:
            response["Cache-Control"] = "no-store"
        return response
