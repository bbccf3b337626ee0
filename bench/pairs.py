"""Pairs of statements made by models: `python -m bench.pairs [SMALL LARGE] [--postgresql] [--json]`.

Questions of MedQA become pairs on simulated models, four calls each: one batch of a few records and one of many, each in a
process of its own on an empty site. What matters is that the memory of the worker does not grow with the records, and
that the time for each record stays the same. The estimate is asked for before the launch, as a person does.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import medhal

SMALL, LARGE = 2_000, 20_000
GROWTH = 40  # MB that the worker of the large batch may need beyond that of the small one


def make_pairs(url: str) -> dict[str, Any]:
    """A batch of all records of the source, worked on by one lane."""
    from generation.batches import launch, services
    from generation.batches.estimate import estimate_batch
    from generation.endpoints import services as endpoints
    from generation.models import Call, Sample, Source

    roles = {
        role: endpoints.add_endpoint(name=model, url=url, model=model, concurrency=32)
        for role, model in {"generator": "sim-generator", "filter": "sim-critic"}.items()
    }
    asked = launch.BatchSettings(benchmark="medhal", source=Source.objects.get(name="bench"), roles=roles, checks=())
    began = time.process_time()
    planned = sum(line.requests for line in estimate_batch(asked).lines)
    estimate = time.process_time() - began
    batch = launch.launch_batch(asked)
    while services.work_on_batch(batch.pk):
        pass
    batch.refresh_from_db()
    calls = Call.objects.filter(job=batch, error="", hit_of=None).count()
    of_batch = {"status": batch.status, "samples": Sample.objects.filter(batch=batch).count()}
    return {**of_batch, "rows": batch.source.records.count(), "planned": planned, "calls": calls, "estimate": estimate}


medhal.PARTS["pairs"] = make_pairs


def measure(small: int, large: int, database: str) -> Iterator[Any]:
    """A few figures for each batch, and how the second compares with the first."""
    from bench.core import at_most, exactly, told
    from bench.imports import write
    from generation.llm.simulator.server import make_app, run_in_background
    from mhb_site.benchmarks.medhal.simulate import SCRIPT

    lines = []
    with run_in_background(make_app([SCRIPT], seed=3)) as url:
        for count in (small, large):
            with medhal.site(database, "bench.pairs") as empty, tempfile.TemporaryDirectory() as folder:
                empty.run("migrate")
                empty.run("import", str(write("medqa", Path(folder), count)), "medqa")
                lines.append(empty.run("pairs", url))
            line, name = lines[-1], f"{database}: pairs of {count} records"
            yield exactly(f"{name}: calls beyond the estimate", line["calls"] - line["planned"], "calls", 0)
            yield told(f"{name}: estimate", line["estimate"], "s")
            yield told(
                f"{name}: on the processor", 1000 * (line["cpu"] + line["database"]) / line["rows"], "ms a record"
            )
            yield told(f"{name}: memory", line["memory"], "MB")
    few, many = lines
    yield at_most(f"{database}: {large} records beside {small}: memory", many["memory"] - few["memory"], "MB", GROWTH)
    spent = [(line["cpu"] + line["database"]) / line["rows"] for line in lines]
    yield at_most(f"{database}: {large} records beside {small}: time a record", spent[1] / spent[0], "times", 1.2)


def main() -> None:
    if sys.argv[1:2] == ["part"]:
        medhal.part(*sys.argv[2:])
        return
    from bench.core import as_json, table

    numbers = [int(one) for one in sys.argv[1:] if one.isdecimal()]
    database = "PostgreSQL" if "--postgresql" in sys.argv else "SQLite"
    small, large = numbers if len(numbers) == 2 else (SMALL, LARGE)
    rows = list(measure(small, large, database))
    print(as_json(rows) if "--json" in sys.argv else table(rows))


if __name__ == "__main__":
    main()
