"""Named ways to compose a benchmark's release.

By length, in equal parts, or by how samples were made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from generation import errors
from generation.recipes import registry
from review.common.benchmarks import package


@dataclass(frozen=True, slots=True)
class Configuration:
    """An entry of a benchmark's `configurations.CONFIGURATIONS`, the default first.

    `rule` describes the selection in a sentence. `below`: take samples whose texts (the fields of
    their content named in `texts`) have fewer characters in total; 0: any length. `balanced`:
    groups that are cut to the size of the smallest, and to `max_group_size` samples (0: no limit).
    What is left out is drawn by the release's seed, record by record, so that samples of one record
    stay together. A sample's group is its task. `even_field`: the field of its content whose values
    each group, balanced or not, has equally many samples of. `provenance`: take samples made in
    this way (name -> value of `NewSample.provenance`).
    """

    name: str
    label: str
    rule: str
    below: int = 0
    texts: tuple[str, ...] = ()
    balanced: tuple[str, ...] = ()
    even_field: str = ""
    max_group_size: int = 0
    provenance: Mapping[str, str] = field(default_factory=dict)


def configurations(benchmark: str) -> tuple[Configuration, ...]:
    """The configurations that a benchmark offers; most offer none."""
    if benchmark not in registry.names() or not find_spec(f"{package(benchmark)}.configurations"):
        return ()
    offered: tuple[Configuration, ...] = registry.module(benchmark, "configurations").CONFIGURATIONS
    return offered


def configuration(benchmark: str, name: str) -> Configuration | None:
    """The configuration with this name; None for "". Raises WrongComposition."""
    if not name:
        return None
    offered = configurations(benchmark)
    for candidate in offered:
        if candidate.name == name:
            return candidate
    known = ", ".join(candidate.name for candidate in offered)
    raise errors.WrongComposition(f"configuration {name!r}; known: {known or 'none'}")
