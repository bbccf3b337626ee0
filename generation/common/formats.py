"""Discovery of formats by name: each module of a package is a format, with no other registry."""

import importlib
import pkgutil
from collections.abc import Collection
from types import ModuleType

from review.rules.text import storable


class FormatError(Exception):
    """Base of format errors; the message is the docstring of the class followed by the detail."""

    permanent = True

    def __init__(self, detail: str) -> None:
        self.detail = storable(detail)  # it may quote a file
        super().__init__(f"{(type(self).__doc__ or '').strip()} {self.detail}")


class UnknownFormat(FormatError):
    """There is no format with this name."""


def modules(package: str, *, helpers: Collection[str]) -> dict[str, str]:
    """Return the formats of `package`: name -> dotted module.

    `helpers`: modules of the package that are not formats. A module is named after its format, with
    '_' for '-'; a trailing '_' avoids the name of a standard module (`csv_`).
    """
    path = importlib.import_module(package).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(path) if module.name not in helpers)
    return {name.rstrip("_").replace("_", "-"): f"{package}.{name}" for name in names}


def load(package: str, name: str, *, helpers: Collection[str]) -> ModuleType:
    """Import the module of the format `name`. Raises UnknownFormat, which lists the known ones."""
    known = modules(package, helpers=helpers)
    if name not in known:
        raise UnknownFormat(f"{name!r} is not one of: {', '.join(known)}.")
    return importlib.import_module(known[name])
