"""Reads the prompt files of a benchmark's folder, and those of sets that a team brought."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any

from generation.llm.fencing import as_data
from generation.llm.types import Message, Request, Role

NO_TEXTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt file: `name@version` in the ledger, and its turns with ``$placeholders``.

    Where a team's own set is in force (`in_force`), its text and label replace this file's.
    """

    name: str
    version: str
    turns: tuple[tuple[Role, str], ...]

    @property
    def heading(self) -> str:
        """Its first line, by which simulated models recognise it."""
        return self.turns[0][1].partition("\n")[0]

    def messages(self, **values: str) -> tuple[Message, ...]:
        """The turns with every placeholder filled in. Raises KeyError if a value is missing."""
        return tuple(Message(role, _fill_placeholders(text, values)) for role, text in self._in_force.turns)

    def request(self, data: Mapping[str, object], texts: Mapping[str, str] = NO_TEXTS, **sampling: Any) -> Request:
        """The request with `data` as fenced JSON and `texts` as they are.

        `sampling`: other fields of `Request`. Raises KeyError if a value is missing.
        """
        fenced = {name: as_data(value) for name, value in data.items()}
        messages = self.messages(**fenced, **texts)
        return Request(messages, prompt=self.label, **sampling)

    def section(self, title: str) -> str:
        """The text under a heading of its first turn, in the wording in force; else ""."""
        _before, _heading, text = self._in_force.turns[0][1].partition(f"## {title}\n")
        return text.partition("\n## ")[0].strip()

    @property
    def label(self) -> str:
        prompt = self._in_force
        return f"{prompt.name}@{prompt.version}"

    @property
    def file(self) -> str:
        """The name of its file in any set, without the ending."""
        return self.name.rpartition("/")[2]

    @property
    def placeholders(self) -> frozenset[str]:
        """The names of its ``$placeholders``. Raises ValueError for a ``$`` without a name."""
        names: set[str] = set()
        for _role, text in self.turns:
            names.update(_split_template(text)[1::2])
        return frozenset(names)

    @property
    def _in_force(self) -> "Prompt":
        return _replaced.get().get((self.name.partition("/")[0], self.file), self)


_replaced: ContextVar[Mapping[tuple[str, str], Prompt]] = ContextVar("prompts in force", default=MappingProxyType({}))


@contextmanager
def in_force(benchmark: str, prompts: Mapping[str, Prompt]) -> Iterator[None]:
    """Use these prompts (file -> prompt) instead of the benchmark's, here and in tasks begun here.

    Recipes and protocols know only their own files; which text is sent is decided by the job.
    """
    token = _replaced.set({(benchmark, file): prompt for file, prompt in prompts.items()})
    try:
        yield
    finally:
        _replaced.reset(token)


def _fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    pieces = list(_split_template(text))
    pieces[1::2] = [values[name] for name in pieces[1::2]]
    return "".join(pieces)


@cache  # a prompt that is used for a hundred thousand samples is split once
def _split_template(text: str) -> tuple[str, ...]:
    """Split a text as `string.Template` reads it: constant, placeholder, constant, and so on."""
    pieces, start = [""], 0
    for match in Template.pattern.finditer(text):
        pieces[-1] += text[start : match.start()]
        start = match.end()
        if match["escaped"] is not None:
            pieces[-1] += Template.delimiter
        elif name := match["named"] or match["braced"]:
            pieces += [name, ""]
        else:
            raise ValueError(f"A '{Template.delimiter}' without a name: {text[match.start() :][:40]!r}")
    pieces[-1] += text[start:]
    return tuple(pieces)


def read_prompt(path: Path) -> Prompt:
    """Read ``<benchmark>/prompts/<name>.md``; see `parse_prompt`.

    A file of another set lies one folder deeper, ``<benchmark>/prompts/<set>/<name>.md``, and the
    set is part of the prompt's name.
    """
    folder, set_prefix = path.parent, ""
    if folder.name != "prompts":
        set_prefix = f"{folder.name}/"
        folder = folder.parent
    benchmark = folder.parent.name
    return parse_prompt(f"{benchmark}/{set_prefix}{path.stem}", path.read_text(encoding="utf-8"))


def parse_prompt(name: str, text: str) -> Prompt:
    """Parse the text of a prompt file.

    Its first line is ``version: N``. Then come parts headed ``=== system``, ``=== user`` or ``===
    assistant`` (an example of a reply, between two ``=== user`` parts).

    Raises ValueError if the file has no version or an unknown part.
    """
    file = f"{name.rpartition('/')[2]}.md"
    head, _, body = text.partition("\n")
    version = head.removeprefix("version:").strip()
    if not head.startswith("version:") or not version:
        raise ValueError(f"{file}: the first line must be 'version: N'")
    turns: list[tuple[Role, str]] = []
    for part in f"\n{body}".split("\n=== ")[1:]:
        role, _, turn = part.partition("\n")
        match role.strip():
            case "system" | "user" | "assistant" as known:
                turns.append((known, turn.strip()))
            case unknown:
                raise ValueError(f"{file}: unknown part {unknown[:40]!r}")
    if not turns:
        raise ValueError(f"{file}: no part '=== system' or '=== user'")
    if turns[-1][0] == "assistant":
        raise ValueError(f"{file}: the last part is a reply, which answers nothing")
    return Prompt(name, version, tuple(turns))


class PromptSets(dict[str, dict[str, Prompt]]):
    """The sets of a folder: set -> name -> prompt.

    A team's own set (``name@2``) is put in force instead of the default one. Another set must be in
    the folder: a draft whose set was removed must not be made with other prompts.
    """

    def __missing__(self, name: str) -> dict[str, Prompt]:
        if "@" not in name:
            raise KeyError(name)
        return self[""]


def read_prompts(folder: Path, *names: str) -> PromptSets:
    """Read the prompts of all sets, as set -> name -> prompt.

    The files of `folder` are the default set, "", and each folder within it is another one. A set
    without a file of its own uses the default's. Raises ValueError like `read_prompt`.
    """
    default = {name: read_prompt(folder / f"{name}.md") for name in names}
    sets = PromptSets({"": default})
    for set_folder in sorted(filter(Path.is_dir, folder.iterdir())):
        overrides = {}
        for name in names:
            path = set_folder / f"{name}.md"
            if path.exists():
                overrides[name] = read_prompt(path)
        if overrides:
            sets[set_folder.name] = {**default, **overrides}
    return sets
