"""Counts the SQL statements of each action, with BEGIN and COMMIT: `python -m bench.statements`.

Runs with the site's settings. Reads the output of `bench.seed` from stdin, and prints {action:
[statements]} for one case of one physician.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

import django

from bench.browsers import Browser


class CountingBrowser(Browser):
    """A client within this process that counts statements instead of milliseconds."""

    def ask(
        self, method: str, path: str, fields: Mapping[str, str] | None = None, *, htmx: bool = False
    ) -> tuple[int, str, bytes]:
        from django.test import Client

        client = Client(SERVER_NAME="localhost", headers={"HX-Request": "true"} if htmx else {})
        client.cookies.load(self.cookies)
        response = client.generic(
            method, path, urlencode(fields or {}), content_type="application/x-www-form-urlencoded"
        )
        return response.status_code, urlsplit(response.headers.get("Location", "")).path, response.content

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as sent:
            yield
        self.times[what].append(len(sent))


def main() -> None:
    django.setup()
    seeded = json.load(sys.stdin)
    browser = CountingBrowser("localhost", 0, seeded["sessions"][0], seeded["answers"])
    browser.work()  # a new process sends a few more
    browser.times.clear()
    browser.work()
    print(json.dumps(browser.times))


if __name__ == "__main__":
    main()
