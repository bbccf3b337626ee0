"""Shows times in the reader's time zone, which app.js keeps in a cookie, else the site's."""

from collections.abc import Callable
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

COOKIE = "mhb_time_zone"


class TimeZoneMiddleware:
    """Activates the reader's time zone for pages. The API answers in UTC."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        name = request.COOKIES.get(COOKIE) or settings.MHB_TIME_ZONE
        if request.path_info.startswith("/api/"):
            return self.get_response(request)
        try:
            zone = ZoneInfo(name[:64])
        except (LookupError, OSError, ValueError):  # unknown here, or no name of a time zone
            return self.get_response(request)
        with timezone.override(zone):
            return self.get_response(request)
