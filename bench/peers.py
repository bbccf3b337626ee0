"""The same work with other annotation platforms: Potato, doccano and Label Studio.

Each runs from PyPI in a virtual environment of its own: FOLDER/potato-annotation, FOLDER/doccano
and FOLDER/label-studio (docs/performance.md says how to make them). Annotators open the next item,
have the answers saved and submit them, as the platform's own page asks its server to. Their pages
show one text and four questions, a tenth of what a case of MHB shows.
"""

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench import processor
from bench.browsers import run_in_threads
from bench.core import Result, percentile, skipped, without_goal
from bench.servers import free_port
from mhb_site.server import children

HOST = "127.0.0.1"
USERS = 8
WARM_UP = 5  # reviews
TEXT = "The patient asked whether the tablet may rise after breakfast. " * 60
QUESTIONS = ("natural", "coherent", "aligned", "verdict")
NAME, PASSWORD = "ana", "a-password-for-benches"
START_SECONDS = 300.0


class NotStarted(Exception):
    """The platform did not answer in time."""


@dataclass
class Client:
    """An annotator's browser: cookies are kept, JSON is read and written.

    `page`: the last page, of platforms that answer with one.
    """

    port: int
    cookies: CookieJar = field(default_factory=CookieJar)
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    page: str = ""

    @contextmanager
    def timed(self, action: str) -> Iterator[None]:
        """Record the milliseconds that the block takes under `action`."""
        started = time.perf_counter()
        yield
        self.times[action].append((time.perf_counter() - started) * 1000)

    def ask(self, method: str, path: str, body: Any = None, *, form: Mapping[str, str] | None = None) -> Any:
        """Send a request; returns the parsed JSON, or the text. Raises HTTPError."""
        headers = {"X-CSRFToken": next((c.value or "" for c in self.cookies if c.name == "csrftoken"), "")}
        headers["Referer"] = f"http://{HOST}:{self.port}/"
        data = None
        if form is not None:
            data, headers["Content-Type"] = urlencode(form).encode(), "application/x-www-form-urlencoded"
        elif body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(f"http://{HOST}:{self.port}{path}", data, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))
        with opener.open(request, timeout=60) as response:
            text = response.read().decode()
            is_json = "json" in response.headers.get("Content-Type", "")
        return json.loads(text) if is_json and text else text


class Peer(ABC):
    """One platform."""

    name = ""
    package = ""

    def __init__(self, environments: Path, home: Path) -> None:
        self.programs, self.home = environments / self.package / "bin", home
        self.port = free_port()

    @abstractmethod
    def command(self) -> list[str]:
        """The command line of its web server, after anything that has to be prepared."""

    @abstractmethod
    def sign_in(self, client: Client, number: int) -> None:
        """Sign in the annotator of this number; number 0 prepares the project."""

    @abstractmethod
    def prepare(self, client: Client, items: int) -> None:
        """Create the questions and items."""

    @abstractmethod
    def review(self, client: Client, number: int) -> None:
        """Open the item of this number, from 0, save the answers and submit them.

        The actions `next` and `submit` are timed.
        """

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home)}

    def run(self, *arguments: str) -> None:
        """Run one of its programs to its end."""
        program, *rest = arguments
        command = [str(self.programs / program), *rest]
        subprocess.run(command, cwd=self.home, env=self.environment, capture_output=True, check=True)

    @contextmanager
    def running(self) -> Iterator[int]:
        """Its web server; yields the process group."""
        with (self.home / "log").open("wb") as log:
            server = subprocess.Popen(
                self.command(), cwd=self.home, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                self._wait(server)
                yield server.pid
            finally:
                children.kill_group(server.pid)
                server.wait()

    def _wait(self, server: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and server.poll() is None:
            try:
                Client(self.port).ask("GET", "/")
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(1)
                continue
            return
        raise NotStarted((self.home / "log").read_text(errors="replace")[-300:])


class Doccano(Peer):
    """doccano, on SQLite: classification with one label for each answer."""

    name, package = "doccano", "doccano"

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "DOCCANO_HOME": str(self.home)}

    def command(self) -> list[str]:
        self.run("doccano", "init")
        self.run("doccano", "createuser", "--username", NAME, "--password", PASSWORD)
        return [str(self.programs / "doccano"), "webserver", "--port", str(self.port), "--workers", "2"]

    def sign_in(self, client: Client, number: int) -> None:
        client.ask("POST", "/v1/auth/login/", {"username": NAME, "password": PASSWORD})

    def prepare(self, client: Client, items: int) -> None:
        kind = {"project_type": "DocumentClassification", "resourcetype": "TextClassificationProject"}
        project = {"name": "bench", "description": "bench", "guideline": "", **kind}
        self.project = f"/v1/projects/{client.ask('POST', '/v1/projects', project)['id']}"
        self.labels = []
        for key, question in zip("abcd", QUESTIONS, strict=True):
            label = {"text": question, "prefix_key": None, "suffix_key": key, "background_color": "#209CEE"}
            self.labels.append(client.ask("POST", f"{self.project}/category-types", label)["id"])
        for _ in range(items):
            client.ask("POST", f"{self.project}/examples", {"text": TEXT, "meta": {}})

    def review(self, client: Client, number: int) -> None:
        page = f"{self.project}/examples?{urlencode({'limit': 1, 'offset': number, 'q': '', 'confirmed': ''})}"
        with client.timed("next"):
            example = f"{self.project}/examples/{client.ask('GET', page)['results'][0]['id']}"
            client.ask("GET", f"{example}/categories")
        for label in self.labels:
            client.ask("POST", f"{example}/categories", {"label": label})
            client.ask("GET", f"{example}/categories")
        with client.timed("submit"):
            client.ask("POST", f"{example}/states", {})
            client.ask("GET", f"{self.project}/metrics/progress")


class LabelStudio(Peer):
    """Label Studio, on SQLite: four choices beside a text."""

    name, package = "Label Studio", "label-studio"

    @property
    def environment(self) -> dict[str, str]:
        quiet = {"COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false", "SENTRY_DSN": ""}
        return {**super().environment, "FRONTEND_SENTRY_DSN": "", **quiet}

    def command(self) -> list[str]:
        account = ["--username", _mail(0), "--password", PASSWORD]
        place = ["--port", str(self.port), "--data-dir", str(self.home)]
        return [str(self.programs / "label-studio"), "start", "--no-browser", *place, *account]

    def sign_in(self, client: Client, number: int) -> None:
        action = "signup" if number else "login"
        page = client.ask("GET", f"/user/{action}/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        form = {"email": _mail(number), "password": PASSWORD, "csrfmiddlewaretoken": token[1] if token else ""}
        client.ask("POST", f"/user/{action}/", form=form)

    def prepare(self, client: Client, items: int) -> None:
        choice = '<Choices name="{0}" toName="text"><Choice value="yes"/><Choice value="no"/></Choices>'
        questions = "".join(choice.format(question) for question in QUESTIONS)
        config = f'<View><Text name="text" value="$text"/>{questions}</View>'
        created = client.ask("POST", "/api/projects", {"title": "bench", "label_config": config})
        self.project = created["id"]
        client.ask("POST", f"/api/projects/{self.project}/import", [{"text": TEXT}] * items)

    def review(self, client: Client, number: int) -> None:
        with client.timed("next"):
            task = client.ask("GET", f"/api/projects/{self.project}/next")["id"]
        answers = [
            {"from_name": question, "to_name": "text", "type": "choices", "value": {"choices": ["yes"]}}
            for question in QUESTIONS
        ]
        work = {"result": answers, "lead_time": 1.0}
        draft = client.ask("POST", f"/api/tasks/{task}/drafts?project={self.project}", work)
        with client.timed("submit"):
            annotation = {**work, "draft_id": draft["id"]}
            client.ask("POST", f"/api/tasks/{task}/annotations?project={self.project}", annotation)


def _mail(number: int) -> str:
    return f"{NAME}{number}@example.org"


class Potato(Peer):
    """Potato, which stores answers in files: four radio questions beside a text."""

    name, package = "Potato", "potato-annotation"

    def command(self) -> list[str]:
        schemes = [
            {"annotation_type": "radio", "name": question, "description": question, "labels": ["yes", "no"]}
            for question in QUESTIONS
        ]
        config = {
            "annotation_task_name": "bench",
            "task_dir": ".",
            "output_annotation_dir": "annotations",
            "output_annotation_format": "json",
            "data_files": ["items.jsonl"],
            "item_properties": {"id_key": "id", "text_key": "text"},
            "user_config": {"allow_all_users": True, "users": []},
            "require_password": False,
            "annotation_schemes": schemes,
            "site_dir": "default",
        }
        items = "".join(json.dumps({"id": f"i{number}", "text": TEXT}) + "\n" for number in range(300))
        (self.home / "items.jsonl").write_text(items)
        (self.home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        return [str(self.programs / "potato"), "start", "config.yaml", "-p", str(self.port)]

    def sign_in(self, client: Client, number: int) -> None:
        client.ask("POST", "/auth", form={"email": f"{NAME}{number}", "pass": "", "action": "login"})
        client.page = client.ask("GET", "/annotate")

    def prepare(self, client: Client, items: int) -> None:
        """Its configuration names the items."""

    def review(self, client: Client, number: int) -> None:
        found = re.search(r'name="instance_id"[^>]*value="([^"]+)"|id="instance_id"[^>]*value="([^"]+)"', client.page)
        if found is None:
            raise NotStarted(f"no item on Potato's page: {client.page[:300]}")
        item = found[1] or found[2]
        answers = {"instance_id": item, "annotations": {f"{question}:::yes": "yes" for question in QUESTIONS}}
        client.ask("POST", "/updateinstance", answers)  # while typing
        with client.timed("submit"):
            client.ask("POST", "/updateinstance", answers)
        with client.timed("next"):
            client.page = client.ask("POST", "/annotate", {"action": "next_instance", "instance_id": item})


PEERS: tuple[type[Peer], ...] = (Potato, Doccano, LabelStudio)


def measure(environments: Path, folder: Path, reviews: int) -> Iterator[Result]:
    """Each platform's processor time for one review, and how long 8 annotators at once wait."""
    for kind in PEERS:
        home = folder / kind.package
        home.mkdir(parents=True)
        peer = kind(environments, home)
        if not peer.programs.exists():
            yield skipped(kind.name, f"no environment {environments / kind.package}")
            continue
        try:
            yield from _measure(peer, reviews)
        except urllib.error.HTTPError as failure:
            yield skipped(kind.name, f"{failure.url}: {failure.code} {failure.read()[-300:]!r}")
        except (NotStarted, OSError, subprocess.CalledProcessError) as failure:
            yield skipped(kind.name, f"{type(failure).__name__}: {failure}"[:200])


def _measure(peer: Peer, reviews: int) -> Iterator[Result]:
    with peer.running() as group:
        clients = [Client(peer.port) for _ in range(USERS)]
        peer.sign_in(clients[0], 0)
        peer.prepare(clients[0], WARM_UP + reviews * 2 + USERS)
        _work(peer, clients[0], range(WARM_UP))
        used = processor.total_milliseconds(group)
        _work(peer, clients[0], range(WARM_UP, WARM_UP + reviews))
        used = processor.total_milliseconds(group) - used
        yield without_goal(f"{peer.name}: processor time of a review, mean", used / reviews, "ms")
        for number, client in enumerate(clients[1:], 1):
            peer.sign_in(client, number)
        yield from _waits_together(peer, clients, WARM_UP + reviews, max(reviews // USERS, 1))


def _waits_together(peer: Peer, clients: Sequence[Client], first: int, reviews: int) -> Iterator[Result]:
    """All annotators work at once, each at `reviews` items of their own, counted from `first`."""
    jobs = []
    for number, client in enumerate(clients):
        client.times.clear()
        start = first + number * reviews
        jobs.append(partial(_work, peer, client, range(start, start + reviews)))
    run_in_threads(jobs)
    for action in ("next", "submit"):
        times = [time for client in clients for time in client.times[action]]
        yield without_goal(f"{peer.name}, {USERS} users: {action} p95", percentile(times, 0.95), "ms")


def _work(peer: Peer, client: Client, numbers: range) -> None:
    for number in numbers:
        peer.review(client, number)
