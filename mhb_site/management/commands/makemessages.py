"""Django's makemessages that also collects error messages, what benchmarks declare in JSON, and how
judges decide.

xgettext reads neither docstrings, JSON nor prompts.
"""

import ast
import json
from collections.abc import Iterable, Iterator
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
RULES = ("How to decide", "What a criterion is, and when it is met")  # headings of judges' prompts
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
    def is_judges_prompt(self) -> bool:
        path = Path(self.path)
        return path.name == "judge.md" and path.parent.name == "prompts"

    @cached_property
    def is_templatized(self) -> bool:  # makes Django prepare a copy, and remove it
        return self.has_errors or self.is_declared or self.is_judges_prompt or super().is_templatized

    def preprocess(self) -> None:
        source = Path(self.path).read_text(encoding="utf-8")
        texts: Iterable[str]
        if self.is_declared:
            texts = declared_texts(json.loads(source), "label")
        elif self.is_judges_prompt:
            texts = rules(source)
        elif self.has_errors:
            texts = messages(source)
        else:
            super().preprocess()
            return
        marked = "".join(f"\n_({text!r})" for text in texts)
        if self.has_errors:
            marked = source + marked
        Path(self.work_path).write_text(marked, encoding="utf-8")


def messages(source: str) -> list[str]:
    """The docstrings of the derived classes in `source`, formatted as `message` looks them up."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.bases]
    return [" ".join((ast.get_docstring(node) or "").split()) for node in classes]


def rules(prompt: str) -> list[str]:
    """How a judge decides, which physicians are shown; the form before it is in `form.json`."""
    found = []
    for part in prompt.partition("\n=== user")[0].split("\n## ")[1:]:
        heading, _newline, text = part.partition("\n")
        if heading in RULES:
            found.append(text.rpartition("$rubric_form")[2].strip())
    return found


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
