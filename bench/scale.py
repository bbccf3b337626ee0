"""What gives first as a site grows: `python -m bench.scale [JUDGMENTS ...] [--json]`.

Each size is a site of its own on PostgreSQL, with gunicorn: 1,000 accounts of physicians, a
hundredth as many open cases as judgments, and finished runs of at most a million judgments.
Measured are a physician's steps, what many physicians get done at once, the pages that read large
tables, the sweeper's round, the bundle of a run, a backup, and the room on disk. Ten million
judgments need 20 GB and an hour.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import sites
from bench.core import Result, as_json, by_size, percentile, skipped, without_goal
from bench.servers import Missing

SIZES = (10_000, 100_000, 1_000_000)
A_RUN = 1_000_000  # judgments
A_SAMPLE = 58  # judgments: ten models, 5.8 rubrics
A_CASE = 100  # judgments
PHYSICIANS = 1_000
SECONDS = 20.0  # in which many work without pauses
PAGES = {
    "leaderboard": "/evaluation/releases/bare/1/results/",
    "list of runs": "/evaluation/runs/",
    "list of cases": "/review/cases/",
    "overview": "/review/overview/",
    "people": "/review/people/",
    "system": "/system/",
}
LARGEST = (
    "SELECT relname, pg_total_relation_size(oid), pg_indexes_size(oid) FROM pg_class WHERE relkind = 'r'"
    " ORDER BY 2 DESC LIMIT 4"
)


def seed(judgments: int) -> dict[str, Any]:
    """Make runs and the accounts that `bench.seed` has not made."""
    from django.db import connection

    from bench import report
    from review.models import User

    for number in range(sites.PEOPLE, PHYSICIANS):
        User.objects.create_user(f"physician-{number}", role="physician")
    runs = max(1, round(judgments / A_RUN))
    seeded = report.seed(max(1, round(judgments / runs / A_SAMPLE)), runs)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")  # what autovacuum does within a minute
    return seeded


def pages(run: int, session: str) -> dict[str, float]:
    """Seconds of each page, of a round of the sweeper, and of the bundle of a run."""
    from django.conf import settings
    from django.core.cache import cache
    from django.test import Client

    from mhb_site.server import sweeping

    client = Client(HTTP_HOST="localhost")
    client.cookies[settings.SESSION_COOKIE_NAME] = session
    times = {}

    def fetch(path: str) -> int:
        answer: Any = client.get(path)
        if answer.status_code != 200:
            raise RuntimeError(f"{path}: {answer.status_code}")
        return sum(map(len, answer.streaming_content if answer.streaming else [answer.content]))

    fetch("/evaluation/runs/")  # loads what a process needs once
    for name, path in {**PAGES, "bundle of a run": f"/evaluation/runs/{run}/bundle/"}.items():
        cache.clear()
        started = time.perf_counter()
        fetch(path)
        times[name] = time.perf_counter() - started
    started = time.perf_counter()
    sweeping.sweep()
    times["round of the sweeper"] = time.perf_counter() - started
    return times


def part(name: str, *arguments: str) -> None:
    import django

    django.setup()
    print(json.dumps(seed(int(arguments[0])) if name == "seed" else pages(int(arguments[0]), arguments[1])))


def measure(judgments: int) -> Iterator[Result]:
    def row(name: str, value: float, unit: str) -> Result:
        return without_goal(f"{name}, {unit}, {judgments} judgments", value, unit)

    with (
        tempfile.TemporaryDirectory(prefix="mhb-bench-") as home,
        sites.postgres_sites(Path(home), [max(sites.PEOPLE, judgments // A_CASE)]) as [site],
    ):
        started = time.monotonic()
        seeded = sites.run_module(["-m", "bench.scale", "part", "seed", str(judgments)], site.environment)
        yield row("making the judgments", time.monotonic() - started, "s")
        for users, cycles in ((1, 25), (8, 4)):
            times = site.load("day", users, cycles=cycles)["times"]
            for action in ("next", "reveal", "draft", "submit"):
                yield row(f"{action}, p95 of {users} at once", percentile(times[action], 0.95), "ms")
        done = site.load("shift", sites.PEOPLE, seconds=SECONDS, pause=0)["times"]["submit"]
        yield row(f"cases of {sites.PEOPLE} without pauses", len(done) / SECONDS * 60, "a minute")
        run, session = str(seeded["run"]), site.seeded["session"]
        for module in ("bench.report", "bench.scale"):
            name = "ask" if module == "bench.report" else "pages"
            for what, seconds in sites.run_module(["-m", module, "part", name, run, session], site.environment).items():
                yield row(what, seconds * 1000, "ms")
        yield from (row(*figures) for figures in _backup(site, Path(home) / "backup"))
        yield from (row(*figures) for figures in _room(site))


def _backup(site: sites.Site, folder: Path) -> Iterator[tuple[str, float, str]]:
    started = time.monotonic()
    sites.manage(site.environment, "backup", str(folder))
    yield "backup", time.monotonic() - started, "s"
    yield "backup", sum(path.stat().st_size for path in folder.rglob("*.gz")) / 1e6, "MB"


def _room(site: sites.Site) -> Iterator[tuple[str, float, str]]:
    import psycopg

    with psycopg.connect(site.database) as connection:
        [(size,)] = connection.execute("SELECT pg_database_size(current_database())").fetchall()
        yield "database", size / 1e6, "MB"
        for table, total, indexes in connection.execute(LARGEST).fetchall():
            yield table, total / 1e6, "MB"
            yield f"{table}: its indexes", indexes / 1e6, "MB"


def main(arguments: Sequence[str] | None = None) -> None:
    argv = sys.argv[1:] if arguments is None else arguments
    if argv[:1] == ["part"]:
        part(*argv[1:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("judgments", nargs="*", type=int, default=SIZES, help="sizes (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, goal, met}")
    options: Any = parser.parse_args(argv)
    results = []
    for judgments in options.judgments:
        try:
            for result in measure(judgments):
                results.append(result)
                print(result.name, result.value, file=sys.stderr)
        except Missing as missing:
            results.append(skipped(f"PostgreSQL, {judgments} judgments", str(missing)))
    print(as_json(results) if options.json else by_size(results))


if __name__ == "__main__":
    main()
