"""Protocols of benchmarks by name, as `generation.recipes.registry` is for recipes."""

from functools import cache

from evaluation.protocol import Protocol
from evaluation.published import PublishedTable
from generation.common.declared import read_declared
from generation.errors import UnknownBenchmark
from generation.recipes.registry import module


def protocol(benchmark: str) -> Protocol:
    """The benchmark's `protocol.PROTOCOL`. Raises UnknownBenchmark."""
    value: Protocol = module(benchmark, "protocol").PROTOCOL
    return value


@cache
def published(benchmark: str) -> tuple[PublishedTable, ...]:
    """The tables and figures of the benchmark's paper: `published_results.json`, if it has one."""
    try:
        return read_declared(PublishedTable, module(benchmark, "protocol").__file__ or "", "published_results.json")
    except (FileNotFoundError, UnknownBenchmark):
        return ()
