"""Django's makemessages that also collects error messages, which are docstrings in `errors.py`.

xgettext does not read docstrings.
"""

import ast
from functools import cached_property
from pathlib import Path

from django.core.management.commands import makemessages


class SourceFile(makemessages.BuildFile):
    """A file for xgettext; the docstrings of an `errors.py` are appended as marked messages."""

    @cached_property
    def has_errors(self) -> bool:
        folder = Path(self.path).parent
        return self.translatable.file == "errors.py" and any(
            (parent / "apps.py").exists() for parent in (folder, folder.parent)
        )

    @cached_property
    def is_templatized(self) -> bool:  # makes Django prepare a copy, and remove it
        return self.has_errors or super().is_templatized

    def preprocess(self) -> None:
        if not self.has_errors:
            super().preprocess()
            return
        source = Path(self.path).read_text(encoding="utf-8")
        marked = "".join(f"\n_({message!r})" for message in messages(source))
        Path(self.work_path).write_text(source + marked, encoding="utf-8")


def messages(source: str) -> list[str]:
    """The docstrings of the derived classes in `source`, formatted as `message` looks them up."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.bases]
    return [" ".join((ast.get_docstring(node) or "").split()) for node in classes]


class Command(makemessages.Command):
    """Used by `make messages`."""

    build_file_class = SourceFile
