"""From the last tag of this minor version to this tree while people and workers work.

The old processes go on after `migrate`, the new ones start beside them, the old ones stop: no
request fails, nothing is lost or paid for twice, and the audit trail has no fault.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench import servers
from bench.browsers import Browser
from bench.chaos import Physician
from bench.engine import stub
from bench.sites import gunicorn
from mhb_site.env import ROOT
from mhb_site.server import children
from tests.profile import installed
from tests.site.test_additive_migrations import last_tag

pytestmark = [pytest.mark.processes, pytest.mark.plain]
CASES, PEOPLE, SAMPLES, IN_FLIGHT = 400, 3, 40, 4
LATENCY, PAUSE = 0.3, 0.6  # seconds; of a call, and the longest before a physician's step
TIMEOUT = 300.0  # seconds; only what hangs takes that long


class Version:
    """One version of the code, and its processes."""

    def __init__(self, root: Path, environment: dict[str, str], folder: Path) -> None:
        self.environment = {**environment, "MHB_STATIC_ROOT": str(folder)}
        self.port = servers.free_port()
        self.family = children.Children(cwd=str(root), environment=self.environment)

    def run(self, *arguments: object) -> str:
        """The last line that Python prints with these arguments."""
        process = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=self.family.cwd,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return (process.stdout.splitlines() or [""])[-1]

    def start(self) -> None:
        self.run("manage.py", "collectstatic", "--noinput", "-v0")
        self.family.start("web", gunicorn(self.port))
        self.family.start("worker", children.worker())
        self.family.start("sweeper", children.django("sweep", "--forever"))
        assert children.wait_for_port(servers.HOST, self.port)
        with urllib.request.urlopen(f"http://{servers.HOST}:{self.port}/live", timeout=TIMEOUT):
            pass  # gunicorn listens before its workers have loaded the site

    def stop(self) -> None:
        assert [name for name, process in self.family.processes.items() if process.poll() is not None] == []
        self.family.stop()


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[tuple[Version, Version]]:
    """The last tag and this tree, on one PostgreSQL and one Redis."""
    archive = subprocess.run(["git", "archive", last_tag()], cwd=ROOT, capture_output=True, check=True).stdout
    (tmp_path / "old").mkdir()
    subprocess.run(["tar", "-x", "-C", str(tmp_path / "old")], input=archive, check=True)
    with ExitStack() as stack:
        with installed():
            postgres = stack.enter_context(servers.postgres_server())
            redis = stack.enter_context(servers.redis_server())
        environment = {
            "DJANGO_SETTINGS_MODULE": "mhb_site.settings",
            "MHB_DATABASE_URL": postgres.url,
            "MHB_REDIS_URL": redis.url,
            "MHB_DATA_DIR": str(tmp_path / "data"),
            "MHB_SECRET_KEY": "x" * 40,
            "MHB_HTTPS": "false",
        }
        old, new = (
            Version(tmp_path / "old", environment, tmp_path / "old-static"),
            Version(ROOT, environment, tmp_path / "new-static"),
        )
        for version in (old, new):
            stack.callback(version.family.stop)
        yield old, new


def wait_until(description: str, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {description}"
        time.sleep(0.1)


def test_people_and_workers_go_on_during_an_upgrade(versions: tuple[Version, Version]) -> None:
    old, new = versions
    old.run("manage.py", "migrate", "-v0")
    seeded = json.loads(old.run("-m", "bench.seed", CASES, PEOPLE))
    old.run("-m", "bench.lane", "seed", SAMPLES)
    stopped = threading.Event()
    people = [
        Physician(Browser(servers.HOST, old.port, session, seeded["answers"], PAUSE), stopped)
        for session in seeded["sessions"]
    ]

    def rows(query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(old.environment["MHB_DATABASE_URL"]) as connection:
            return connection.execute(query.encode()).fetchall()

    def everybody_completes_a_case(when: str) -> None:
        before = [person.completed for person in people]
        wait_until(f"{when}: {[person.failures for person in people]}", lambda: all(
            person.completed > done for person, done in zip(people, before, strict=True)
        ))  # fmt: skip

    with stub(LATENCY) as to:
        old.start()
        for person in people:
            person.start()
        launch = ("-m", "bench.lane", "launch", to.url, SAMPLES, IN_FLIGHT)
        old.run(*launch)
        everybody_completes_a_case("before")
        wait_until("the first run is at work", lambda: to.stats()["answered"] > IN_FLIGHT)
        events = rows("SELECT sequence, hash FROM review_event")

        new.run("manage.py", "migrate", "-v0")
        old.run(*launch)  # the old code writes into the new tables
        everybody_completes_a_case("the old processes on the new tables")

        new.start()
        for person in people:
            person.browser.port = new.port  # as the proxy does, for its next connection
        old.stop()
        everybody_completes_a_case("the new processes")
        unfinished = "SELECT count(*) FROM generation_job WHERE status <> 'finished'"
        wait_until("both runs have finished", lambda: rows(unfinished) == [(0,)])
        stopped.set()
        for person in people:
            person.join()
        answered = to.stats()["answered"]
        new.stop()

    assert [person.failures for person in people] == [[]] * PEOPLE
    for table in ("response", "judgment"):
        done = f"SELECT count(*) FROM evaluation_{table} WHERE status = 'done' AND error = ''"
        assert rows(done) == [(2 * SAMPLES,)], table
    calls = "SELECT count(*), count(DISTINCT subject) FROM generation_call WHERE error = ''"
    assert rows(f"{calls} AND job_id IS NOT NULL") == [(4 * SAMPLES, 4 * SAMPLES)]
    [(paid, _subjects)] = rows(calls)  # with the trials of each model before its run
    assert paid == answered
    [(reviews, distinct)] = rows(
        "SELECT count(*), count(DISTINCT (case_id, physician_id, phase, attempt)) FROM review_review"
    )
    assert distinct == reviews >= sum(person.completed for person in people)
    assert set(events) <= set(rows("SELECT sequence, hash FROM review_event"))
    audit = json.loads(new.run("manage.py", "verify_audit", "--json"))
    assert audit["faults"] == []
