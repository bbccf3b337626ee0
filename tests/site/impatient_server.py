"""The web server with short timeouts and low limits, for test_web_server.

Its application needs no database.
"""

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from mhb_site.server import web_server
from mhb_site.server.web_server import BufferingWorker

LARGE_BODY = 20 * 2**20  # bytes: more than the buffers of the system hold

DURATIONS = {"/brief": 0.02, "/slow": 1, "/stuck": 60}  # path -> seconds that a request takes

web_server.GRACE = 1.0
web_server.CHECK_INTERVAL = 0.1
web_server.MAX_CONNECTIONS = 100
web_server.MAX_BODY = 2**20
web_server.TURN_TIMEOUT = 1.0

active: list[object] = []  # the paths of the requests that the application is handling

__all__ = ["BufferingWorker", "application"]


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    path = environ["PATH_INFO"]
    active.append(path)
    active_count = len(active)
    time.sleep(DURATIONS.get(path, 0))
    active.remove(path)
    body = (
        b"x" * LARGE_BODY
        if path == "/big"
        else json.dumps(
            {name: value for name, value in environ.items() if isinstance(value, str)}
            | {"body": len(environ["wsgi.input"].read()), "active": active_count}
        ).encode()
    )
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
