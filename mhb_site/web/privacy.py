"""What answers leave behind in browsers and in caches on their way."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


class NoStoreMiddleware:
    """Nothing that a view answers is stored: a shared computer keeps no case, and a proxy no answer to somebody else.

    Static files are answered before this.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response["Cache-Control"] = "no-store"
        return response
