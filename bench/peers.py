"""The same work with other annotation platforms: Potato, doccano and Label Studio.

Each runs from PyPI in a virtual environment of its own: FOLDER/potato-annotation, FOLDER/doccano
and FOLDER/label-studio (docs/performance.md says how to make them). One annotator opens the
next item, has the answers saved and submits them, as the platform's own page asks its server to.
Their pages show one text and four questions, a tenth of what a case of MHB shows.
"""

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench import processor
from bench.core import Result, skipped, without_goal
from bench.servers import free_port
from mhb_site.server import children

HOST = "127.0.0.1"
TEXT = "The patient asked whether the tablet may rise after breakfast. " * 60
QUESTIONS = ("natural", "coherent", "aligned", "verdict")
NAME, PASSWORD, MAIL = "ana", "a-password-for-benches", "ana@example.org"
START_SECONDS = 300.0


class NotStarted(Exception):
    """The platform did not answer in time."""


@dataclass
class Client:
    """A browser's requests: cookies are kept, JSON is read and written."""

    port: int
    cookies: CookieJar = field(default_factory=CookieJar)

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
        self.client = Client(self.port)

    @abstractmethod
    def command(self) -> list[str]:
        """The command line of its web server, after anything that has to be prepared."""

    @abstractmethod
    def prepare(self, items: int) -> None:
        """Sign in, and create the questions and items."""

    @abstractmethod
    def review(self, number: int) -> None:
        """Open the item of this number, from 0, save the answers and submit them."""

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
                self.client.ask("GET", "/")
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

    def prepare(self, items: int) -> None:
        self.client.ask("POST", "/v1/auth/login/", {"username": NAME, "password": PASSWORD})
        kind = {"project_type": "DocumentClassification", "resourcetype": "TextClassificationProject"}
        project = {"name": "bench", "description": "bench", "guideline": "", **kind}
        self.project = f"/v1/projects/{self.client.ask('POST', '/v1/projects', project)['id']}"
        self.labels = []
        for key, question in zip("abcd", QUESTIONS, strict=True):
            label = {"text": question, "prefix_key": None, "suffix_key": key, "background_color": "#209CEE"}
            self.labels.append(self.client.ask("POST", f"{self.project}/category-types", label)["id"])
        for _ in range(items):
            self.client.ask("POST", f"{self.project}/examples", {"text": TEXT, "meta": {}})

    def review(self, number: int) -> None:
        page = f"{self.project}/examples?{urlencode({'limit': 1, 'offset': number, 'q': '', 'confirmed': ''})}"
        example = f"{self.project}/examples/{self.client.ask('GET', page)['results'][0]['id']}"
        self.client.ask("GET", f"{example}/categories")
        for label in self.labels:
            self.client.ask("POST", f"{example}/categories", {"label": label})
            self.client.ask("GET", f"{example}/categories")
        self.client.ask("POST", f"{example}/states", {})
        self.client.ask("GET", f"{self.project}/metrics/progress")


class LabelStudio(Peer):
    """Label Studio, on SQLite: four choices beside a text."""

    name, package = "Label Studio", "label-studio"

    @property
    def environment(self) -> dict[str, str]:
        quiet = {"COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false", "SENTRY_DSN": ""}
        return {**super().environment, "FRONTEND_SENTRY_DSN": "", **quiet}

    def command(self) -> list[str]:
        account = ["--username", MAIL, "--password", PASSWORD]
        place = ["--port", str(self.port), "--data-dir", str(self.home)]
        return [str(self.programs / "label-studio"), "start", "--no-browser", *place, *account]

    def prepare(self, items: int) -> None:
        page = self.client.ask("GET", "/user/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        form = {"email": MAIL, "password": PASSWORD, "csrfmiddlewaretoken": token[1] if token else ""}
        self.client.ask("POST", "/user/login/", form=form)
        choice = '<Choices name="{0}" toName="text"><Choice value="yes"/><Choice value="no"/></Choices>'
        questions = "".join(choice.format(question) for question in QUESTIONS)
        config = f'<View><Text name="text" value="$text"/>{questions}</View>'
        created = self.client.ask("POST", "/api/projects", {"title": "bench", "label_config": config})
        self.project = created["id"]
        self.client.ask("POST", f"/api/projects/{self.project}/import", [{"text": TEXT}] * items)

    def review(self, number: int) -> None:
        task = self.client.ask("GET", f"/api/projects/{self.project}/next")["id"]
        answers = [
            {"from_name": question, "to_name": "text", "type": "choices", "value": {"choices": ["yes"]}}
            for question in QUESTIONS
        ]
        work = {"result": answers, "lead_time": 1.0}
        draft = self.client.ask("POST", f"/api/tasks/{task}/drafts?project={self.project}", work)
        self.client.ask(
            "POST", f"/api/tasks/{task}/annotations?project={self.project}", {**work, "draft_id": draft["id"]}
        )


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

    def prepare(self, items: int) -> None:
        self.client.ask("POST", "/auth", form={"email": NAME, "pass": "", "action": "login"})
        self.page = self.client.ask("GET", "/annotate")

    def review(self, number: int) -> None:
        found = re.search(r'name="instance_id"[^>]*value="([^"]+)"|id="instance_id"[^>]*value="([^"]+)"', self.page)
        if found is None:
            raise NotStarted(f"no item on Potato's page: {self.page[:300]}")
        item = found[1] or found[2]
        answers = {f"{question}:::yes": "yes" for question in QUESTIONS}
        for _save in range(2):  # while typing, and before the next item
            self.client.ask("POST", "/updateinstance", {"instance_id": item, "annotations": answers})
        self.page = self.client.ask("POST", "/annotate", {"action": "next_instance", "instance_id": item})


PEERS: tuple[type[Peer], ...] = (Potato, Doccano, LabelStudio)


def measure(environments: Path, folder: Path, reviews: int) -> Iterator[Result]:
    """Processor time of each platform's web server for one review, on average."""
    for kind in PEERS:
        home = folder / kind.package
        home.mkdir(parents=True)
        peer = kind(environments, home)
        if not peer.programs.exists():
            yield skipped(kind.name, f"no environment {environments / kind.package}")
            continue
        try:
            yield _measure(peer, reviews)
        except urllib.error.HTTPError as failure:
            yield skipped(kind.name, f"{failure.url}: {failure.code} {failure.read()[-300:]!r}")
        except (NotStarted, OSError, subprocess.CalledProcessError) as failure:
            yield skipped(kind.name, f"{type(failure).__name__}: {failure}"[:200])


def _measure(peer: Peer, reviews: int) -> Result:
    warm_up = 5
    with peer.running() as group:
        peer.prepare(reviews + warm_up)
        for number in range(warm_up):
            peer.review(number)
        used = processor.total_milliseconds(group)
        for number in range(warm_up, warm_up + reviews):
            peer.review(number)
        used = processor.total_milliseconds(group) - used
    return without_goal(f"{peer.name}: processor time of a review, mean", used / reviews, "ms")
