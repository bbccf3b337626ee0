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
    formats: dict[str, Exporter] = {}
    for module in pkgutil.iter_modules(__path__):
        for value in vars(import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Exporter) and value.name:
                formats[value.name] = value()
    return dict(sorted(formats.items()))


def available() -> list[str]:
    """The names of all export formats, sorted."""
    return list(_formats())


def load(name: str) -> Exporter:
    """The exporter with this name. Raises UnknownExportFormat, which lists the known ones."""
    if name not in _formats():
        raise UnknownExportFormat(f"{name!r}; known: {', '.join(_formats())}")
    return _formats()[name]
