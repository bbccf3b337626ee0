"""Loads pickles of plain values.

A pickle is a program: here it can build lists, dictionaries, texts and numbers, and nothing else.
"""

import pickle
from pathlib import Path
from typing import Any, NoReturn

from generation.sources.importers.base import WrongFormat

MAX_PICKLE = 64 * 2**20  # bytes: it is read whole


class _PlainUnpickler(pickle.Unpickler):
    """Resolves no class and no function, so that nothing can be called."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError("names a class or function")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("names an object outside")


def load_plain(path: Path) -> Any:
    """Load a pickle of nothing but containers, texts and numbers. Raises WrongFormat."""
    if path.stat().st_size > MAX_PICKLE:
        raise WrongFormat(f"The pickle is larger than {MAX_PICKLE:,} bytes.")
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file).load()
    except pickle.UnpicklingError as error:
        if "names" in str(error):
            raise WrongFormat(
                "The pickle contains more than lists, texts and numbers. It could run code, so it is not read."
            ) from None
        raise WrongFormat("The pickle cannot be read: it is damaged or not complete.") from None
    except Exception:  # a broken pickle can raise anything: EOFError, KeyError, MemoryError, ...
        raise WrongFormat("The pickle cannot be read: it is damaged or not complete.") from None
