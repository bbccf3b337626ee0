"""The client, and the jobs that it launches."""

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self, Unpack, cast
from urllib.parse import parse_qs, quote, urlsplit

import httpx2

from mhb_client import errors
from mhb_client.shapes import JobState, LaunchBatch, LaunchRun, Problem, Release, Report

PROBLEM = "application/problem+json"
AGAIN = {429, 502, 503, 504}
LONGEST_LINE = 64 * 2**20  # a sample with its images is far below
_KINDS = {"type": str, "title": str, "detail": str, "errors": list, "problems": list}  # of the fields of a Problem


class Client:
    """An MHB site, for the account whose token it has (environment variable MHB_TOKEN).

    Where the site is busy or counts a report (429, 503), a request waits as long as it says; that
    and lost connections are tried for `patience` seconds. All requests are safe to repeat.
    `transport` is for tests, and for proxies and certificates of your own.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        patience: float = 600,
        timeout: float = 60,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        token = token or os.environ.get("MHB_TOKEN", "")
        if not token:
            raise errors.MHBError("No token: set the environment variable MHB_TOKEN, or pass one.")
        self._patience = patience
        self._reached = False
        self._http = httpx2.Client(
            base_url=f"{url.rstrip('/')}/api/v1/",
            headers={"Authorization": f"Bearer {token}", "Accept-Language": "en"},
            timeout=timeout,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._http.close()

    def launch_run(self, *, key: str = "", **settings: Unpack[LaunchRun]) -> "Run":
        """Launch a run. The same `key` launches once; without one, each call launches anew."""
        return Run(self, "runs/", self._launch("runs/", key, settings))

    def launch_batch(self, *, key: str = "", **settings: Unpack[LaunchBatch]) -> "Batch":
        """Launch a batch. The same `key` launches once; without one, each call launches anew."""
        return Batch(self, "batches/", self._launch("batches/", key, settings))

    def run(self, number: int) -> "Run":
        """An earlier run."""
        return Run(self, "runs/", self.get(f"runs/{number}/"))

    def batch(self, number: int) -> "Batch":
        """An earlier batch."""
        return Batch(self, "batches/", self.get(f"batches/{number}/"))

    def release(self, name: str, version: int) -> Release:
        """What a release is made of."""
        return cast("Release", self.get(f"releases/{quote(name, safe='')}/{version}/"))

    def samples(self, name: str, version: int, *, split: str = "public") -> Iterator[dict[str, Any]]:
        """The samples of a release one by one, in bounded memory.

        Raises Damaged at the end if they were not those that were frozen.
        """
        release, digest = self.release(name, version), hashlib.sha256()
        query = {"format": "jsonl", "split": split}
        path = f"releases/{quote(name, safe='')}/{version}/export/"
        with self._answer("GET", path, whole=False, params=query) as answer:
            for line in _lines(answer):
                digest.update(line)
                yield json.loads(line)
        frozen = release["sha256"]
        if split != "public":
            frozen = release["held_out_sha256"]
        if digest.hexdigest() != frozen:
            raise errors.Damaged(f"{name}@{version} did not arrive as it was frozen.")

    def get(self, path: str, **query: Any) -> Any:
        """Any other answer of the API, by its path below /api/v1/."""
        return self._json("GET", path, params=query)

    def rows(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """The rows of any list of the API, page by page."""
        while True:
            page = self.get(path, **query)
            yield from page["results"]
            if not page["next"]:
                return
            query["cursor"] = parse_qs(urlsplit(page["next"]).query)["cursor"][0]

    def _launch(self, path: str, key: str, settings: Any) -> JobState:
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return cast("JobState", self._json("POST", path, json=settings, headers=headers))

    def _json(self, method: str, path: str, **request: Any) -> Any:
        with self._answer(method, path, **request) as answer:
            try:
                return answer.json()
            except (ValueError, RecursionError) as error:
                raise errors.MHBError(f"{answer.url} did not answer with JSON: is this an MHB site?") from error

    @contextmanager
    def _answer(self, method: str, path: str, *, whole: bool = True, **request: Any) -> Iterator[httpx2.Response]:
        """An answer that succeeded, read if `whole`; waits and asks again where that may help."""
        end, pause = time.monotonic() + self._patience, 1.0
        while True:
            failure: errors.MHBError
            wait, pause = pause, min(2 * pause, 30)
            try:
                answer = self._http.send(self._http.build_request(method, path, **request), stream=not whole)
            except (httpx2.TransportError, httpx2.DecodingError) as lost:
                failure = errors.ConnectionLost(f"{self._http.base_url}: {lost}")
                # A wrong address does not become right by waiting.
                if not self._reached and isinstance(lost, httpx2.ConnectError | httpx2.UnsupportedProtocol):
                    raise failure from lost
                failure.__cause__ = lost
            else:
                self._reached = True
                if answer.is_success:
                    break
                failure = _failure(answer)
                if answer.status_code not in AGAIN:
                    raise failure
                if failure.retry_after is not None:
                    wait = failure.retry_after
            if time.monotonic() + wait > end:
                raise failure
            time.sleep(wait)
        try:
            yield answer
        finally:
            answer.close()


class Job:
    """A batch or a run on the site; `state` is as the site last showed it."""

    def __init__(self, client: Client, path: str, state: JobState) -> None:
        self._client, self._path = client, path
        self.state = state

    @property
    def id(self) -> int:
        """Its number on the site."""
        return self.state["id"]

    def refresh(self) -> JobState:
        """Ask the site how far it is."""
        self.state = cast("JobState", self._client.get(f"{self._path}{self.id}/"))
        return self.state

    def wait(self, *, timeout: float | None = None, every: float = 5, progress: bool = True) -> Self:
        """Wait until it has finished, with a progress bar where tqdm is installed.

        Raises JobStopped if it is paused or cancelled, TooLate after `timeout` seconds.
        """
        if timeout is None:
            end = None
        else:
            end = time.monotonic() + timeout
        with _bar(f"{type(self).__name__.lower()} {self.id}", shown=progress) as show:
            while True:
                show(self.refresh()["progress"]["percent"])
                if self.state["status"] == "finished":
                    return self
                if self.state["status"] != "running":
                    raise errors.JobStopped(self.state)
                if end is not None and time.monotonic() + every > end:
                    raise errors.TooLate(f"Job {self.id} is at {self.state['progress']['percent']} %.")
                time.sleep(every)


class Batch(Job):
    """A batch of drafts."""

    def drafts(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Its drafts; filters as in the API (`status="failed"`)."""
        return self._client.rows(f"batches/{self.id}/drafts/", **filters)


class Run(Job):
    """A run of models on a release."""

    def report(self, **options: Any) -> Report:
        """Its report; waits while a worker counts it. Options as in the API (`common=True`)."""
        return cast("Report", self._client.get(f"runs/{self.id}/report/", **options))

    def judgments(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Its judgments; filters as in the API (`endpoint="big", verdict="unjudged"`)."""
        return self._client.rows(f"runs/{self.id}/judgments/", **filters)


@contextmanager
def _bar(title: str, *, shown: bool) -> Iterator[Any]:
    """A function that shows a percentage."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        shown = False
    if not shown:
        yield lambda _percent: None
        return
    with tqdm(total=100, desc=title, unit="%") as bar:
        yield lambda percent: bar.update(percent - bar.n)


def _lines(answer: httpx2.Response) -> Iterator[bytes]:
    """The lines of an answer with their ends; only a line feed ends one."""
    rest: list[bytes] = []
    size = 0
    try:
        for chunk in answer.iter_bytes():
            *ended, last = chunk.split(b"\n")
            for part in ended:
                yield b"".join([*rest, part, b"\n"])
                rest, size = [], 0
            rest, size = [*rest, last], size + len(last)
            if size > LONGEST_LINE:
                raise errors.Damaged(f"A line is longer than {LONGEST_LINE} bytes.")
    except (httpx2.TransportError, httpx2.DecodingError) as lost:
        raise errors.ConnectionLost(str(lost)) from lost
    if size:
        yield b"".join(rest)


def _failure(answer: httpx2.Response) -> errors.ProblemError:
    """The error of an answer that did not succeed, also of a proxy that says it as a page."""
    status = answer.status_code
    problem: Problem = {"type": "about:blank", "title": answer.reason_phrase or str(status), "status": status}
    if answer.has_redirect_location:
        problem["detail"] = f"The site is at another address: {answer.headers.get('Location', '')}"
    elif answer.headers.get("Content-Type", "").startswith(PROBLEM):
        problem = cast("Problem", {**problem, **_said(answer), "status": status})
    answer.close()
    return errors.of_problem(problem, _retry_after(answer))


def _said(answer: httpx2.Response) -> dict[str, Any]:
    """The fields of a problem, of those that the client reads the ones of the right type."""
    try:
        answer.read()
        body = answer.json()
    except (httpx2.RequestError, ValueError, RecursionError):
        return {}  # cut off, or no JSON: the status says enough
    if not isinstance(body, dict):
        return {}
    return {name: value for name, value in body.items() if isinstance(value, _KINDS.get(name, object))}


def _retry_after(answer: httpx2.Response) -> float | None:
    """Seconds from a Retry-After header, which has seconds or a date."""
    value = answer.headers.get("Retry-After", "")
    try:
        if value.isdecimal():
            return float(value)
        return max(0.0, (_date(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _date(value: str) -> datetime:
    date = parsedate_to_datetime(value)
    if date.tzinfo:
        return date
    return date.replace(tzinfo=UTC)
