"""The engine's side of `bench.engine`, within the settings of the database that is measured.

`python -m bench.lane seed SAMPLES...`: in an empty database, a release of each of these sizes, one rubric a sample.
`python -m bench.lane launch URL SAMPLES FLYING`: a run on the one of this size, with an endpoint that nobody has asked yet,
target and judge in one; prints its number.
`python -m bench.lane work RUN`: works on a run as the worker's task does. It says ``ready`` when all is imported, begins
with the next line of its input, and prints what it took.
`python -m bench.lane first URL SAMPLES FLYING`: launches one and begins with it, but leaves it after the first calls.
`python -m bench.lane pairs SAMPLES FLYING`: what the run asks, for the simple clients.
"""

import importlib
import json
import os
import resource
import sys
import time
from typing import Any

import django

CHUNK = 1_000


def seed(*sizes: int) -> None:
    """The releases. Their samples differ in their first turn, so that nothing is asked twice."""
    from django.db import connection

    from bench.rows import bare_release

    first = bare_release(("dialogue", [["A1"]])).samples.get()
    for size in sizes:
        _release(size, first)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # what autovacuum does within a minute


def _release(size: int, first: Any) -> None:
    from generation.models import Release, ReleasedRubric, ReleasedSample

    of = first.release
    same = {name: getattr(of, name) for name in ("benchmark", "generators", "sources", "simulated", "created_at")}
    counts = {"task": {"dialogue": {"samples": size, "rubrics": size}}}
    release = Release.objects.create(
        name=_name(size), version=1, samples_count=size, rubrics_count=size, counts=counts, sha256=of.sha256, **same
    )
    for start in range(0, size, CHUNK):
        rows = ReleasedSample.objects.bulk_create(
            ReleasedSample(
                release=release,
                position=at,
                version_id=first.version_id,
                key=f"mhb-dialogue-{at:06}",
                task="dialogue",
                exported={"content": _content(first, at)},
            )
            for at in range(start, min(start + CHUNK, size))
        )
        ReleasedRubric.objects.bulk_create(
            ReleasedRubric(sample=row, key="R1", criterion="The response must say so.", traps=["A1"]) for row in rows
        )


def _name(size: int) -> str:
    return f"of-{size}"


def _content(first: Any, at: int) -> dict[str, Any]:
    content = first.exported["content"]
    opening, *others = content["turns"]
    return {**content, "turns": [{**opening, "content": f"Case {at}. {opening['content']}"}, *others]}


def launch(url: str, samples: int, flying: int) -> int:
    """A run with an endpoint of its own: what earlier runs have paid for is of no use to it."""
    from django.db import connection

    from evaluation.runs.services import launch_run
    from evaluation.runs.settings import RunSettings
    from generation.endpoints.services import add_endpoint
    from generation.models import Endpoint, Release

    name = f"bench-{Endpoint.objects.count()}"
    endpoint = add_endpoint(name=name, url=url, model=name, concurrency=flying, max_tokens=500)
    run = launch_run(RunSettings(Release.objects.get(name=_name(samples)), [endpoint], endpoint))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # what autovacuum does within a minute
    return run.pk


def first(url: str, samples: int, flying: int) -> dict[str, float]:
    """Begin with a run, and pause it when its first calls are answered."""
    import threading

    from evaluation.models import Response, Run
    from evaluation.runs import work as runs_work
    from generation.jobs import life_cycle

    importlib.import_module("openai.types.chat")
    run = launch(url, samples, flying)

    def pause() -> None:
        while not Response.objects.filter(run=run, status="done").exists():
            time.sleep(0.2)
        life_cycle.pause(run)

    Run.objects.get(pk=run)
    watching = threading.Thread(target=pause, daemon=True)
    watching.start()
    started = time.monotonic()
    runs_work.work_on_run(run)
    watching.join()
    return {"started": started}


def pairs(samples: int, flying: int) -> dict[str, Any]:
    """The plan of `bench.ask`: for each sample what the target is asked, and the judge but for the response."""
    from openai import pydantic_function_tool

    from bench.rows import ALTERED
    from evaluation import registry
    from evaluation.protocol import Rubric, Sample

    protocol = registry.protocol("mhb")
    judge, shape = protocol.judge, protocol.shape
    assert judge
    assert shape
    rubric = Rubric("R1", "The response must say so.", ("A1",))
    found = []
    for at in range(samples):
        turns = [{**ALTERED[0], "content": f"Case {at}. {ALTERED[0]['content']}"}, *ALTERED[1:]]
        sample = Sample(f"mhb-dialogue-{at:06}", "dialogue", {"turns": turns})
        asked, judged = protocol.ask(sample, 0)[0].messages, judge(sample, rubric, "", "").messages
        found.append([[{"role": each.role, "content": each.content} for each in part] for part in (asked, judged)])
    schema = pydantic_function_tool(shape)["function"]["parameters"]
    wanted = {"type": "json_schema", "json_schema": {"name": "Judgment", "schema": schema, "strict": True}}
    return {"pairs": found, "flying": flying, "format": wanted}


def work(run_id: int) -> dict[str, float]:
    """Work on a run to its end, or to where nothing is left for this process."""
    from django.db import connection

    from evaluation.models import Run
    from evaluation.runs import work as runs_work
    from generation.jobs import services

    importlib.import_module("openai.types.chat")
    Run.objects.get(pk=run_id)  # a worker has its modules and its connection already
    print("ready", flush=True)
    sys.stdin.readline()
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    rows = runs_work.work_on_run(run_id)
    while services.waits(run_id):
        rows += runs_work.work_on_run(run_id)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    connection.close()
    return {"rows": rows, "cpu": cpu, "started": started, "ended": time.monotonic()}


def main() -> None:
    what, *arguments = sys.argv[1:]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
    django.setup()
    from django.core.management import call_command

    if what == "seed":
        call_command("migrate", verbosity=0)
        seed(*map(int, arguments))
        print("{}")
    elif what in ("launch", "first"):
        url, samples, flying = arguments
        print(json.dumps({"launch": launch, "first": first}[what](url, int(samples), int(flying))))
    elif what == "pairs":
        print(json.dumps(pairs(*map(int, arguments))))
    else:
        print(json.dumps(work(int(arguments[0]))))


if __name__ == "__main__":
    main()
