"""Texts and modules in the benchmarks' folders, found by name: no code here knows a benchmark."""

import json
from functools import cache
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from django.conf import settings
from django.utils.translation import get_language


def names() -> tuple[str, ...]:
    """The names of the benchmarks that have a folder."""
    return _names(settings.MHB_BENCHMARKS)


@cache
def _names(package: str) -> tuple[str, ...]:
    path = import_module(package).__path__
    return tuple(sorted(module.name for module in iter_modules(path) if module.ispkg))


def text(benchmark: str, folder: str, name: str) -> str:
    """The text of a Markdown file in a benchmark's folder; "" if there is none.

    Prefers `<benchmark>/<folder>/<name>.<language>.md` in the reader's language to the English
    `<name>.md`.
    """
    return _text(benchmark, f"{folder}/{name}", get_language() or "", "md")


def data(benchmark: str, name: str) -> Any:
    """The content of a JSON file in a benchmark's folder, like `text`; None if there is none."""
    content = _text(benchmark, name, get_language() or "", "json")
    return json.loads(content) if content else None


@cache
def _text(benchmark: str, path: str, language: str, suffix: str) -> str:
    if benchmark not in names():
        return ""
    folder = files(settings.MHB_BENCHMARKS).joinpath(benchmark)
    for file in (folder.joinpath(f"{path}.{language}.{suffix}"), folder.joinpath(f"{path}.{suffix}")):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return ""


def module(benchmark: str, part: str) -> ModuleType | None:
    """The module `<benchmark>.<part>`, or None if the benchmark has none."""
    if benchmark not in names():
        return None
    package = import_module(f"{settings.MHB_BENCHMARKS}.{benchmark}")
    exists = any(candidate.name == part for candidate in iter_modules(package.__path__))
    return import_module(f"{package.__name__}.{part}") if exists else None
