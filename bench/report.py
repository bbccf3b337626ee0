"""How long the report of a large run takes: `python -m bench.report`.

Ten models on 18,000 samples of 5.8 rubrics each: 1,044,000 judgments, in a temporary database.
Django's client requests the page of the run, its JSON, the poll of its progress and the response
browser: without any cache, as when a reader chooses other weights or samples; for the first time,
after the worker has counted the finished run; and again. A tenth of the samples, measured before,
shows how the time grows.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

SAMPLES, QUICK, MODELS = 18_000, 500, 10
TRAPS = ("A1", "A2", "A3", "A4", "A5", "B1", "B2", "B3", "C1", "C2", "C3", "D1", "D2", "E1")


def seed(samples: int, runs: int = 1) -> dict[str, Any]:
    """Create finished runs on a release of `samples` samples; the last one is measured."""
    from django.utils import timezone

    from bench.rows import bare_release
    from bench.seed import sign_in
    from generation.models import Endpoint

    release = bare_release(
        *(
            (
                "dialogue" if number % 3 else "report",
                [[TRAPS[(number + n // 3) % len(TRAPS)]] for n in range(5 + (number % 5 > 0))],
            )
            for number in range(samples)
        )
    )
    models = [
        Endpoint.objects.create(
            name=f"model-{n}", url="http://127.0.0.1:1/v1", model=f"m{n}", created_at=timezone.now()
        )
        for n in range(MODELS)
    ]
    made = [_run(release, models) for _ in range(runs)]
    return {"run": made[-1][0], "judgments": sum(count for _run, count in made), "session": sign_in("admin", "admin")}


def _run(release: Any, models: Sequence[Any]) -> tuple[int, int]:
    """A finished run, whose rows are made in SQL from the release; its number of judgments."""
    from django.db import connection
    from django.utils import timezone

    from evaluation.models import Run, RunEndpoint
    from evaluation.runs.rows import tallies

    now = timezone.now()
    run = Run.objects.create(release=release, judge=models[0], status="finished", created_at=now, finished_at=now)
    RunEndpoint.objects.bulk_create(RunEndpoint(run=run, endpoint=model) for model in models)
    text = "'The patient should rest, drink enough and see a physician if it lasts longer than a few days.'"
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO evaluation_response (run_id, endpoint_id, sample_id, variant, repeat, outcome, status, about, text,"
            " reasoning, tries, error, detail, live)"
            f" SELECT %s, e.id, s.id, '', 0, 'answered', 'done', '{{}}', {text}, '', 1, '', '', false"
            " FROM generation_releasedsample s, generation_endpoint e WHERE s.release_id = %s ORDER BY s.position, e.id",
            [run.pk, release.pk],
        )
        cursor.execute(
            "INSERT INTO evaluation_judgment (run_id, response_id, rubric_id, status, verdict, explanation, tries, error,"
            " detail, live)"
            f" SELECT %s, r.id, c.id, 'done',"
            " CASE WHEN (c.id * 7919 + r.id * 104729) %% 100 < 35 THEN 'not_met' ELSE 'met' END,"
            f" {text}, 1, '', '', false FROM evaluation_response r JOIN generation_releasedrubric c"
            " ON c.sample_id = r.sample_id WHERE r.run_id = %s ORDER BY r.id, c.id",
            [run.pk, run.pk],
        )
        count = cursor.rowcount
        Run.objects.filter(pk=run.pk).update(rubrics_total=count)
        tallies.tally(run.pk)  # as the worker does at the end of a run
    return run.pk, count


def ask(run: int, session: str) -> dict[str, float]:
    """Times of the page, the JSON, the poll and the response browser, in seconds."""
    from django.conf import settings
    from django.core.cache import cache
    from django.test import Client

    from evaluation.runs.rows import cache_warming

    client = Client(HTTP_HOST="localhost")
    client.cookies[settings.SESSION_COOKIE_NAME] = session

    def seconds(path: str) -> float:
        started = time.perf_counter()
        response = client.get(path)
        if response.status_code != 200:
            raise RuntimeError(f"{path}: {response.status_code}")
        return time.perf_counter() - started

    page = f"/evaluation/runs/{run}/"
    seconds("/evaluation/runs/")  # loads what a process needs once
    times = {}
    for name, path in {"page": page, "JSON": f"{page}report.json"}.items():
        cache.clear()
        times[f"{name}, nothing kept"] = seconds(path)
    cache.clear()
    started = time.perf_counter()
    cache_warming.warm(run)
    times["the worker counts"] = time.perf_counter() - started
    for name, path in {"JSON": f"{page}report.json", "page": page}.items():
        times[f"{name}, first"] = seconds(path)
        times[f"{name}, again"] = min(seconds(path) for _ in range(3))
    times["poll"] = min(seconds(f"{page}progress/") for _ in range(3))
    responses = f"{page}judgments/?endpoint=model-3&verdict=not_met"
    times["responses, page"] = max(seconds(path) for path in (f"{page}judgments/", responses))
    return times


def part(name: str, *arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
    import django

    django.setup()
    if name == "seed":
        from django.core.management import call_command
        from django.db import connection

        call_command("migrate", verbosity=0)
        if connection.vendor == "postgresql":
            # SQLite means an embedded site, which serves static files from their source folders.
            call_command("collectstatic", interactive=False, verbosity=0)
        result = seed(int(arguments[0]))
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
    else:
        result = ask(int(arguments[0]), arguments[1])
    print(json.dumps(result))


@contextmanager
def _database(sqlite: bool) -> Iterator[str]:
    from bench.servers import postgres

    if sqlite:
        with tempfile.TemporaryDirectory() as folder:
            yield folder
    else:
        with postgres() as url:
            yield url


def _times(samples: int, *, sqlite: bool) -> tuple[int, dict[str, float]]:
    """(number of judgments, times) of a run on `samples` samples."""
    from bench.core import in_process

    with _database(sqlite) as url, tempfile.TemporaryDirectory() as folder:
        environment = {
            "MHB_DATABASE_URL": "" if sqlite else url,
            **({"MHB_DATA_DIR": url} if sqlite else {}),
            "MHB_DEBUG": "false",
            "MHB_STATIC_ROOT": folder,
        }

        run = partial(in_process, "bench.report", environment)
        seeded = run("seed", str(samples))
        return int(seeded["judgments"]), run("ask", str(seeded["run"]), seeded["session"])


def measure(samples: int, *, sqlite: bool = False) -> list[Any]:
    from bench.core import at_most, without_goal

    fewer, smaller_times = _times(samples // 10, sqlite=sqlite)
    judgments, times = _times(samples, sqlite=sqlite)
    first_goal, browser_goal, suffix = (
        (2_000 if sqlite else 1_000),
        (300 if sqlite else 150),
        f"of {judgments:,} judgments",
    )
    goals = {"page, first": first_goal, "JSON, first": first_goal, "page, again": 100, "JSON, again": 100, "poll": 10}
    goals |= {"responses, page": browser_goal, "page, nothing kept": first_goal, "JSON, nothing kept": first_goal}
    growth = times["page, nothing kept"] / smaller_times["page, nothing kept"]
    return [
        *(at_most(f"{name} {suffix}", times[name] * 1000, "ms", goal) for name, goal in goals.items()),
        without_goal(f"the worker counts {suffix}", times["the worker counts"] * 1000, "ms"),
        at_most(f"page, nothing kept: growth from {fewer:,}", growth, "times", judgments / fewer),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if arguments is None else arguments
    if argv[:1] == ["part"]:
        part(*argv[1:])
        return 0
    from bench.core import as_json, table

    parser = argparse.ArgumentParser(prog="python -m bench.report", description=__doc__)
    parser.add_argument("samples", nargs="?", type=int, default=SAMPLES, help="in the run (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} samples")
    parser.add_argument(
        "--sqlite", action="store_true", help="on SQLite, whose goal for the first time is twice as long"
    )
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, goal, met}")
    options = parser.parse_args(argv)
    rows = measure(QUICK if options.quick else options.samples, sqlite=options.sqlite)
    print(as_json(rows) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
