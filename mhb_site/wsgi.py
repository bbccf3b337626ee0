"""WSGI entry point."""

import gc
import os
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http.response import HttpResponse, HttpResponseBase
from django.urls import get_resolver
from django.utils.module_loading import import_string

from mhb_site.postgresql.breaker import CONNECT_SECONDS, SECONDS, breaker
from mhb_site.postgresql.hanging import WatchedConnection
from mhb_site.server import startup

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
handler = get_wsgi_application()
# Before the first connection. Workers have no limit: what takes long belongs there.
connecting: dict[str, Any] = cast("dict[str, Any]", settings.DATABASES["default"]["OPTIONS"])
if settings.MHB_STATEMENT_SECONDS and "options" in connecting:
    connecting["options"] += f" -c statement_timeout={settings.MHB_STATEMENT_SECONDS}s"
# A page says that the database is away, instead of waiting for it.
if "pool" in connecting:
    connecting.setdefault("connect_timeout", CONNECT_SECONDS)
    # Each request tries anew. The pool's own next attempt would be seconds after the return.
    connecting["pool"] |= {"timeout": SECONDS, "reconnect_timeout": 0, "connection_class": WatchedConnection}
    breaker.engaged = True
# After the apps are loaded.
handler.request_class = import_string("mhb_site.web.requests.Utf8WSGIRequest")
# Otherwise the first request of each worker would wait a second until all views are imported.
get_resolver().url_patterns  # noqa: B018
# What is loaded so far stays for good; else each full collection would scan it within a request.
gc.collect()
gc.freeze()


PROBES = ("/live", "/ready", "/metrics")
NOT_READY = "The site is not ready: its database is away or is being upgraded. Try again in a moment.\n"


def application(environ: dict[str, Any], start_response: "StartResponse") -> HttpResponseBase:
    """The site. Of a proxy that passes the sub-path on, it is taken off, as others do."""
    prefix = settings.FORCE_SCRIPT_NAME
    if prefix and f"{environ['PATH_INFO']}/".startswith(f"{prefix}/"):
        environ["PATH_INFO"] = environ["PATH_INFO"].removeprefix(prefix) or "/"
    if not startup.is_ready() and not environ["PATH_INFO"].startswith(PROBES):
        headers = {"Retry-After": "5"}
        refusal = HttpResponse(NOT_READY, status=503, content_type="text/plain", headers=headers)
        start_response("503 Service Unavailable", list(refusal.items()))
        return refusal
    return handler(environ, start_response)
