"""The prompt files of a benchmark's folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

from generation.llm.types import Message, Role


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt file: `name@version` in the ledger, its turns with ``$placeholders``."""

    name: str
    version: str
    turns: tuple[tuple[Role, str], ...]

    def messages(self, **values: str) -> tuple[Message, ...]:
        """The turns with every placeholder filled. Raises KeyError for a missing value."""
        return tuple(Message(role, _filled(text, values)) for role, text in self.turns)

    @property
    def label(self) -> str:
        return f"{self.name}@{self.version}"


def _filled(text: str, values: Mapping[str, str]) -> str:
    pieces = list(_pieces(text))
    pieces[1::2] = [values[name] for name in pieces[1::2]]
    return "".join(pieces)


@cache  # by the text, so that a prompt of a hundred thousand samples is taken apart once
def _pieces(text: str) -> tuple[str, ...]:
    """A text taken apart as `string.Template` reads it: constant, name of a placeholder, constant, and so on."""
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
    """Read ``<benchmark>/prompts/<name>.md``: a line ``version: N``, then parts headed ``=== system``, ``=== user`` or
    ``=== assistant`` (an example of a reply, between two of ``=== user``).

    A file of another set stands a folder deeper, ``<benchmark>/prompts/<set>/<name>.md``, and is called by its set as well.

    Raises:
        ValueError: the file has no version or an unknown part.
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
    of_set = "" if folder.name == "prompts" else f"{folder.name}/"
    benchmark = (folder.parent if of_set else folder).parent.name
    return Prompt(f"{benchmark}/{of_set}{path.stem}", head.removeprefix("version:").strip(), tuple(turns))


def read_prompts(folder: Path, *names: str) -> dict[str, dict[str, Prompt]]:
    """Set -> name -> prompt: the files of `folder`, which are the set "", and of each folder within it.

    A file that a set does not have is the usual one's. Raises ValueError as `read_prompt` does.
    """
    usual = {name: read_prompt(folder / f"{name}.md") for name in names}
    found = {"": usual}
    for other in sorted(path for path in folder.iterdir() if path.is_dir()):
        own = {name: read_prompt(other / f"{name}.md") for name in names if (other / f"{name}.md").exists()}
        if own:
            found[other.name] = {**usual, **own}
    return found
