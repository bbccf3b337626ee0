"""Keeps responses out of browser and proxy caches."""

from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from generation.images.responses import REVALIDATED


class NoStoreMiddleware(MiddlewareMixin):
    """Forbids storing responses of views: a shared computer keeps no case, a proxy no private page.

    Images are an exception: the reader's browser may keep them, and revalidates each time it shows
    them. Static files are served before this middleware.
    """

    def process_response(self, _request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if response.get("Cache-Control") != REVALIDATED:
            response["Cache-Control"] = "no-store"
        return response
