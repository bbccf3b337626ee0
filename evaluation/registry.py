"""The protocols of the benchmarks, found by name as `generation.recipes.registry` finds recipes."""

from evaluation.protocol import Protocol
from generation.recipes.registry import module


def protocol(benchmark: str) -> Protocol:
    """The benchmark's `protocol.PROTOCOL`. Raises UnknownBenchmark."""
    found: Protocol = module(benchmark, "protocol").PROTOCOL
    return found
