"""Simulates physicians' browsers: reads a plan as JSON from stdin, prints times as JSON.

Each client keeps its connection open, has a session cookie, and sends the next request once it has
read the whole response to the previous one (a closed loop). Any unexpected response ends the run,
because failures are not figures.

    day            `cycles` cases for each session: next, reveal, two drafts, submit
    reviews        `cycles` second reviews of the first session, one step after another, with the
                   processor time of the server, which is the process group `group`
    shift          each session works for `seconds`, and waits up to `pause` before each step
    rush           all sessions press Next at the same moment, in `rounds` rounds
    one-too-many   submissions that must be refused, in `rounds` rounds
"""

import http.client
import json
import random
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from bench import processor

CSRF = "c" * 32  # double submit: cookie and header only need to be equal
TIMEOUT = 60.0  # seconds

_TOKEN = re.compile(rb'name="token" value="([0-9a-f-]{36})"')
_LATER = re.compile(rb'hx-get="([^"]+)"[^>]{0,300}hx-trigger="load')
_REVISION = re.compile(rb'name="revision"\s+value="(\d+)"')
_ASSIGNMENT = re.compile(rb'id="answers" method="post"\s+action="/review/assignments/([0-9a-f]{32})/(reveal|submit)/"')


class Unexpected(Exception):
    """A response other than the expected one."""


@dataclass(frozen=True, slots=True)
class Page:
    """The parts of a case's page that the load needs."""

    assignment: str
    token: str
    revision: str
    first_look_pending: bool  # the first look is not yet finished
    confirming: bool  # the reviewer has answered blind and sees the first review
    later: tuple[str, ...]  # the fragments that it asks for by itself, once it is there


@dataclass(slots=True)
class Browser:
    """One signed-in client."""

    host: str
    port: int
    cookies: str  # the header
    answers: Mapping[str, str]
    pause: float = 0.0  # longest wait before a step, in seconds
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    group: int = 0  # the process group of the server, if its processor time is measured
    processor: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _connection: http.client.HTTPConnection | None = None

    def ask(
        self, method: str, path: str, fields: Mapping[str, str] | None = None, *, htmx: bool = False
    ) -> tuple[int, str, bytes]:
        """Send a request; returns (status, redirect path, body).

        Reopens a connection that the server closed.
        """
        headers = {"Cookie": self.cookies, "X-CSRFToken": CSRF}
        if htmx:
            headers["HX-Request"] = "true"
        body = None
        if fields is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(fields).encode()
        for is_kept_open in (True, False):
            if self._connection is None or self._connection.port != self.port:
                self._connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT)
                is_kept_open = False
            try:
                self._connection.request(method, path, body, headers)
                response = self._connection.getresponse()
                return response.status, urlsplit(response.headers.get("Location", "")).path, response.read()
            except (http.client.HTTPException, OSError) as failure:
                self._connection.close()  # it would open again by itself, at the same port, and stay half-sent
                self._connection = None
                closed = isinstance(failure, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError)
                if not (is_kept_open and closed):
                    raise
        raise AssertionError("unreachable")

    @contextmanager
    def timed(self, action: str) -> Iterator[None]:
        """Record the milliseconds that the block takes under `action`."""
        used = processor.milliseconds(self.group) if self.group else 0
        started = time.perf_counter()
        yield
        self.times[action].append((time.perf_counter() - started) * 1000)
        if self.group:
            self.processor[action].append(processor.milliseconds(self.group) - used)

    def post(self, path: str, fields: Mapping[str, str], *expected: int, htmx: bool = False) -> tuple[int, str, bytes]:
        """POST a form. Raises Unexpected unless the status is one of `expected`."""
        status, location, body = self.ask("POST", path, fields, htmx=htmx)
        if status not in expected:
            raise Unexpected(f"{path} answered {status}, not {' or '.join(map(str, expected))}: {body[:300]!r}")
        return status, location, body

    def page(self, path: str) -> Page:
        """Load the page of a case."""
        status, _, body = self.ask("GET", path)
        return self.read(path, status, body)

    def read(self, path: str, status: int, body: bytes) -> Page:
        """Parse the page of a case."""
        token, revision, form = _TOKEN.search(body), _REVISION.search(body), _ASSIGNMENT.search(body)
        if status != 200 or token is None or revision is None or form is None:
            raise Unexpected(f"{path} answered {status} without a case: {body[:300]!r}")
        return Page(
            assignment=form[1].decode(),
            token=token[1].decode(),
            revision=revision[1].decode(),
            first_look_pending=form[2] == b"reveal",
            confirming=b'id="changed-answer"' in body,
            later=tuple(address.decode() for address in _LATER.findall(body)),
        )

    def think(self) -> None:
        if self.pause:
            time.sleep(random.uniform(self.pause / 2, self.pause))

    def next(self) -> Page:
        """Press Next and read the page of the case; without a redirect, like the site's script."""
        with self.timed("next"):
            status, _, body = self.post("/review/next/?here", {}, 200)
            return self.read("/review/next/", status, body)

    def reveal(self, page: Page) -> Page:
        """Finish the first look, if it is pending, and read the page again."""
        if not page.first_look_pending:
            return page
        with self.timed("reveal"):
            path = f"{_assignment_url(page, 'reveal')}?here"
            status, _, body = self.post(path, self.fields(page), 200)
            return self.read(path, status, body)

    def draft(self, page: Page, revision: str) -> str:
        """Save a draft like the page's autosave; returns its revision."""
        with self.timed("draft"):
            _, _, body = self.post(
                _assignment_url(page, "draft"), {**self.fields(page), "revision": revision}, 200, htmx=True
            )
        match = _REVISION.search(body)
        if match is None:
            raise Unexpected(f"the answer to a draft names no revision: {body[:300]!r}")
        return match[1].decode()

    def fields(self, page: Page) -> dict[str, str]:
        """The form fields as the browser posts them."""
        return {**self.answers, "token": page.token, "revision": page.revision}

    def fragments(self, page: Page) -> None:
        """Load what a page asks for by itself."""
        for address in page.later:
            with self.timed("fragments"):
                self.ask("GET", address, htmx=True)

    def second_review(self) -> None:
        """The second review of a case: blind, then with the first review beside it."""
        page = self.next()
        self.fragments(page)
        page = self.reveal(page)
        self.fragments(page)
        self.draft(page, page.revision)
        with self.timed("submit"):
            confirmation = self.submit(page)
        if confirmation is None or not confirmation.confirming:
            raise Unexpected("the answer to a blind review is no confirmation")
        self.fragments(confirmation)
        with self.timed("submit again"):
            self.submit(confirmation)

    def submit(self, page: Page) -> Page | None:
        """Submit and stop, like the site's script; the page of the next phase, if there is one."""
        path = _assignment_url(page, "submit")
        fields = {**self.fields(page), "stop": "1"}
        status, _, body = self.post(f"{path}?here", fields, 200, 302)
        return self.read(path, status, body) if status == 200 else None

    def work(self) -> None:
        """Complete one case, from Next to this person's last submit."""
        self.think()
        page = self.next()
        self.think()
        page = self.reveal(page)
        self.think()
        revision = self.draft(page, page.revision)
        self.think()
        self.draft(page, revision)
        following: Page | None = page
        while following is not None:
            self.think()
            with self.timed("submit"):
                following = self.submit(following)


def _assignment_url(page: Page, action: str) -> str:
    return f"/review/assignments/{page.assignment}/{action}/"


def day(browsers: Sequence[Browser], cycles: int) -> dict[str, Any]:
    """All browsers work at the same time. Returns {"times": {action: [milliseconds]}}."""

    def work(browser: Browser) -> None:
        for _ in range(cycles):
            browser.work()

    run_in_threads([lambda browser=browser: work(browser) for browser in browsers])  # type: ignore[misc]
    return {"times": _merged_times(browsers)}


def reviews(browser: Browser, cycles: int) -> dict[str, Any]:
    """Second reviews. Returns {"times", "processor": {step: [milliseconds]}}.

    The fragments of a review are one sum.
    """
    fragments: dict[str, list[float]] = {"times": [], "processor": []}
    for _ in range(cycles):
        browser.second_review()
        for name, steps in (("times", browser.times), ("processor", browser.processor)):
            fragments[name].append(sum(steps.pop("fragments", [])))
    browser.times["fragments"], browser.processor["fragments"] = fragments["times"], fragments["processor"]
    return {"times": browser.times, "processor": browser.processor}


def shift(browsers: Sequence[Browser], seconds: float, pause: float) -> dict[str, Any]:
    """All browsers work for this long. Returns {"times": {action: [milliseconds]}}."""
    end = time.monotonic() + seconds

    def work(browser: Browser) -> None:
        browser.pause = pause
        while time.monotonic() < end:
            browser.work()

    run_in_threads([lambda browser=browser: work(browser) for browser in browsers])  # type: ignore[misc]
    return {"times": _merged_times(browsers)}


def rush(browsers: Sequence[Browser], rounds: int, database: str) -> dict[str, Any]:
    """All press Next at the same moment, repeatedly; claimed cases leave the queue in between.

    Returns {"duplicates": responses with an assignment that somebody else got in the same round,
    "nothing": responses without one although cases are available, "times"}.
    """
    start, end = threading.Barrier(len(browsers) + 1), threading.Barrier(len(browsers) + 1)
    locations = [""] * len(browsers)

    def press(number: int) -> None:
        browser = browsers[number]
        for _ in range(rounds):
            start.wait()
            try:
                with browser.timed("rush"):
                    _, locations[number], _ = browser.post("/review/next/", {}, 302)
            except BaseException:
                end.abort()
                raise
            end.wait()

    duplicates = nothing = 0

    def count() -> None:
        nonlocal duplicates, nothing
        for _ in range(rounds):
            start.wait()
            end.wait()
            cases = [location for location in locations if location.startswith("/review/assignments/")]
            nothing += len(locations) - len(cases)
            duplicates += len(cases) - len(set(cases))
            complete_held_assignments(database)

    run_in_threads([count, *(lambda number=number: press(number) for number in range(len(browsers)))])
    return {"duplicates": duplicates, "nothing": nothing, "times": _merged_times(browsers)}


def complete_held_assignments(database: str) -> None:
    """Take held assignments out of the queue, a hundred times as fast as submitting them."""
    _execute(database, "UPDATE review_assignment SET hold = 'done' WHERE hold = 'held'")


def case_of(database: str, page: Page) -> int:
    """The primary key of a case, which admin pages need and a physician's page does not show."""
    token = page.token if database.startswith("postgresql://") else page.token.replace("-", "")
    [[case]] = _execute(database, f"SELECT case_id FROM review_assignment WHERE token = '{token}'")
    return int(case)


def _execute(database: str, statement: str) -> list[Any]:
    """Execute a statement; returns its rows, if any."""
    if database.startswith("postgresql://"):
        import psycopg

        with psycopg.connect(database) as postgres:
            cursor = postgres.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []
    import sqlite3

    with closing(sqlite3.connect(database, timeout=TIMEOUT)) as sqlite, sqlite:
        return sqlite.execute(statement).fetchall()


def one_too_many(browsers: Sequence[Browser], rounds: int, admin: Browser, database: str) -> dict[str, Any]:
    """Submissions that must not count.

    Returns {"sent": their number, "refused": those answered with 409}.

    In each round one case is submitted from two windows at once, of which one is too many, and then
    once more; another case is submitted after an admin has reassigned it.
    """
    ana, second_window, bo = browsers[:3]
    # The second window of the same person.
    second_window = Browser(ana.host, ana.port, ana.cookies, ana.answers)
    sent = refused = 0
    for _ in range(rounds):
        page = ana.reveal(ana.next())
        fields = {**ana.fields(page), "stop": "1"}
        statuses: list[int] = []

        def submit(browser: Browser, path: str = _assignment_url(page, "submit"), fields: Mapping[str, str] = fields,
                   statuses: list[int] = statuses) -> None:  # fmt: skip
            statuses.append(browser.post(path, fields, 302, 409)[0])

        run_in_threads([lambda: submit(ana), lambda: submit(second_window)])
        submit(ana)
        sent, refused = sent + 2, refused + statuses.count(409)
        page = bo.reveal(bo.next())
        reassign = f"/review/cases/{case_of(database, page)}/reassign/"
        if 302 not in [admin.post(reassign, {"role": role}, 302, 404, 409)[0] for role in ("primary", "secondary")]:
            raise Unexpected(f"{reassign} takes the case from nobody")
        status, _, _ = bo.post(_assignment_url(page, "submit"), {**bo.fields(page), "stop": "1"}, 302, 409)
        sent, refused = sent + 1, refused + (status == 409)
    return {"sent": sent, "refused": refused}


def _merged_times(browsers: Sequence[Browser]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = defaultdict(list)
    for browser in browsers:
        for action, milliseconds in browser.times.items():
            times[action] += milliseconds
    return times


def run_in_threads(functions: Sequence[Callable[[], None]]) -> None:
    """Run functions at the same time, each in a thread; then raise the first failure, if any."""
    failures: list[BaseException] = []

    def run(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def main() -> None:
    plan = json.load(sys.stdin)
    browsers = [Browser(plan["host"], plan["port"], cookies, plan["answers"]) for cookies in plan["sessions"]]
    match plan["what"]:
        case "day":
            result = day(browsers, plan["cycles"])
        case "reviews":
            browsers[0].group = plan["group"]
            result = reviews(browsers[0], plan["cycles"])
        case "shift":
            result = shift(browsers, plan["seconds"], plan["pause"])
        case "rush":
            result = rush(browsers, plan["rounds"], plan["database"])
        case "one-too-many":
            admin = Browser(plan["host"], plan["port"], plan["admin"], {})
            result = one_too_many(browsers, plan["rounds"], admin, plan["database"])
        case other:
            raise SystemExit(f"no such load: {other}")
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
