"""Protocols of benchmarks by name, as `generation.recipes.registry` is for recipes."""

from importlib.util import find_spec

from django.conf import settings

from evaluation.protocol import Protocol
from evaluation.published import PublishedTable
from generation.recipes.registry import module, names


def protocol(benchmark: str) -> Protocol:
    """The benchmark's `protocol.PROTOCOL`. Raises UnknownBenchmark."""
    value: Protocol = module(benchmark, "protocol").PROTOCOL
    return value


def published(benchmark: str) -> tuple[PublishedTable, ...]:
    """The benchmark's `published_results.TABLES`: its paper's tables and figures."""
    if benchmark not in names() or not find_spec(f"{settings.MHB_BENCHMARKS}.{benchmark}.published_results"):
        return ()
    tables: tuple[PublishedTable, ...] = module(benchmark, "published_results").TABLES
    return tables
