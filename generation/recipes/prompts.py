"""Reads the prompt files of a benchmark's folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

from generation.llm.types import Message, Role


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt file: `name@version` in the ledger, and its turns with ``$placeholders``."""

    name: str
    version: str
    turns: tuple[tuple[Role, str], ...]

    def messages(self, **values: str) -> tuple[Message, ...]:
        """The turns with every placeholder filled in. Raises KeyError if a value is missing."""
        return tuple(Message(role, _fill_placeholders(text, values)) for role, text in self.turns)

    @property
    def label(self) -> str:
        return f"{self.name}@{self.version}"


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
    """Read ``<benchmark>/prompts/<name>.md``.

    Its first line is ``version: N``. Then come parts headed ``=== system``, ``=== user`` or ``===
    assistant`` (an example of a reply, between two ``=== user`` parts). A file of another set lies
    one folder deeper, ``<benchmark>/prompts/<set>/<name>.md``, and the set is part of the prompt's
    name.

    Raises ValueError if the file has no version or an unknown part.
    """
    head, _, body = path.read_text(encoding="utf-8").partition("\n")
    if not head.startswith("version:"):
        raise ValueError(f"{path.name}: the first line must be 'version: N'")
    turns: list[tuple[Role, str]] = []
    for part in f"\n{body}".split("\n=== ")[1:]:
        role, _, text = part.partition("\n")
        match role.strip():
            case "system" | "user" | "assistant" as known:
                turns.append((known, text.strip()))
            case unknown:
                raise ValueError(f"{path.name}: unknown part {unknown!r}")
    if not turns:
        raise ValueError(f"{path.name}: no part '=== system' or '=== user'")
    if turns[-1][0] == "assistant":
        raise ValueError(f"{path.name}: the last part is a reply, which answers nothing")
    folder = path.parent
    set_prefix = "" if folder.name == "prompts" else f"{folder.name}/"
    benchmark = (folder.parent if set_prefix else folder).parent.name
    return Prompt(f"{benchmark}/{set_prefix}{path.stem}", head.removeprefix("version:").strip(), tuple(turns))


def read_prompts(folder: Path, *names: str) -> dict[str, dict[str, Prompt]]:
    """Read the prompts of all sets, as set -> name -> prompt.

    The files of `folder` are the default set, "", and each folder within it is another one. A set
    without a file of its own uses the default's. Raises ValueError like `read_prompt`.
    """
    default = {name: read_prompt(folder / f"{name}.md") for name in names}
    sets = {"": default}
    for set_folder in sorted(path for path in folder.iterdir() if path.is_dir()):
        overrides = {
            name: read_prompt(set_folder / f"{name}.md") for name in names if (set_folder / f"{name}.md").exists()
        }
        if overrides:
            sets[set_folder.name] = {**default, **overrides}
    return sets
