"""Django's makemessages that also collects error messages (docstrings in `errors.py`) and forms.

xgettext reads neither docstrings nor JSON.
"""

import ast
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from django.core.management.commands import makemessages


class SourceFile(makemessages.BuildFile):
    """A file for xgettext; texts of forms and of an `errors.py` are appended as marked messages."""

    @cached_property
    def has_errors(self) -> bool:
        folder = Path(self.path).parent
        return self.translatable.file == "errors.py" and any(
            (parent / "apps.py").exists() for parent in (folder, folder.parent)
        )

    @property
    def is_form(self) -> bool:
        return self.translatable.file.endswith("form.json")

    @cached_property
    def is_templatized(self) -> bool:  # makes Django prepare a copy, and remove it
        return self.has_errors or self.is_form or super().is_templatized

    def preprocess(self) -> None:
        if not (self.has_errors or self.is_form):
            super().preprocess()
            return
        source = Path(self.path).read_text(encoding="utf-8")
        texts = form_texts(json.loads(source)) if self.is_form else messages(source)
        marked = "".join(f"\n_({text!r})" for text in texts)
        Path(self.work_path).write_text(("" if self.is_form else source) + marked, encoding="utf-8")


def messages(source: str) -> list[str]:
    """The docstrings of the derived classes in `source`, formatted as `message` looks them up."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.bases]
    return [" ".join((ast.get_docstring(node) or "").split()) for node in classes]


def form_texts(part: Any, name: str = "") -> Iterator[str]:
    """The texts of a review form that people read."""
    if isinstance(part, dict):
        for key, value in part.items():
            yield from form_texts(value, "locked" if name == "locked" else key)
    elif isinstance(part, list):
        for value in part:
            yield from form_texts(value, name)
    elif isinstance(part, str) and part and name in ("label", "asks", "help", "about", "severity_asks", "locked"):
        yield part


class Command(makemessages.Command):
    """Used by `make messages`."""

    build_file_class = SourceFile
