"""Export formats of releases: each class in a module of this package is one (`base.Exporter`)."""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from generation.errors import UnknownExportFormat
from generation.releases.exporters.base import Exporter

__all__ = ["Exporter", "available", "load"]


@cache
def _formats() -> Mapping[str, Exporter]:
    modules = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    classes = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    formats = [each() for each in classes if issubclass(each, Exporter) and each.name]
    return {each.name: each for each in sorted(formats, key=lambda each: each.name)}


def available() -> list[str]:
    """The names of all export formats, sorted."""
    return list(_formats())


def load(name: str) -> Exporter:
    """The exporter with this name. Raises UnknownExportFormat, which lists the known ones."""
    if name not in _formats():
        raise UnknownExportFormat(f"{name!r}; known: {', '.join(_formats())}")
    return _formats()[name]
