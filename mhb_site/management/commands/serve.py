"""serve: the web server of an embedded site, waitress.

Waitress reads requests and writes responses in one loop beside its threads, so a thread sees only
complete requests, and slow clients cannot hold it. In production a proxy in front of gunicorn does
this (docs/operations.md).
"""

import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from typing import Any

import waitress
from django.conf import settings
from django.core.management.base import BaseCommand
from waitress.channel import HTTPChannel

CONNECTIONS = 500  # each may need three open files (connection, body, response); 1024 is a usual limit


class Command(BaseCommand):
    help = "Serve the site from this process. In production use gunicorn behind a proxy."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=settings.ENV.port)

    def handle(self, *args: Any, **options: Any) -> None:
        # Loads all pages: only when the site is served.
        from mhb_site.server import startup
        from mhb_site.server.bodies import BoundedParser
        from mhb_site.wsgi import application

        startup.is_ready()  # else it says why
        HTTPChannel.parser_class = BoundedParser

        def respond(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            """The site's response; without its body for HEAD, which waitress would send."""
            response = application(environ, start_response)
            if environ["REQUEST_METHOD"] != "HEAD":
                return response
            response.close()
            return []

        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # waitress then lets its threads finish
        waitress.serve(
            respond,
            host=options["host"],
            port=options["port"],
            # More would wait longer to write: SQLite lets all but one sleep, in no order.
            threads=4,
            connection_limit=CONNECTIONS,
            asyncore_use_poll=True,
            channel_timeout=75,  # longer than proxies keep connections
            cleanup_interval=10,
            max_request_header_size=64 * 2**10,  # more than the site itself refuses as too long
            outbuf_high_watermark=2**30,  # below it, no thread waits for a client that does not read
            # Django decides which proxies to trust (MHB_HTTPS, MHB_TRUSTED_PROXIES).
            clear_untrusted_proxy_headers=False,
            ident=None,
            log_socket_errors=False,
            _quiet=True,
        )
