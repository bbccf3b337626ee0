"""Django's makemessages that also collects error messages and what benchmarks declare in JSON.

xgettext reads neither docstrings nor JSON.
"""

import ast
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from django.core.management.commands import makemessages

# The files whose texts people read in their language.
DECLARED = tuple(
    f"{name}.json"
    for name in (
        *("datasets", "facets", "form", "control_form", "reworded_form", "labels", "presets", "rates", "reasons"),
        *("roles", "taxonomy"),
    )
)
TEXTS = ("label", "asks", "help", "about", "severity_asks", "locked", "rule", "definition", "note")


class SourceFile(makemessages.BuildFile):
    """A file for xgettext; texts of JSON files and of an `errors.py` are marked messages."""

    @cached_property
    def has_errors(self) -> bool:
        folder = Path(self.path).parent
        return self.translatable.file == "errors.py" and any(
            (parent / "apps.py").exists() for parent in (folder, folder.parent)
        )

    @property
    def is_declared(self) -> bool:
        return self.translatable.file in DECLARED

    @cached_property
    def is_templatized(self) -> bool:  # makes Django prepare a copy, and remove it
        return self.has_errors or self.is_declared or super().is_templatized

    def preprocess(self) -> None:
        if not (self.has_errors or self.is_declared):
            super().preprocess()
            return
        source = Path(self.path).read_text(encoding="utf-8")
        texts = declared_texts(json.loads(source), "label") if self.is_declared else messages(source)
        marked = "".join(f"\n_({text!r})" for text in texts)
        Path(self.work_path).write_text(("" if self.is_declared else source) + marked, encoding="utf-8")


def messages(source: str) -> list[str]:
    """The docstrings of the derived classes in `source`, formatted as `message` looks them up."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.bases]
    return [" ".join((ast.get_docstring(node) or "").split()) for node in classes]


def declared_texts(part: Any, name: str = "") -> Iterator[str]:
    """The texts of a review form or of another file of `DECLARED` that people read."""
    match part:
        case dict():
            for key, value in part.items():
                yield from declared_texts(value, "locked" if name == "locked" else key)
        case list():
            for value in part:  # of a facet: [value, label]
                yield from declared_texts(value[1], "label") if name == "values" else declared_texts(value, name)
        case str() if part and name in TEXTS:
            yield part


class Command(makemessages.Command):
    """Used by `make messages`."""

    build_file_class = SourceFile
