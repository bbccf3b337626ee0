"""Throughput of 1, 2 and 4 worker processes: `python -m bench.workers [--quick] [--json]`.

The production shape: Celery, Redis, PostgreSQL, a sweeper, and a stub that answers every call after
200 ms; and two workers on two hosts (network namespaces, which need root on Linux). They take turns
within a run of the bench. While one worker is at work, an import is queued, which must not wait for
it.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench import servers
from bench.core import Result, as_json, at_least, at_most, skipped, table, without_goal
from bench.engine import ROOT, Lanes, Stub, stub
from bench.hosts import Host, second_host
from mhb_site.server import children

IN_FLIGHT = 400
LATENCY = 0.2  # seconds
WORKERS = (1, 2, 4)
STARTS_WITHIN = 10.0  # seconds
IMPORTED = 100  # records
QUESTION = (
    '{"prompt_id": "%s", "prompt": [{"role": "user", "content": "Case %d"}], "rubrics": [], "example_tags": []}\n'
)


@contextmanager
def site(environment: dict[str, str], workers: int, second: Host | None = None) -> Iterator[None]:
    """This many workers for lanes, one for short tasks, and a sweeper; all of them ready.

    second: where the last of the workers runs.
    """
    import psycopg

    family = children.Children(cwd=str(ROOT), environment={**environment, "MHB_LANES": str(workers)})
    try:
        for number in range(workers):
            prefix = second.prefix if second is not None and number == workers - 1 else ()
            family.start(f"lanes {number}", [*prefix, *children.worker("mhb-lanes")])
        family.start("tasks", children.worker("mhb"))
        family.start("sweeper", children.django("sweep", "--forever"))
        with psycopg.connect(environment["MHB_DATABASE_URL"], autocommit=True) as connection:
            beats = "SELECT count(*) FROM generation_workerbeat WHERE seen_at > now() - interval '20 seconds'"
            while connection.execute(beats).fetchone() != (workers + 2,):
                time.sleep(0.1)
        yield
    finally:
        family.stop()
        with psycopg.connect(environment["MHB_DATABASE_URL"], autocommit=True) as connection:
            connection.execute("DELETE FROM generation_workerbeat")


def wait_for_calls(to: Stub, calls: int) -> float:
    """Wait until the stub has answered this many calls; returns the moment."""
    while to.stats()["answered"] < calls:
        time.sleep(0.05)
    return time.monotonic()


def queue_import(lanes: Lanes, folder: Path, number: int) -> Any:
    """Queue the import of a new file of IMPORTED records; returns its primary key."""
    path = folder / f"questions-{number}.jsonl"
    path.write_text("".join(QUESTION % (f"{number}-{n}", n) for n in range(IMPORTED)))
    return lanes.call("import", path)


def import_delay(lanes: Lanes, url: str, folder: Path, number: int) -> float:
    """Queue an import, wait for its end, and return the seconds from its row's creation to it."""
    import psycopg

    pk = queue_import(lanes, folder, number)
    with psycopg.connect(url, autocommit=True) as connection:
        seconds = "SELECT extract(epoch FROM finished_at - created_at) FROM generation_import WHERE id = %s"
        while not (ended := connection.execute(seconds, [pk]).fetchone()) or ended[0] is None:
            time.sleep(0.05)
    return float(ended[0])


def measure(samples: int, rounds: int) -> Iterator[Result]:
    with ExitStack() as stack:
        host = None
        try:
            host = stack.enter_context(second_host())
        except servers.Missing as missing:
            yield skipped("2 workers on two hosts", str(missing))
        address = host.address if host else servers.HOST
        url = stack.enter_context(servers.postgres_server(durable=True, host=address)).url
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mhb-bench-"))
        to = stack.enter_context(stub(LATENCY, host=address))
        environment = {
            "MHB_DATABASE_URL": url,
            "MHB_REDIS_URL": stack.enter_context(servers.redis_server(address)).url,
            "MHB_DEBUG": "false",
            "MHB_DATA_DIR": folder,
            "MHB_SECRET_KEY": "only-for-this-bench-" * 2,
            "MHB_HTTPS": "false",
        }
        lanes = Lanes(environment)
        lanes.call("seed", samples)
        turns: list[tuple[int, Host | None]] = [(workers, None) for workers in WORKERS]
        turns += [(2, host)] if host else []
        rates: dict[tuple[int, Host | None], list[float]] = {turn: [] for turn in turns}
        delays = []
        for number in range(rounds):
            for workers, second in turns:
                with site(environment, workers, second):
                    to.stats(reset=True)
                    lanes.call("launch", to.url, samples, IN_FLIGHT)
                    begun, early = wait_for_calls(to, samples // 10), to.stats()["answered"]
                    if workers == WORKERS[0]:
                        delays.append(import_delay(lanes, url, Path(folder), number))
                    ended = wait_for_calls(to, 2 * samples)
                    rates[workers, second].append((2 * samples - early) / (ended - begun))
    base = median(rates[1, None])
    yield without_goal("1 worker", base, "calls/s")
    yield at_least("2 workers", median(rates[2, None]) / base, "of one", 1.5)
    yield without_goal("4 workers", median(rates[4, None]) / base, "of one")
    if host:
        yield without_goal("2 workers on two hosts", median(rates[2, host]) / base, "of one")
    yield at_most("an import beside a run ends after", max(delays), "s", STARTS_WITHIN)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.workers", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options: Any = parser.parse_args(arguments)
    results = list(measure(1_000, 1) if options.quick else measure(4_000, 3))
    print(as_json(results) if options.json else table(results))


if __name__ == "__main__":
    main()
