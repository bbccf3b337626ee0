"""Physicians beside batches, a run and an import: `python -m bench.load [--minutes N] [--json]`.

The production shape on one machine: nginx left out, gunicorn, Celery, Redis, PostgreSQL, simulated
models. 60 physicians work through cases with some seconds before each step, first alone, then while
two batches and a run are at work and an import arrives. Any unexpected response ends the bench.
"""

import argparse
import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import servers, sites
from bench.core import Result, as_json, at_most, percentile, table, without_goal
from bench.engine import ROOT, Lanes, stub
from bench.workers import LATENCY, STARTS_WITHIN, import_delay
from mhb_site.server import children

CASES = 20_000
PAUSE = 8.0  # seconds before a step, at most; physicians read for minutes
RECORDS = 2_000  # of each batch
SAMPLES = 20_000  # of the run
IN_FLIGHT = 50
MODELS = ("sim-generator", "sim-judge")
TURN = "Case {number}: I am {age} and take {dose} mg of metformin. Is it safe with a contrast scan next week?"


def conversations(path: Path) -> Path:
    """Made-up HealthBench rows for a batch."""
    rows = [
        {
            "prompt_id": f"{path.stem}-{number}",
            "prompt": [
                {"role": "user", "content": TURN.format(number=number, age=20 + number % 70, dose=500 + number)}
            ],
            "rubrics": [{"criterion": "Says when to pause metformin.", "points": 5, "tags": []}],
            "example_tags": [],
        }
        for number in range(RECORDS)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def launch_batches(environment: dict[str, str], folder: Path, models: str) -> None:
    for name in MODELS:
        options = ("--url", models, "--model", name, "--concurrency", str(IN_FLIGHT))
        sites.manage(environment, "add_endpoint", name, *options)
    for name in ("first", "second"):
        path = str(conversations(folder / f"{name}.jsonl"))
        sites.manage(environment, "import_source", "--format", "healthbench", "--name", name, path)
        roles = ("--generator", "sim-generator", "--role", "examiner=sim-judge")
        sites.manage(environment, "generate", "--benchmark", "mhb", "--source", name, *roles, "--yes")


def measure(minutes: float) -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="mhb-bench-") as home,
        sites.postgres_sites(Path(home), [CASES]) as [site],
        servers.redis() as redis,
        stub(LATENCY) as to,
    ):
        environment, folder = {**site.environment, "MHB_REDIS_URL": redis}, Path(home)
        lanes, models = Lanes(environment), servers.free_port()
        lanes.call("seed", SAMPLES)
        family = children.Children(cwd=str(ROOT), environment=environment)
        try:
            family.start("models", children.django("simulate_llm", "--port", str(models)))
            children.wait_for_port(sites.HOST, models)
            family.start("lanes", children.worker("mhb-lanes"))
            family.start("tasks", children.worker("mhb"))
            family.start("sweeper", children.django("sweep", "--forever"))
            quiet = site.load("shift", sites.PEOPLE, seconds=60 * minutes / 4, pause=PAUSE)["times"]
            launch_batches(environment, folder, f"http://{sites.HOST}:{models}/v1")
            lanes.call("launch", to.url, SAMPLES, IN_FLIGHT)
            delays: list[float] = []
            importing = threading.Thread(target=lambda: delays.append(import_delay(lanes, site.database, folder, 0)))
            importing.start()
            busy = site.load("shift", sites.PEOPLE, seconds=60 * minutes, pause=PAUSE)["times"]
            importing.join()
            answered = to.stats()["answered"]
        finally:
            family.stop()
    for action, times in sorted(busy.items()):
        before, during = percentile(quiet[action], 0.95), percentile(times, 0.95)
        yield without_goal(f"{action}: p95 alone", before, "ms")
        yield at_most(f"{action}: p95 beside the work", during / before, "of alone", 2.0)
    yield without_goal("steps beside the work", sum(map(len, busy.values())), "")
    yield without_goal("calls of the run meanwhile", answered, "")
    yield at_most("an import beside it ends after", max(delays), "s", STARTS_WITHIN)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of work beside the batches")
    parser.add_argument("--json", action="store_true")
    options: Any = parser.parse_args(arguments)
    results = list(measure(options.minutes))
    print(as_json(results) if options.json else table(results))


if __name__ == "__main__":
    main()
