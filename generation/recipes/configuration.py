"""Named ways to compose a release of a benchmark: a limit of length, tasks of like size, how its samples were made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from django.conf import settings

from generation import errors
from generation.recipes import registry


@dataclass(frozen=True, slots=True)
class Configuration:
    """One entry of a benchmark's `configurations.CONFIGURATIONS`; the first is the usual one. `rule` says in a sentence what
    goes in.

    `below`: a sample goes in where the texts of its content named by `texts` have together fewer characters; 0: any length.
    `balanced`: groups that are cut to the size of the smallest of them, and to `most` samples at most (0: no such limit); what
    is left out is drawn by the release's seed, record by record, so that samples of one record stay together. `by`: the text
    of a sample's content that names its group; '': its task. `made`: a sample goes in where it was made like this (name ->
    value of `NewSample.made`).
    """

    name: str
    label: str
    rule: str
    below: int = 0
    texts: tuple[str, ...] = ()
    balanced: tuple[str, ...] = ()
    by: str = ""
    most: int = 0
    made: Mapping[str, str] = field(default_factory=dict)


def configurations(benchmark: str) -> tuple[Configuration, ...]:
    """Those that a benchmark offers; most have none."""
    if benchmark not in registry.names() or not find_spec(f"{settings.MHB_BENCHMARKS}.{benchmark}.configurations"):
        return ()
    found: tuple[Configuration, ...] = registry.module(benchmark, "configurations").CONFIGURATIONS
    return found


def configuration(benchmark: str, name: str) -> Configuration | None:
    """The one of this name; None for "". Raises WrongComposition."""
    if not name:
        return None
    there = configurations(benchmark)
    found = next((each for each in there if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in there)
        raise errors.WrongComposition(f"configuration {name!r}; known: {known or 'none'}")
    return found
