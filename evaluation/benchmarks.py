"""The protocols of the benchmarks, found by name as `generation.benchmarks` finds recipes."""

from evaluation.protocol import Protocol
from generation.benchmarks import module


def protocol(benchmark: str) -> Protocol:
    """The benchmark's `protocol.PROTOCOL`. Raises UnknownBenchmark."""
    found: Protocol = module(benchmark, "protocol").PROTOCOL
    return found
