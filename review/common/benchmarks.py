"""Texts and modules in the benchmarks' folders, found by name: no code here knows a benchmark.

A benchmark is a folder of the package `settings.MHB_BENCHMARKS`, or a package that an installed
distribution names under the group `mhb.benchmarks` of its entry points.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import get_language

ENTRY_POINTS = "mhb.benchmarks"


def names() -> tuple[str, ...]:
    """The names of all benchmarks."""
    return tuple(sorted(_packages()))


def package(benchmark: str) -> str:
    """The package of a benchmark, such as `mhb_site.benchmarks.mhb`. Raises KeyError."""
    return _packages()[benchmark]


def _packages() -> Mapping[str, str]:
    parent = settings.MHB_BENCHMARKS
    return _packages_in(parent, tuple(import_module(parent).__path__))


@cache
def _packages_in(parent: str, paths: tuple[str, ...]) -> Mapping[str, str]:
    folders = iter_modules(paths)
    found = {folder.name: f"{parent}.{folder.name}" for folder in folders if folder.ispkg}
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name in found:
            raise ImproperlyConfigured(f"Two benchmarks are called {entry.name!r}: {found[entry.name]}, {entry.value}.")
        if not entry.name.isidentifier():
            raise ImproperlyConfigured(f"The name of a benchmark is a word of letters, digits and _: {entry.name!r}.")
        found[entry.name] = entry.value
    return found


def text(benchmark: str, folder: str, name: str) -> str:
    """The text of a Markdown file in a benchmark's folder; "" if there is none.

    Prefers `<benchmark>/<folder>/<name>.<language>.md` in the reader's language to the English
    `<name>.md`.
    """
    return _text(benchmark, f"{folder}/{name}", get_language() or "", "md")


def data(benchmark: str, name: str) -> Any:
    """The content of a JSON file in a benchmark's folder, like `text`; None if there is none."""
    content = _text(benchmark, name, get_language() or "", "json")
    if content:
        return json.loads(content)
    return None


@cache
def _text(benchmark: str, path: str, language: str, suffix: str) -> str:
    if benchmark not in names():
        return ""
    folder = files(package(benchmark))
    for file in (folder.joinpath(f"{path}.{language}.{suffix}"), folder.joinpath(f"{path}.{suffix}")):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return ""


def module(benchmark: str, part: str) -> ModuleType | None:
    """The module `<benchmark>.<part>`, or None if the benchmark has none."""
    if benchmark not in names():
        return None
    folder = import_module(package(benchmark))
    exists = any(candidate.name == part for candidate in iter_modules(folder.__path__))
    if exists:
        return import_module(f"{folder.__name__}.{part}")
    return None
