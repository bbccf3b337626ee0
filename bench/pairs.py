"""Generating pairs of statements: `python -m bench.pairs [SMALL LARGE] [--postgresql] [--json]`.

Simulated models turn questions of MedQA into pairs, with four calls each: one batch of few records
and one of many, each in its own process on an empty site. The worker's memory must not grow with
the number of records, nor the time per record. The estimate is computed before the launch, as for a
person.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import medhal

SMALL, LARGE = 2_000, 20_000
GROWTH = 40  # MB that the worker of the large batch may need beyond the small one


def make_pairs(url: str) -> dict[str, Any]:
    """Complete a batch of all records of the source with one lane."""
    from generation.batches import launch, services
    from generation.batches.estimate import estimate_batch
    from generation.endpoints import services as endpoints
    from generation.models import Call, Sample, Source

    roles = {
        role: endpoints.add_endpoint(name=model, url=url, model=model, concurrency=32)
        for role, model in {"generator": "sim-generator", "filter": "sim-critic"}.items()
    }
    settings = launch.BatchSettings(benchmark="medhal", source=Source.objects.get(name="bench"), roles=roles, checks=())
    started = time.process_time()
    planned = sum(line.requests for line in estimate_batch(settings).lines)
    estimate = time.process_time() - started
    batch = launch.launch_batch(settings)
    while services.work_on_batch(batch.pk):
        pass
    batch.refresh_from_db()
    calls = Call.objects.filter(job=batch, error="", hit_of=None).count()
    result = {"status": batch.status, "samples": Sample.objects.filter(batch=batch).count()}
    return {**result, "rows": batch.source.records.count(), "planned": planned, "calls": calls, "estimate": estimate}


medhal.PARTS["pairs"] = make_pairs


def measure(small: int, large: int, database: str) -> Iterator[Any]:
    """Figures of each batch, and the growth from the small to the large one."""
    from bench.core import at_most, exactly, without_goal
    from bench.imports import write_files
    from generation.llm.simulator.server import make_app, run_in_background
    from mhb_site.benchmarks.medhal.simulate import SCRIPT

    lines = []
    with run_in_background(make_app([SCRIPT], seed=3)) as url:
        for count in (small, large):
            with medhal.site(database, "bench.pairs") as empty, tempfile.TemporaryDirectory() as folder:
                empty.run("migrate")
                empty.run("import", str(write_files("medqa", Path(folder), count)), "medqa")
                lines.append(empty.run("pairs", url))
            line, name = lines[-1], f"{database}: pairs of {count} records"
            yield exactly(f"{name}: calls beyond the estimate", line["calls"] - line["planned"], "calls", 0)
            yield without_goal(f"{name}: estimate", line["estimate"], "s")
            yield without_goal(
                f"{name}: on the processor", 1000 * (line["cpu"] + line["database"]) / line["rows"], "ms a record"
            )
            yield without_goal(f"{name}: memory", line["memory"], "MB")
    few, many = lines
    yield at_most(f"{database}: {large} records beside {small}: memory", many["memory"] - few["memory"], "MB", GROWTH)
    spent = [(line["cpu"] + line["database"]) / line["rows"] for line in lines]
    yield at_most(f"{database}: {large} records beside {small}: time a record", spent[1] / spent[0], "times", 1.2)


def main() -> None:
    if sys.argv[1:2] == ["part"]:
        medhal.part(*sys.argv[2:])
        return
    from bench.core import as_json, table

    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()]
    database = "PostgreSQL" if "--postgresql" in sys.argv else "SQLite"
    small, large = numbers if len(numbers) == 2 else (SMALL, LARGE)
    rows = list(measure(small, large, database))
    print(as_json(rows) if "--json" in sys.argv else table(rows))


if __name__ == "__main__":
    main()
