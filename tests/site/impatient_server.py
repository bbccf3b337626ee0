"""The web server with little patience and room, before an application that needs no database; for test_web_server."""

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from mhb_site.server import web_server
from mhb_site.server.web_server import BufferingWorker

BIG = 20 * 2**20  # more than the system's buffers take

SECONDS = {"/brief": 0.02, "/slow": 1, "/stuck": 60}  # that a request takes

web_server.GRACE = 1.0
web_server.CHECK_INTERVAL = 0.1
web_server.MAX_CONNECTIONS = 100
web_server.MAX_BODY = 2**20
web_server.TURN_TIMEOUT = 1.0

busy: list[object] = []  # an entry for each request that is at it

__all__ = ["BufferingWorker", "application"]


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    path = environ["PATH_INFO"]
    busy.append(path)
    seen = len(busy)
    time.sleep(SECONDS.get(path, 0))
    busy.remove(path)
    body = (
        b"x" * BIG
        if path == "/big"
        else json.dumps(
            {name: value for name, value in environ.items() if isinstance(value, str)}
            | {"body": len(environ["wsgi.input"].read()), "at once": seen}
        ).encode()
    )
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
