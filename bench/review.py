"""How many keys a review takes, how long physicians wait, and whether two ever get the same case.

`python -m bench.review [--quick] [--json]`.

The site runs as real processes (web server, database, clients) with few and with many open
cases. The two sizes take turns in blocks, so that other work on the machine affects both. Goals are
for two cores.
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

from bench import keystrokes, peers, processor
from bench.core import Result, as_json, at_most, exactly, percentile, skipped, table, without_goal
from bench.servers import Missing
from bench.sites import PEOPLE, Site, postgres_sites, sqlite_sites

STATEMENTS_GOALS = {"next": 9, "reveal": 8, "draft": 4, "submit": 10}
PROCESSOR_GOALS = {"PostgreSQL": 60, "SQLite": 50}  # ms of one second review
GROWTH_GOAL = 1.3

Sites = Callable[[Path, Sequence[int]], AbstractContextManager[list[Site]]]
DATABASES: dict[str, Sites] = {"PostgreSQL": postgres_sites, "SQLite": sqlite_sites}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    `cycles`: number of users -> cases of each user in a block. `rounds`: of the rush, over all
    databases. `reviews`: second reviews of which the processor time is measured.
    """

    sizes: tuple[int, int]
    blocks: int
    cycles: dict[int, int]
    rounds: int
    refusals: int
    reviews: int


FULL = Plan(sizes=(5_000, 100_000), blocks=4, cycles={1: 25, 8: 4, 60: 1}, rounds=1_000, refusals=50, reviews=50)
QUICK = Plan(sizes=(300, 2_000), blocks=1, cycles={1: 12, 8: 4}, rounds=4, refusals=3, reviews=20)
TINY = Plan(sizes=(70, 140), blocks=1, cycles={1: 2}, rounds=2, refusals=1, reviews=2)


def measure(plan: Plan, names: Sequence[str] = tuple(DATABASES)) -> Iterator[Result]:
    """All figures by database; databases that are not installed are reported as skipped."""
    for name in names:
        with tempfile.TemporaryDirectory(prefix="mhb-bench-") as folder:
            try:
                with DATABASES[name](Path(folder), plan.sizes) as sites:
                    yield from _measure_sites(name, sites, plan)
            except Missing as missing:
                yield skipped(name, str(missing))


def _measure_sites(name: str, sites: Sequence[Site], plan: Plan) -> Iterator[Result]:
    yield from _processor_times(name, sites, plan)  # first: the others use up what awaits a second review
    for users, cycles in plan.cycles.items():
        times: dict[int, dict[str, list[float]]] = {site.cases: defaultdict(list) for site in sites}
        for block in range(plan.blocks):
            for site in sites if block % 2 == 0 else reversed(sites):
                for action, milliseconds in site.load("day", users, cycles=cycles)["times"].items():
                    times[site.cases][action] += milliseconds
        for cases, by_action in times.items():
            for action in ("next", "reveal", "draft", "submit"):
                title = f"{name}, {cases:,} cases, {users} user{'s'[: users > 1]}: {action}"
                yield without_goal(f"{title} p50", percentile(by_action[action], 0.5), "ms")
                yield without_goal(f"{title} p95", percentile(by_action[action], 0.95), "ms")
        few, many = (times[size] for size in plan.sizes)
        for action in ("next", "draft", "submit"):
            growth = percentile(many[action], 0.95) / percentile(few[action], 0.95)
            growth_name = (
                f"{name}, {users} user{'s'[: users > 1]}: {action} p95, {plan.sizes[1]:,} to {plan.sizes[0]:,} cases"
            )
            yield at_most(growth_name, growth, "times", GROWTH_GOAL)
    yield from _statements(name, sites[0])
    yield from _safety(name, sites, plan)


def _statements(name: str, site: Site) -> Iterator[Result]:
    for action, counts in site.statements().items():
        # Of drafts the last one: the first inserts a row.
        row = f"{name}: {action}, statements with BEGIN and COMMIT"
        yield at_most(row, counts[-1], "", STATEMENTS_GOALS[action])


def _processor_times(name: str, sites: Sequence[Site], plan: Plan) -> Iterator[Result]:
    """Processor time of the web server for a second review, from the site with fewer cases."""
    used = processor.total_milliseconds(sites[0].group)
    steps = sites[0].load("reviews", 1, cycles=plan.reviews)["processor"]
    used = processor.total_milliseconds(sites[0].group) - used
    for step, times in steps.items():
        yield without_goal(f"{name}: processor time of {step}, p50", percentile(times, 0.5), "ms")
    title = f"{name}: processor time of a review, mean"
    yield at_most(title, used / plan.reviews, "ms", PROCESSOR_GOALS[name])


def _safety(name: str, sites: Sequence[Site], plan: Plan) -> Iterator[Result]:
    largest = sites[-1]
    surplus = largest.load("one-too-many", 3, rounds=plan.refusals)
    yield exactly(
        f"{name}: answers one too many refused with 409, of {surplus['sent']}", surplus["refused"], "", surplus["sent"]
    )
    rounds = plan.rounds // len(DATABASES)
    rushed = largest.load("rush", PEOPLE, rounds=rounds)
    title = f"{name}, {PEOPLE} press Next at once, {rounds} rounds"
    yield exactly(f"{title}: duplicates", rushed["duplicates"], "", 0)
    yield exactly(f"{title}: sent away with nothing", rushed["nothing"], "", 0)
    yield without_goal(f"{title}: p95", percentile(rushed["times"]["rush"], 0.95), "ms")


def measure_peers(environments: Path, plan: Plan) -> Iterator[Result]:
    """The same figure of other platforms, each in its own environment of this folder."""
    with tempfile.TemporaryDirectory(prefix="mhb-peers-") as folder:
        yield from peers.measure(environments.resolve(), Path(folder), plan.reviews)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.review", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds: about a minute")
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, goal, met}")
    parser.add_argument(
        "--database", action="append", choices=list(DATABASES), help="only this one (more than once: these)"
    )
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="also Potato, doccano, Label Studio (bench.peers)")
    parser.add_argument("--rounds", type=int, help="of the rush, on all databases together")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else FULL
    if options.rounds:
        plan = replace(plan, rounds=options.rounds)
    rows = [
        without_goal("machine: processes that wanted to run before the bench (load average)", os.getloadavg()[0], "")
    ]
    figures = chain(keystrokes.measure(), measure(plan, options.database or tuple(DATABASES)))
    if options.peers:
        figures = chain(figures, measure_peers(options.peers, plan))
    for row in figures:
        rows.append(row)
        # A full run takes a quarter of an hour.
        print(row.name, row.value, row.unit, file=sys.stderr)
    print(as_json(rows) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
