"""Protocols of benchmarks by name, as `generation.recipes.registry` is for recipes."""

from evaluation.protocol import Protocol
from generation.recipes.registry import module


def protocol(benchmark: str) -> Protocol:
    """The benchmark's `protocol.PROTOCOL`. Raises UnknownBenchmark."""
    value: Protocol = module(benchmark, "protocol").PROTOCOL
    return value
