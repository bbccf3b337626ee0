"""How fast the engine calls models, and at what cost: `python -m bench.engine [--quick] [--json]`.

A stub answers every call after 200 ms. Lanes are separate processes that do what the worker's task
does, on real databases, and store everything; the plain loop over the same client stores nothing.
The contenders take turns, so that other work on the machine affects all of them, and goals are
ratios within the run. CPU is that of the calling process, without the database server's.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench import servers
from bench.core import Result, as_json, at_least, at_most, skipped, table, without_goal

ROOT = Path(__file__).resolve().parent.parent
OTHERS = ROOT / ".interchange"  # filled by `make interchange`
MEAN, SIGMA = 0.2, 0.8  # seconds; the spread of the latency's logarithm
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured; a part with 0 is left out.

    `samples`: two calls each. `slow`: samples of the slow contenders.
    """

    samples: int
    in_flight: int
    rounds: int
    slow: int
    slots: int  # in flight at `held` seconds of latency
    held: float
    long: int  # samples of the run whose memory is measured
    queued: int
    databases: tuple[str, ...] = ("PostgreSQL", "SQLite")
    spreads: tuple[float, ...] = (0.0, SIGMA)  # of the latency's logarithm


FULL = Plan(samples=2_000, in_flight=200, rounds=3, slow=1_000, slots=1_000, held=5.0, long=50_000, queued=120_000)
QUICK = Plan(samples=400, in_flight=200, rounds=1, slow=100, slots=0, held=0.0, long=0, queued=2_000, spreads=(0.0,))
TINY = Plan(samples=20, in_flight=5, rounds=1, slow=0, slots=5, held=0.1, long=0, queued=100, databases=("SQLite",))


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed of a contender: calls answered per second, and CPU seconds per thousand calls."""

    rate: float
    cpu: float


class Stub:
    """The stub in its own process."""

    def __init__(self, url: str) -> None:
        self.url = url + "/v1"
        self._root = url

    def stats(self, *, reset: bool = False) -> dict[str, float]:
        with urllib.request.urlopen(f"{self._root}/{'reset' if reset else 'stats'}") as answer:
            return dict(json.load(answer))


@contextmanager
def stub(mean: float, sigma: float = 0.0, host: str = servers.HOST) -> Iterator[Stub]:
    """Run a stub that answers after `mean` seconds on average."""
    command = [sys.executable, "-m", "bench.stub", str(mean), str(sigma), host]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Stub(f"http://{host}:{int(process.stdout.readline())}")
    finally:
        process.terminate()
        process.wait()


# ----------------------------------------------------------------------------------- the contenders


class Lanes:
    """The engine on one database."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "mhb_site.settings", **environment}

    def call(self, *arguments: object) -> Any:
        """Run a command of `bench.lane` and return what it prints."""
        command = [sys.executable, "-m", "bench.lane", *map(str, arguments)]
        process = subprocess.run(
            command, cwd=ROOT, env=self._environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return json.loads(process.stdout.splitlines()[-1])

    def run(
        self, to: Stub, in_flight: int, *, samples: int, lanes: int = 1, watch: Callable[[int], None] | None = None
    ) -> Any:
        """Work on a new run with this many lanes; returns the report of each.

        `watch` is called repeatedly with the process id of the first one.
        """
        run = self.call("launch", to.url, samples, in_flight)
        to.stats(reset=True)
        environment = {**self._environment, "MHB_LANES": str(lanes)}
        command = [sys.executable, "-m", "bench.lane", "work", str(run)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with ExitStack() as stack:
            workers = [subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) for _ in range(lanes)]
            for worker in workers:
                stack.callback(worker.wait)
                stack.callback(worker.kill)
            for worker in workers:
                worker.stdout.readline()  # type: ignore[union-attr]
            for worker in workers:
                worker.stdin.write("\n")  # type: ignore[union-attr]
                worker.stdin.flush()  # type: ignore[union-attr]
            while watch is not None and workers[0].poll() is None:
                watch(workers[0].pid)
                time.sleep(0.05)
            return [json.loads(worker.communicate()[0]) for worker in workers]

    def measure_speed(self, to: Stub, in_flight: int, samples: int, lanes: int = 1) -> Speed:
        reports = self.run(to, in_flight, samples=samples, lanes=lanes)
        answered = _complete_stats(to, samples)["answered"]
        seconds = max(report["ended"] for report in reports) - min(report["started"] for report in reports)
        return Speed(answered / seconds, sum(report["cpu"] for report in reports) / answered * 1_000)


def _complete_stats(to: Stub, samples: int) -> dict[str, float]:
    """The stub's counts. Raises RuntimeError if the run did not make all its calls."""
    stats = to.stats()
    if stats["answered"] != 2 * samples:
        raise RuntimeError(f"{stats['answered']:.0f} calls for {samples} samples")
    return stats


@contextmanager
def sqlite() -> Iterator[Lanes]:
    """An embedded database in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="mhb-bench-") as folder:
        environment = {"MHB_DATABASE_URL": "", "MHB_REDIS_URL": "", "MHB_DEBUG": "false", "MHB_DATA_DIR": folder}
        yield Lanes(environment)


@contextmanager
def postgres() -> Iterator[Lanes]:
    """A temporary PostgreSQL that flushes to disk as in production. Raises servers.Missing."""
    with servers.postgres(durable=True) as url, tempfile.TemporaryDirectory(prefix="mhb-bench-") as folder:
        yield Lanes(
            {
                "MHB_DATABASE_URL": url,
                "MHB_REDIS_URL": "",
                "MHB_DEBUG": "false",
                "MHB_DATA_DIR": folder,
                "MHB_SECRET_KEY": "only-for-this-bench-" * 2,
                "MHB_HTTPS": "false",
            }
        )


DATABASES = {"PostgreSQL": postgres, "SQLite": sqlite}


def ask(client: str, to: Stub, pairs: dict[str, Any], samples: int, python: str = sys.executable) -> Speed:
    """Measure one of the clients of `bench.ask`."""
    to.stats(reset=True)
    plan = json.dumps({**pairs, "pairs": pairs["pairs"][:samples], "url": to.url})
    command = [python, str(ROOT / "bench" / "ask.py"), client]
    process = subprocess.run(command, input=plan, stdout=subprocess.PIPE, text=True, check=True)
    report = json.loads(process.stdout.splitlines()[-1])
    answered = to.stats()["answered"]
    if answered < 2 * samples:
        raise RuntimeError(f"{client}: {answered} calls for {samples} samples")
    return Speed(answered / report["seconds"], report["cpu"] / answered * 1_000)


# ------------------------------------------------------------------------------------------ figures

LOOP = "AsyncOpenAI/aiohttp loop"
OPTIONAL = {"inspect_ai": "inspect_ai", "lm_eval": "lm-eval"}


def measure(plan: Plan, others: Path = OTHERS) -> Iterator[Result]:
    """All figures. Contenders that are not installed are reported as skipped."""
    yield without_goal("machine: processes that wanted to run before the bench (load average)", os.getloadavg()[0], "")
    with ExitStack() as stack:
        engines: dict[str, Lanes] = {}
        for name in plan.databases:
            try:
                engines[name] = stack.enter_context(DATABASES[name]())
            except servers.Missing as missing:
                yield skipped(name, str(missing))
                continue
            engines[name].call("seed", *sorted({plan.samples, plan.long, plan.queued, plan.slots} - {0}))
        if not engines:
            return
        pairs = next(iter(engines.values())).call("pairs", plan.samples, plan.in_flight)
        installed, missing_rows = _installed(others)
        yield from missing_rows
        for sigma in plan.spreads:
            title = f"log-normal (σ {sigma})" if sigma else f"fixed {MEAN * 1_000:.0f} ms"
            with stub(MEAN, sigma) as to:
                yield from _contest(title, plan, to, engines, pairs, installed if not sigma and plan.slow else {})
        for name, engine in engines.items():
            if plan.slots:
                yield from _memory_per_slot(name, plan, engine)
            yield from _first_call_delay(name, plan, engine)
            if plan.long:
                yield from _memory_growth(name, plan, engine)
    yield without_goal("machine: the same at the end", os.getloadavg()[0], "")


def _installed(others: Path) -> tuple[dict[str, str], list[Result]]:
    """The installed optional contenders with the Python of each, and rows for the missing ones."""
    python = others / "bin" / "python"
    installed, rows = {}, []
    for module, label in OPTIONAL.items():
        is_installed = python.exists() and any(others.glob(f"lib/python*/site-packages/{module}/__init__.py"))
        if is_installed:
            installed[module] = str(python)
        else:
            rows.append(skipped(label, "not installed (make interchange)"))
    return installed, rows


def _contest(
    title: str, plan: Plan, to: Stub, engines: dict[str, Lanes], pairs: dict[str, Any], optional: dict[str, str]
) -> Iterator[Result]:
    n, in_flight = plan.samples, plan.in_flight
    contenders: dict[str, Callable[[], Speed]] = {
        "raw aiohttp": lambda: ask("raw", to, pairs, n),
        LOOP: lambda: ask("loop", to, pairs, n),
    }
    for name, engine in engines.items():
        contenders[f"{name}, one lane"] = partial(engine.measure_speed, to, in_flight, n)
    if "PostgreSQL" in engines:
        contenders["PostgreSQL, two lanes"] = lambda: engines["PostgreSQL"].measure_speed(to, in_flight, n, 2)
    speeds: dict[str, list[Speed]] = defaultdict(list)
    for turn in range(plan.rounds):
        for name in list(contenders) if turn % 2 == 0 else reversed(list(contenders)):
            speeds[name].append(contenders[name]())
    for module, python in optional.items():
        speeds[OPTIONAL[module]].append(ask(module, to, pairs, plan.slow, python))
    rates = {name: median(speed.rate for speed in measured) for name, measured in speeds.items()}
    costs = {name: median(speed.cpu for speed in measured) for name, measured in speeds.items()}
    for name in speeds:
        yield without_goal(f"{title}: {name}", rates[name], "calls/s")
        yield without_goal(f"{title}: {name}, CPU per 1,000 calls", costs[name], "s")
    for name in speeds:
        if "lane" not in name:
            continue
        goal = 1.05 if "two" in name else 0.95
        paired = [ours.rate / loops.rate for ours, loops in zip(speeds[name], speeds[LOOP], strict=True)]
        yield at_least(f"{title}: {name} to the loop", median(paired), "times", goal)
        yield at_most(f"{title}: {name} to the loop, CPU", costs[name] / costs[LOOP], "times", 1.5)
        if "inspect_ai" in rates:
            yield at_least(f"{title}: {name} to inspect_ai", rates[name] / rates["inspect_ai"], "times", 6)


def _resident(pid: int) -> float:
    """Resident memory of a process, in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


def _memory_per_slot(name: str, plan: Plan, engine: Lanes) -> Iterator[Result]:
    """The memory that each call in flight adds to that of the idle process."""
    samples_mb: list[float] = []
    most = 0.0

    with stub(plan.held) as to:

        def watch(pid: int) -> None:
            with suppress(OSError, ValueError):
                samples_mb.append(_resident(pid))

        engine.run(to, plan.slots, samples=plan.slots, watch=watch)
        most = _complete_stats(to, plan.slots)["most"]
    where = f"{name}, {plan.slots:,} slots at {plan.held:g} s"
    yield without_goal(f"{where}: in flight at once", most, "calls")
    yield at_most(f"{where}: memory per slot", (max(samples_mb) - samples_mb[0]) / plan.slots, "MB", 0.5)


def _first_call_delay(name: str, plan: Plan, engine: Lanes) -> Iterator[Result]:
    """The time from the start of a lane to its first call, with a long queue."""
    with stub(MEAN) as to:
        launched, first = engine.call("first", to.url, plan.queued, plan.in_flight), to.stats()["first"]
    yield at_most(f"{name}, {plan.queued:,} rows queued: the first call after", first - launched["started"], "s", 2)


def _memory_growth(name: str, plan: Plan, engine: Lanes) -> Iterator[Result]:
    memory_at: dict[float, float] = {}
    calls = 2 * plan.long

    with stub(MEAN) as to:

        def watch(pid: int) -> None:
            with suppress(OSError, ValueError):
                memory_at[to.stats()["answered"]] = _resident(pid)
            time.sleep(0.5)

        engine.run(to, plan.in_flight, samples=plan.long, watch=watch)
        _complete_stats(to, plan.long)
    early = max(value for answered, value in memory_at.items() if 3_000 <= answered <= 5_000)
    late = max(value for answered, value in memory_at.items() if answered >= 0.95 * calls)
    yield without_goal(f"{name}: memory at 4,000 calls", early, "MB")
    yield without_goal(f"{name}: memory at {calls:,} calls", late, "MB")
    yield at_most(f"{name}: memory, {calls:,} to 4,000 calls", late / early, "times", 1.1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.engine", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls, one round: about a minute")
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, goal, met}")
    parser.add_argument("--others", type=Path, default=OTHERS, help="the virtual environment of `make interchange`")
    options = parser.parse_args(arguments)
    rows = []
    for row in measure(QUICK if options.quick else FULL, options.others):
        rows.append(row)
        print(row.name, row.value, row.unit, file=sys.stderr)
    print(as_json(rows) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
