"""Kills processes and services at random: `python -m bench.chaos [--minutes N] [--quick]`.

The production shape on two hosts (network namespaces, which need root on Linux; without them, on
one): workers, sweepers, gunicorn, PostgreSQL, Redis, and a stub in the models' place. A large run
is at work, physicians review, and files are imported. Every few seconds something is killed with
SIGKILL, or the second host's network is cut, and comes back a little later. At the end everything
is counted. Goals are counts; `--seed` repeats the order of the kills, not their effect.
"""

import argparse
import http.client
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from bench import servers
from bench.browsers import Browser, Unexpected
from bench.core import Result, as_json, at_least, at_most, exactly, skipped, table, without_goal
from bench.engine import ROOT, Lanes, Stub, stub
from bench.hosts import Host, second_host
from bench.sites import gunicorn, manage, run_module
from bench.workers import IMPORTED, queue_import
from mhb_site.server import children

LATENCY, SIGMA = 0.6, 0.8  # seconds; the spread of its logarithm
IN_FLIGHT = 60
SAMPLES = 1_200  # a minute; two calls each
LEASE = 10  # seconds
CASES, PEOPLE = 100, 4  # cases a minute
PAUSE = 2.0  # seconds; a physician's longest, before each step
LAST = 1800.0  # seconds for the end of the work after the last kill; other work may slow it


class Physician(threading.Thread):
    """Somebody who reviews, and tries again whatever fails."""

    def __init__(self, browser: Browser, stopped: threading.Event) -> None:
        super().__init__(daemon=True)
        self.browser, self.stopped = browser, stopped
        self.completed = 0
        self.failures: list[Exception] = []

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                self.browser.work()
                self.completed += 1
            except (Unexpected, OSError, http.client.HTTPException) as failure:
                self.failures.append(failure)
                self.stopped.wait(1)


class Site:
    """All processes and services, and the ways to break them."""

    def __init__(self, stack: ExitStack, host: Host | None, folder: Path) -> None:
        address = host.address if host else servers.HOST
        self.host = host
        self.postgres = stack.enter_context(servers.postgres_server(durable=True, host=address))
        self.redis = stack.enter_context(servers.redis_server(address))
        self.environment = {
            "MHB_DATABASE_URL": self.postgres.url,
            "MHB_REDIS_URL": self.redis.url,
            "MHB_DEBUG": "false",
            "MHB_DATA_DIR": str(folder / "one"),
            "MHB_STATIC_ROOT": str(folder / "static"),
            "MHB_SECRET_KEY": "only-for-this-bench-" * 2,
            "MHB_HTTPS": "false",
            "MHB_LEASE_SECONDS": str(LEASE),
        }
        self.port = servers.free_port()
        self.families: dict[str, children.Children] = {}
        self.commands: dict[str, Sequence[str]] = {
            "lanes": children.worker("mhb-lanes"),
            "tasks": children.worker("mhb"),
            "sweeper": children.django("sweep", "--forever"),
            "gunicorn": gunicorn(self.port),
            "lanes, second host": [*(host.prefix if host else ()), *children.worker("mhb-lanes")],
            "sweeper, second host": [*(host.prefix if host else ()), *children.django("sweep", "--forever")],
        }
        one = children.Children(cwd=str(ROOT), environment=self.environment)
        two = children.Children(cwd=str(ROOT), environment={**self.environment, "MHB_DATA_DIR": str(folder / "two")})
        for family in (one, two):
            stack.callback(family.stop)
        self.families = {name: two if "second" in name else one for name in self.commands}

    def start(self) -> None:
        manage(self.environment, "collectstatic", "--noinput", "-v0")
        for name, command in self.commands.items():
            self.families[name].start(name, command)
        if not children.wait_for_port(servers.HOST, self.port):
            raise RuntimeError("the site does not start")
        while self.number("SELECT count(*) FROM generation_workerbeat") < 4:  # three workers; sweepers share one
            time.sleep(0.2)

    def faults(self) -> dict[str, tuple[Callable[[], None], Callable[[], None]]]:
        """What breaks each part, and what brings it back."""

        def of(name: str) -> tuple[Callable[[], None], Callable[[], None]]:
            return lambda: self._kill(name), lambda: self.families[name].start(name, self.commands[name])

        faults = {name: of(name) for name in self.commands}
        faults["PostgreSQL"] = (self.postgres.stop, self.postgres.start)
        faults["Redis"] = (self.redis.stop, self.redis.start)
        if host := self.host:
            faults["network of the second host"] = (lambda: host.connect(False), lambda: host.connect(True))
        return faults

    def _kill(self, name: str) -> None:
        process = self.families[name].processes.pop(name)
        children.kill_group(process.pid)
        process.wait()

    def dead(self) -> set[str]:
        """The processes that ended by themselves."""
        return {
            name
            for name, family in self.families.items()
            if name in family.processes and family.processes[name].poll() is not None
        }

    def rows(self, query: str) -> list[Any]:
        import psycopg

        with psycopg.connect(self.postgres.url) as connection:
            return connection.execute(query.encode()).fetchall()

    def number(self, query: str) -> int:
        return int(self.rows(query)[0][0] or 0)


UNFINISHED = (
    "SELECT (SELECT count(*) FROM generation_job WHERE status NOT IN ('finished', 'paused'))"
    " + (SELECT count(*) FROM generation_import WHERE status NOT IN ('done', 'failed'))"
)


def measure(minutes: float, seed: int) -> Iterator[Result]:
    random, samples = Random(seed), round(SAMPLES * minutes)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mhb-chaos-")))
        host = None
        try:
            host = stack.enter_context(second_host())
        except servers.Missing as missing:
            yield skipped("two hosts", str(missing))
        site = Site(stack, host, folder)
        to = stack.enter_context(stub(LATENCY, SIGMA, host.address if host else servers.HOST))
        lanes = Lanes(site.environment)
        manage(site.environment, "migrate", "-v0")
        seeded = run_module(["-m", "bench.seed", str(round(CASES * max(1, minutes))), str(PEOPLE)], site.environment)
        lanes.call("seed", samples)
        site.start()
        run = lanes.call("launch", to.url, samples, IN_FLIGHT)
        stopped = threading.Event()
        browsers = [
            Browser(servers.HOST, site.port, cookies, seeded["answers"], PAUSE) for cookies in seeded["sessions"]
        ]
        people = [Physician(browser, stopped) for browser in browsers]
        for person in people:
            person.start()
        kills, dead, imports = _break(site, random, 60 * minutes, lambda n: queue_import(lanes, folder, n))
        end = time.monotonic() + LAST
        while site.number(UNFINISHED) and time.monotonic() < end:
            time.sleep(0.5)
        stopped.set()
        for person in people:
            person.join()
        yield from (without_goal(f"killed: {name}", number, "times") for name, number in sorted(kills.items()))
        yield exactly("processes that ended by themselves", len(dead), " ".join(sorted(dead)), 0)
        yield from _run(site, run, samples, to)
        yield exactly("files imported whole", site.number(IMPORTED_WHOLE), "", imports)
        yield from _reviews(site, people)


def _break(
    site: Site, random: Random, seconds: float, queue: Callable[[int], object]
) -> tuple[Counter[str], set[str], int]:
    """Break one part after the other; returns how often, who died unasked, and the imports."""
    faults, kills, dead, imports = site.faults(), Counter[str](), set[str](), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name = random.choice(sorted(faults))
        time.sleep(random.uniform(1, 4))
        if name == "tasks":
            imports += 1
            queue(imports)
        break_it, mend = faults[name]
        break_it()
        time.sleep(random.uniform(0, LEASE / 2 if random.random() < 0.8 else 1.5 * LEASE))
        mend()
        kills[name] += 1
        print("killed:", name, *(f"ended: {ended}" for ended in site.dead()), file=sys.stderr)
        dead |= site.dead()
    return kills, dead | site.dead(), imports


IMPORTED_WHOLE = (
    "SELECT count(*) FROM (SELECT source_id FROM generation_sourcerecord JOIN generation_source s ON s.id = source_id"
    f" WHERE s.name LIKE 'questions-%' GROUP BY source_id HAVING count(*) = {IMPORTED}) AS whole"
)


def _run(site: Site, run: int, samples: int, to: Stub) -> Iterator[Result]:
    """Every result once, and the ledger against the calls that the stub answered."""
    [(status, why, calls, hits)] = site.rows(
        f"SELECT status, paused_because, calls, hits FROM generation_job WHERE id = {run}"
    )
    yield exactly(f"run {status} {why}".strip(), status == "finished", "", 1)
    for name in ("response", "judgment"):
        done = f"SELECT count(*) FROM evaluation_{name} WHERE run_id = {run} AND status = 'done' AND error = ''"
        yield exactly(f"{name}s done", site.number(done), "", samples)
    lines = f"FROM generation_call WHERE job_id = {run} AND hit_of_id IS NULL"
    ledger = site.number(f"SELECT count(*) {lines}")
    paid = site.number(f"SELECT count(*) {lines} AND error = ''")
    named = site.number(f"SELECT count(*) {lines} AND (repeated OR error <> '')")
    twice = site.number(f"SELECT count(*) - count(DISTINCT subject) {lines} AND error = ''")
    answered = to.stats()["answered"]
    yield without_goal("calls that the stub answered", answered, "")
    yield at_least("calls paid for in the ledger", paid, "", 2 * samples)
    yield at_least("answered calls that the ledger lacks: their worker was killed", answered - paid, "", 0)
    yield at_most("the same, beside the attempts named as repeated or failed", answered - paid, "", named)
    yield at_most("rows paid for again after their lease", twice, "", named)
    yield exactly("calls of the run, beside the ledger's lines", calls - ledger, "", 0)
    found = site.number(f"SELECT count(*) FROM generation_call WHERE job_id = {run} AND hit_of_id IS NOT NULL")
    yield exactly("replies found again, beside the run's number", hits - found, "", 0)


def _reviews(site: Site, people: Sequence[Physician]) -> Iterator[Result]:
    completed = sum(person.completed for person in people)
    yield without_goal(
        "requests of physicians that failed and were tried again", sum(len(p.failures) for p in people), ""
    )
    yield at_least(
        "reviews stored, of those confirmed", site.number("SELECT count(*) FROM review_review"), "", completed
    )
    twice = "SELECT count(*) - count(DISTINCT (case_id, physician_id, phase, attempt)) FROM review_review"
    yield exactly("reviews stored twice", site.number(twice), "", 0)
    audit = run_module(["manage.py", "verify_audit", "--json"], site.environment)
    yield exactly(f"faults of the audit trail, of {audit['checked']} events", len(audit["faults"]), "", 0)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="of kills (10)")
    parser.add_argument("--quick", action="store_true", help="one minute")
    parser.add_argument("--seed", type=int, help="of the order of the kills; otherwise a new one")
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, goal, met}")
    options: Any = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends what was started, as Ctrl-C does
    seed = options.seed if options.seed is not None else Random().randrange(10_000)
    results = [without_goal("seed", seed, "")]
    for result in measure(1 if options.quick else options.minutes, seed):
        results.append(result)
        print(result.name, result.value, file=sys.stderr)
    print(as_json(results) if options.json else table(results))


if __name__ == "__main__":
    main()
