"""How many statements a request sends to the database, BEGIN and COMMIT among them: `python -m bench.statements`, within its
settings. What `bench.seed` tells comes as JSON on stdin; prints {what: [statements]} for one case of one physician.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

import django

from bench.load import Browser


class Counting(Browser):
    """A client within this process; it counts where the others measure."""

    def ask(
        self, method: str, path: str, fields: Mapping[str, str] | None = None, *, htmx: bool = False
    ) -> tuple[int, str, bytes]:
        from django.test import Client

        client = Client(SERVER_NAME="localhost", headers={"HX-Request": "true"} if htmx else {})
        client.cookies["sessionid"] = self.session
        answer = client.generic(method, path, urlencode(fields or {}), content_type="application/x-www-form-urlencoded")
        return answer.status_code, urlsplit(answer.headers.get("Location", "")).path, answer.content

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as sent:
            yield
        self.times[what].append(len(sent))


def main() -> None:
    django.setup()
    known = json.load(sys.stdin)
    browser = Counting("localhost", 0, known["sessions"][0], known["answers"])
    browser.work()  # a process that has just begun asks a little more
    browser.times.clear()
    browser.work()
    print(json.dumps(browser.times))


if __name__ == "__main__":
    main()
