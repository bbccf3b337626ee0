"""What a cache of prompts' beginnings saves: `python -m bench.prefix [RECORDS ...] [--json]`.

Simulated models answer after a second, behind a cache like those of providers: a block of 256
characters is read from it once a request that began with the same blocks has ended. A run of
HealthBench with three models and a judge, and a batch of MHB with a generator and an examiner, are
each made twice on empty sites: with all calls at once, and with the first of a group before the
others, as the engine does. The records are the demo's conversations, numbered.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from bench.core import Result, as_json, at_most, in_process, table, without_goal

BLOCK = 256  # characters that a cache stores together
IN_FLIGHT = 64
CONVERSATIONS = Path(__file__).resolve().parents[1] / "mhb_site" / "demo" / "conversations.jsonl"
TARGETS = ("sim-careful", "sim-average", "sim-reckless")
ROLES = {"generator": "sim-generator", "examiner": "sim-examiner"}
IN_TURN, AT_ONCE = "first of a group first", "all at once"


@dataclass(slots=True)
class Counts:
    """Characters sent to a model: all, at full price, and the least that any order could bill."""

    characters: int = 0
    full: int = 0
    least: int = 0


@dataclass(slots=True)
class PrefixCache:
    """Which beginnings are in the cache of each model, and what a provider would have billed."""

    counts: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))
    ended: set[tuple[str, int]] = field(default_factory=set)
    begun: set[tuple[str, int]] = field(default_factory=set)

    def begin(self, model: str, text: str) -> list[tuple[str, int]]:
        """Count a request; returns the names of its beginnings, for `end`."""
        names = [(model, hash(text[:end])) for end in range(BLOCK, len(text) + 1, BLOCK)]
        counts = self.counts[model]
        counts.characters += len(text)
        counts.full += len(text) - BLOCK * _leading(names, self.ended)
        counts.least += len(text) - BLOCK * _leading(names, self.begun)
        self.begun.update(names)
        return names

    def end(self, names: Sequence[tuple[str, int]]) -> None:
        self.ended.update(names)


def _leading(names: Sequence[tuple[str, int]], known: set[tuple[str, int]]) -> int:
    """How many names at the start are known."""
    for place, name in enumerate(names):
        if name not in known:
            return place
    return len(names)


def prompt_text(body: dict[str, Any]) -> str:
    return "".join(f"<{message['role']}>{message['content']}" for message in body.get("messages", ()))


def counting_app(cache: PrefixCache, latency: float) -> Any:
    """The simulated models, which count what they are sent and take `latency` seconds."""
    from aiohttp import web

    from generation.llm.simulator.server import make_app
    from generation.recipes import registry

    @web.middleware
    async def count(request: web.Request, handler: Any) -> Any:
        if request.method != "POST":
            return await handler(request)
        body = json.loads(await request.read())
        names = cache.begin(body["model"], prompt_text(body))
        await asyncio.sleep(latency)
        answer = await handler(request)
        cache.end(names)
        return answer

    app = make_app([registry.module(name, "simulate").SCRIPT for name in registry.names()], seed=3)
    app.middlewares.append(count)
    return app


# ----------------------------------------------------------------------------------------- the site


def write_records(path: Path, conversations: Path, count: int) -> None:
    """Write `count` conversations, the first turn of each with its number."""
    rows = [json.loads(line) for line in conversations.read_text(encoding="utf-8").splitlines()]
    with path.open("w", encoding="utf-8") as file:
        for number, row in enumerate(islice(cycle(rows), count), 1):
            first, *others = row["prompt"]
            numbered = {**first, "content": f"Case {number}. {first['content']}"}
            identifier = f"{number:08}-0000-4000-8000-000000000000"
            file.write(json.dumps({**row, "prompt_id": identifier, "prompt": [numbered, *others]}) + "\n")


def work(url: str, conversations: str, records: str, way: str) -> dict[str, Any]:
    """Make the run and the batch on an empty site; returns how long each took."""
    from evaluation.runs.kind import RUNS
    from evaluation.runs.services import launch_run
    from evaluation.runs.settings import RunSettings
    from generation.batches.kind import BATCHES
    from generation.batches.launch import BatchSettings, launch_batch
    from generation.endpoints.services import add_endpoint
    from generation.releases.freezing.composition import Composition
    from generation.releases.services import freeze_release
    from generation.sources.services import run_import, start_import
    from mhb_site.demo.steps import work_to_the_end

    if way == AT_ONCE:
        _send_all_at_once()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        write_records(path, Path(conversations), int(records))
        source = run_import(start_import(path, format_name="healthbench", name="bench").pk).source
    models = {
        model: add_endpoint(name=model, url=url, model=model, concurrency=IN_FLIGHT)
        for model in (*TARGETS, "sim-judge", *ROLES.values())
    }
    work_to_the_end(BATCHES, launch_batch(BatchSettings(benchmark="healthbench", source=source, roles={})).pk)
    release = freeze_release("bench", benchmark="healthbench", composition=Composition(with_unreviewed=True))
    run = launch_run(
        RunSettings(release=release, endpoints=[models[name] for name in TARGETS], judge=models["sim-judge"])
    )
    batch = launch_batch(
        BatchSettings(benchmark="mhb", source=source, roles={role: models[name] for role, name in ROLES.items()})
    )
    seconds = {}
    for kind, job in ((RUNS, run), (BATCHES, batch)):
        started = time.monotonic()
        work_to_the_end(kind, job.pk)
        job.refresh_from_db()
        if job.status != job.Status.FINISHED:
            raise RuntimeError(f"{kind.name}: {job.status} {job.paused_because}")
        seconds[kind.name] = time.monotonic() - started
    return seconds


def _send_all_at_once() -> None:
    """Let no call wait for one that shares its beginning."""
    from generation.engine.worker_lane import RunningLane

    @asynccontextmanager
    async def at_once(*_arguments: Any) -> AsyncIterator[None]:
        yield

    RunningLane._in_turn = at_once  # type: ignore[method-assign, assignment]


def part(url: str, conversations: str, records: str, way: str) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    print(json.dumps(work(url, conversations, records, way)))


# ------------------------------------------------------------------------------------------ figures


def measure(conversations: Path, sizes: Sequence[int], latency: float) -> Iterator[Result]:
    """What is billed at full price, and the time, for each number of records."""
    from generation.llm.simulator.server import run_in_background

    for records in sizes:
        counts, seconds = {}, {}
        for way in (AT_ONCE, IN_TURN):
            cache = PrefixCache()
            with (
                run_in_background(counting_app(cache, latency)) as url,
                tempfile.TemporaryDirectory(prefix="mhb-bench-") as folder,
            ):
                settings = {"MHB_DATA_DIR": folder, "MHB_DATABASE_URL": "", "MHB_REDIS_URL": "", "MHB_DEBUG": "true"}
                seconds[way] = in_process("bench.prefix", settings, url, str(conversations), str(records), way)
            counts[way] = cache.counts
        for model in ("sim-judge", *ROLES.values()):
            before, after = counts[AT_ONCE][model], counts[IN_TURN][model]
            name = f"{records} records: {model.removeprefix('sim-')}'s input at full price"
            least, share = after.least / after.characters, after.full / after.characters
            yield without_goal(f"{name}, least", least, "share")
            yield without_goal(f"{name}, {AT_ONCE}", before.full / before.characters, "share")
            yield without_goal(f"{name}, {IN_TURN}", share, "share")
            yield at_most(f"{name}, {IN_TURN} to the least", share / least, "times", 1.3)
        for kind, before_s in seconds[AT_ONCE].items():
            after_s = seconds[IN_TURN][kind]
            yield without_goal(f"{records} records: {kind}, {AT_ONCE}", before_s, "s")
            yield at_most(f"{records} records: {kind}, {IN_TURN}", after_s / before_s, "times", 1.15)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.prefix", description=__doc__)
    parser.add_argument("records", nargs="*", type=int, default=[10, 100])
    parser.add_argument("--file", type=Path, default=CONVERSATIONS, help="other conversations, as HealthBench has them")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds of each call")
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, goal, met}")
    options = parser.parse_args(arguments)
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
    django.setup()
    rows = list(measure(options.file, options.records, options.latency))
    print(as_json(rows) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["part"]:
        part(*sys.argv[2:])
    else:
        sys.exit(main())
