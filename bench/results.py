"""How fast external verdicts are imported, and how quickly a large launch responds.

`python -m bench.results`: on SQLite, and on a temporary PostgreSQL if it is installed. Each part
runs in its own process.
"""

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

MODELS = 9
SAMPLES = 20_000  # with nine models, 180,000 responses
RUBRICS = 6
STUDY_MODELS = 4  # models in the imported results
VERDICTS = 100_000
PUBLISHED = 20_288  # criteria in the published release of MHB


def seed(samples: int) -> None:
    """Create a release of `samples` samples with six rubrics each."""
    from bench.rows import bare_release
    from generation.models import Release, ReleasedRubric, ReleasedSample

    first = bare_release(("dialogue", [["A1"]])).samples.select_related("version").get()
    count = samples * RUBRICS
    release = Release.objects.create(
        name="large", version=1, benchmark="mhb", samples_count=samples, rubrics_count=count, simulated=False,
        counts={"task": {"dialogue": {"samples": samples, "rubrics": count}}}, generators=[], sources=[],
        sha256="0" * 64, created_at=first.version.created_at,
    )  # fmt: skip
    stored = ReleasedSample.objects.bulk_create(
        ReleasedSample(
            release=release, position=at, version_id=first.version_id, key=f"mhb-dialogue-{at:06}", task="dialogue",
            exported=first.exported, split="public",
        )
        for at in range(samples)
    )  # fmt: skip
    ReleasedRubric.objects.bulk_create(
        ReleasedRubric(sample=sample, key=f"R{n}", criterion="Says so.", traps=["A1"])
        for sample in stored
        for n in range(1, RUBRICS + 1)
    )


def launch() -> dict[str, float]:
    from evaluation.runs.rows import filling
    from evaluation.runs.services import launch_run
    from evaluation.runs.settings import RunSettings
    from generation.models import Endpoint, Release

    models = [
        Endpoint.objects.create(name=f"m{n}", url="http://models.example/v1", model=f"m{n}") for n in range(MODELS)
    ]
    release = Release.objects.get(name="large")
    started = time.perf_counter()
    run = launch_run(RunSettings(release=release, endpoints=models, judge=models[0]))
    answer_time = time.perf_counter() - started
    started = time.perf_counter()
    filling.fill_all(run)
    return {"responses": run.responses_total, "answered": answer_time, "filled": time.perf_counter() - started}


def results(verdicts: int) -> dict[str, float]:
    """Times of imports, in seconds."""
    from evaluation.interchange import importing, rows
    from generation.models import Release

    release = Release.objects.get(name="large")
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, count in (("small", min(PUBLISHED, verdicts)), ("bench", verdicts)):
            path = Path(folder) / f"{name}.jsonl"
            with path.open("w") as file:
                for n in range(count):
                    sample, model = n // RUBRICS // STUDY_MODELS, n // RUBRICS % STUDY_MODELS
                    row = {
                        "sample": f"mhb-dialogue-{sample:06}",
                        "rubric": f"R{n % RUBRICS + 1}",
                        "model": f"theirs-{model}",
                    }
                    texts = {"response": "Drink enough and rest. " * 20, "explanation": "It says so."}
                    file.write(json.dumps({**row, "met": n % 3 > 0, **texts}) + "\n")
            for attempt in ("first", "again"):
                started = time.perf_counter()
                outcome = importing.import_results(rows.read(path), release=release, study=name)
                times[f"{name}, {attempt}"] = time.perf_counter() - started
                if (outcome.added, outcome.known) != ((count, 0) if attempt == "first" else (0, count)):
                    raise RuntimeError(str(outcome))
    return times


def part(name: str, *arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from evaluation import registry

    if name == "seed":
        call_command("migrate", verbosity=0)
        seed(int(arguments[0]))
        if connection.vendor == "postgresql":
            connection.cursor().execute("VACUUM ANALYZE")
        print("{}")
        return
    registry.protocol("mhb")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    gc.collect()
    gc.freeze()  # as wsgi.py and the worker do
    print(json.dumps(launch() if name == "launch" else results(int(arguments[0]))))


def measure(name: str, database: dict[str, str], samples: int, verdicts: int) -> list[Any]:
    """All figures on one database."""
    from bench.core import at_least, at_most, in_process, without_goal

    run = partial(in_process, "bench.results", database)
    run("seed", str(samples))
    result = run("launch")
    rows = [
        at_most(f"{name}: launch of {result['responses']} responses answered", result["answered"] * 1000, "ms", 200)
    ]
    rows.append(without_goal(f"{name}: their rows made by a worker", result["filled"], "s"))
    result = run("import", str(verdicts))
    speed = {attempt: verdicts / result[f"bench, {attempt}"] for attempt in ("first", "again")}
    rows.append(at_least(f"{name}: import of {verdicts} verdicts", speed["first"], "a second", 20_000))
    rows.append(without_goal(f"{name}: the same file again", speed["again"], "a second"))
    if verdicts >= PUBLISHED:
        rows.append(at_most(f"{name}: import of {PUBLISHED} verdicts", result["small, first"], "s", 3))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if arguments is None else arguments
    if argv[:1] == ["part"]:
        part(*argv[1:])
        return 0
    from bench.core import as_json, skipped, table
    from bench.servers import Missing, postgres

    parser = argparse.ArgumentParser(prog="python -m bench.results", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples, a fifth of the verdicts")
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, goal, met}")
    options = parser.parse_args(argv)
    sizes = (SAMPLES // 10, VERDICTS // 5) if options.quick else (SAMPLES, VERDICTS)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure("SQLite", {"MHB_DATA_DIR": folder, "MHB_DATABASE_URL": ""}, *sizes)
    try:
        with postgres() as url:
            rows += measure("PostgreSQL", {"MHB_DATABASE_URL": url}, *sizes)
    except Missing as missing:
        rows.append(skipped("PostgreSQL", str(missing)))
    print(as_json(rows) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
