"""How many keys a review takes, how long a physician waits, and whether two ever get the same case.

`python -m bench.review [--quick] [--json]`.

The site runs as real processes (gunicorn, the database, the clients) before few and before many open cases. The two sizes
take turns in blocks, so that whatever else the machine does meets both alike. Goals are for two cores.
"""

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from bench import keystrokes
from bench.core import Result, as_json, at_most, exactly, percentile, skipped, table, told
from bench.servers import Missing
from bench.sites import PEOPLE, Site, postgres_sites, sqlite_sites

# Milliseconds at p95, by users, of a site on PostgreSQL.
GOALS = {1: {"next": 10.0, "submit": 9.0, "draft": 5.0}, 8: {"next": 90.0, "submit": 80.0}}
STATEMENTS_GOAL = 14  # of one submit
GROWTH_GOAL = 1.3

Sites = Callable[[Path, Sequence[int]], AbstractContextManager[list[Site]]]
DATABASES: dict[str, Sites] = {"PostgreSQL": postgres_sites, "SQLite": sqlite_sites}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured. `cycles`: cases for each user in one block, by users. `rounds`: of the rush, on all databases."""

    sizes: tuple[int, int]
    blocks: int
    cycles: dict[int, int]
    rounds: int
    refusals: int


FULL = Plan(sizes=(5_000, 100_000), blocks=4, cycles={1: 25, 8: 4, 60: 1}, rounds=1_000, refusals=50)
QUICK = Plan(sizes=(300, 2_000), blocks=1, cycles={1: 12, 8: 1}, rounds=4, refusals=3)
TINY = Plan(sizes=(70, 140), blocks=1, cycles={1: 2}, rounds=2, refusals=1)


def measure(plan: Plan, names: Sequence[str] = tuple(DATABASES)) -> Iterator[Result]:
    """All figures, database by database; a database that is not installed is a row that says so."""
    for name in names:
        with tempfile.TemporaryDirectory(prefix="mhb-bench-") as folder:
            try:
                with DATABASES[name](Path(folder), plan.sizes) as sites:
                    yield from _of(name, sites, plan)
            except Missing as missing:
                yield skipped(name, str(missing))


def _of(name: str, sites: Sequence[Site], plan: Plan) -> Iterator[Result]:
    for users, cycles in plan.cycles.items():
        times: dict[int, dict[str, list[float]]] = {site.cases: defaultdict(list) for site in sites}
        for block in range(plan.blocks):
            for site in sites if block % 2 == 0 else reversed(sites):
                for what, found in site.load("day", users, cycles=cycles)["times"].items():
                    times[site.cases][what] += found
        for cases, by_what in times.items():
            for what in ("next", "reveal", "draft", "submit"):
                where = f"{name}, {cases:,} cases, {users} user{'s'[: users > 1]}: {what}"
                yield told(f"{where} p50", percentile(by_what[what], 0.5), "ms")
                yield _judged(f"{where} p95", percentile(by_what[what], 0.95), what, users)
        few, many = (times[size] for size in plan.sizes)
        for what in ("next", "draft", "submit"):
            growth = percentile(many[what], 0.95) / percentile(few[what], 0.95)
            growth_name = (
                f"{name}, {users} user{'s'[: users > 1]}: {what} p95, {plan.sizes[1]:,} to {plan.sizes[0]:,} cases"
            )
            yield at_most(growth_name, growth, "times", GROWTH_GOAL)
    yield from _statements(name, sites[0])
    yield from _safety(name, sites, plan)


def _judged(name: str, value: float, what: str, users: int) -> Result:
    goal = GOALS.get(users, {}).get(what) if name.startswith("PostgreSQL") else None
    return told(name, value, "ms") if goal is None else at_most(name, value, "ms", goal)


def _statements(name: str, site: Site) -> Iterator[Result]:
    for what, counts in site.statements().items():
        row = f"{name}: {what}, statements with BEGIN and COMMIT"
        judged = what == "submit"
        yield at_most(row, max(counts), "", STATEMENTS_GOAL) if judged else told(row, max(counts), "")


def _safety(name: str, sites: Sequence[Site], plan: Plan) -> Iterator[Result]:
    largest = sites[-1]
    extra = largest.load("one-too-many", 3, rounds=plan.refusals)
    yield exactly(
        f"{name}: answers one too many refused with 409, of {extra['sent']}", extra["refused"], "", extra["sent"]
    )
    rounds = plan.rounds // len(DATABASES)
    rushed = largest.load("rush", PEOPLE, rounds=rounds)
    where = f"{name}, {PEOPLE} press Next at once, {rounds} rounds"
    yield exactly(f"{where}: duplicates", rushed["duplicates"], "", 0)
    yield exactly(f"{where}: sent away with nothing", rushed["nothing"], "", 0)
    yield told(f"{where}: p95", percentile(rushed["times"]["rush"], 0.95), "ms")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.review", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds: about a minute")
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, goal, met}")
    parser.add_argument(
        "--database", action="append", choices=list(DATABASES), help="only this one (more than once: these)"
    )
    parser.add_argument("--rounds", type=int, help="of the rush, on all databases together")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else FULL
    if options.rounds:
        plan = replace(plan, rounds=options.rounds)
    rows = [told("machine: processes that wanted to run before the bench (load average)", os.getloadavg()[0], "")]
    for row in chain(keystrokes.measure(), measure(plan, options.database or tuple(DATABASES))):
        rows.append(row)
        print(row.name, row.value, row.unit, file=sys.stderr)  # a full run takes a quarter of an hour
    print(as_json(rows) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
