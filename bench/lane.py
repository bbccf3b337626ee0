"""The engine's side of `bench.engine`, run with the settings of the measured database.

`python -m bench.lane seed SAMPLES...`: create a release of each size in an empty database, with one
rubric per sample. `python -m bench.lane launch URL SAMPLES IN_FLIGHT`: launch a run on the release
of this size, with a new endpoint as both target and judge; prints its primary key. `python -m
bench.lane work RUN`: work on a run like the worker's task. Prints ``ready`` when everything is
imported, starts at the next line of its input, and prints its time and CPU use. `python -m
bench.lane first URL SAMPLES IN_FLIGHT`: launch a run, start it, and stop after the first calls.
`python -m bench.lane import FILE`: queue an import. `python -m bench.lane pairs SAMPLES IN_FLIGHT`:
print the requests of a run, for the simple clients.
"""

import gc
import importlib
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import django

CHUNK = 1_000


def seed(*sizes: int) -> None:
    """Create the releases. Samples differ in their first turn, so that no call is repeated."""
    from django.db import connection

    from bench.rows import bare_release
    from generation.models import Draft

    first = bare_release(("dialogue", [["A1"]])).samples.get()
    for size in sizes:
        _release(size, first)
    Draft.objects.filter(status=Draft.Status.QUEUED).update(status=Draft.Status.DROPPED)  # no model makes them
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # what autovacuum does within a minute


def _release(size: int, first: Any) -> None:
    from generation.models import Release, ReleasedRubric, ReleasedSample

    template = first.release
    shared_fields = {
        name: getattr(template, name) for name in ("benchmark", "generators", "sources", "simulated", "created_at")
    }
    counts = {"task": {"dialogue": {"samples": size, "rubrics": size}}}
    release = Release.objects.create(
        name=_release_name(size),
        version=1,
        samples_count=size,
        rubrics_count=size,
        counts=counts,
        sha256=template.sha256,
        **shared_fields,
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


def _release_name(size: int) -> str:
    return f"of-{size}"


def _content(first: Any, at: int) -> dict[str, Any]:
    content = first.exported["content"]
    opening, *others = content["turns"]
    return {**content, "turns": [{**opening, "content": f"Case {at}. {opening['content']}"}, *others]}


def launch(url: str, samples: int, in_flight: int) -> int:
    """Launch a run with a new endpoint, so that no paid replies of earlier runs are reused."""
    from django.db import connection

    from evaluation.runs.services import launch_run
    from evaluation.runs.settings import RunSettings
    from generation.endpoints.services import add_endpoint
    from generation.models import Endpoint, Release

    name = f"bench-{Endpoint.objects.count()}"
    endpoint = add_endpoint(name=name, url=url, model=name, concurrency=in_flight, max_tokens=500)
    run = launch_run(
        RunSettings(release=Release.objects.get(name=_release_name(samples)), endpoints=[endpoint], judge=endpoint)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # what autovacuum does within a minute
    return run.pk


def queue_import(path: str) -> int:
    """Queue the import of a file, as an upload does."""
    from generation.sources.services import start_import
    from generation.tasks import run_import
    from review.common.waking import wake

    queued = start_import(Path(path), format_name="healthbench", name=Path(path).stem)
    wake(run_import, queued.pk)
    return queued.pk


def first(url: str, samples: int, in_flight: int) -> dict[str, float]:
    """Start a run, and pause it once its first calls are answered."""
    import threading

    from evaluation.models import Response, Run
    from evaluation.runs import work as runs_work
    from generation.jobs import life_cycle

    importlib.import_module("openai.types.chat")
    run = launch(url, samples, in_flight)

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


def pairs(samples: int, in_flight: int) -> dict[str, Any]:
    """The plan of `bench.ask`: for each sample, the messages for the target and the judge.

    Those for the judge lack the target's response.
    """
    from openai import pydantic_function_tool

    from bench.rows import ALTERED
    from evaluation import registry
    from evaluation.protocol import Rubric, Sample

    protocol = registry.protocol("mhb")
    judge, shape = protocol.judge, protocol.shape
    assert judge
    assert shape
    rubric = Rubric("R1", "The response must say so.", ("A1",))
    message_pairs = []
    for at in range(samples):
        turns = [{**ALTERED[0], "content": f"Case {at}. {ALTERED[0]['content']}"}, *ALTERED[1:]]
        sample = Sample(f"mhb-dialogue-{at:06}", "dialogue", {"turns": turns})
        asked, judged = protocol.ask(sample, 0)[0].messages, judge(sample, rubric, "", "").messages
        message_pairs.append(
            [[{"role": message.role, "content": message.content} for message in part] for part in (asked, judged)]
        )
    schema = pydantic_function_tool(shape)["function"]["parameters"]
    response_format = {"type": "json_schema", "json_schema": {"name": "Judgment", "schema": schema, "strict": True}}
    return {"pairs": message_pairs, "in_flight": in_flight, "format": response_format}


def work(run_id: int) -> dict[str, float]:
    """Work on a run until it ends or nothing is left for this process."""
    from django.db import connection

    from evaluation.models import Run
    from evaluation.runs import work as runs_work
    from evaluation.runs.kind import RUNS

    importlib.import_module("generation.llm.http.transport")
    importlib.import_module("openai.types.chat")
    Run.objects.get(pk=run_id)  # a worker already has its modules and connection
    gc.collect()
    gc.freeze()  # as a worker does (mhb_site/celery.py)
    print("ready", flush=True)
    sys.stdin.readline()
    started, usage_before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    rows = runs_work.work_on_run(run_id)
    while run_id in RUNS.due():
        rows += runs_work.work_on_run(run_id)
    usage_after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    connection.close()
    return {"rows": rows, "cpu": cpu, "started": started, "ended": time.monotonic()}


def main() -> None:
    command, *arguments = sys.argv[1:]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
    django.setup()
    from django.core.management import call_command

    if command == "seed":
        call_command("migrate", verbosity=0)
        seed(*map(int, arguments))
        print("{}")
    elif command in ("launch", "first"):
        url, samples, in_flight = arguments
        print(json.dumps({"launch": launch, "first": first}[command](url, int(samples), int(in_flight))))
    elif command == "import":
        print(queue_import(*arguments))
    elif command == "pairs":
        print(json.dumps(pairs(*map(int, arguments))))
    else:
        print(json.dumps(work(int(arguments[0]))))


if __name__ == "__main__":
    main()
