"""What a benchmark's folder says about making samples: plain values and async functions, run by the generation engine."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from generation.llm.types import Message, Reply, Request, Role

T = TypeVar("T", bound=BaseModel)


class Dropped(Exception):
    """A step gives a draft up, with the reason to be shown. Not a fault: nothing is retried."""


@dataclass(frozen=True, slots=True)
class Record:
    """One source record as a recipe sees it. `content["kind"]` says what it is (``dialogue``, ``report``)."""

    external_id: str
    title: str
    language: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Term:
    """One entry of a benchmark's taxonomy: a trap subtype (`parent` is its cluster) or a cluster (no parent)."""

    code: str
    label: str
    parent: str = ""
    definition: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """A sample in the making.

    `data` is what the steps have made of it so far (JSON-able: it is stored after each step). For a regeneration,
    `version` is above 1, `previous` the content of the rejected version and `reasons` what the physicians held against it.
    `terms` is the taxonomy in force: the benchmark's own and what admins added.
    """

    record: Record
    terms: tuple[Term, ...] = ()
    version: int = 1
    reasons: tuple[str, ...] = ()
    previous: Mapping[str, Any] | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


class Models(Protocol):
    """A step's door to the models bound to the recipe's roles. Every call is in the ledger before it returns."""

    async def ask(self, role: str, request: Request) -> Reply:
        """Raises `generation.llm.errors.LLMError`."""

    async def ask_structured(
        self, role: str, request: Request, shape: type[T], *, check: Callable[[T], None] | None = None
    ) -> T:
        """A reply of the given shape; a wrong one is shown its error and asked again. Raises BrokenReply at last."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a recipe: one draft to none, one or many."""

    name: str
    run: Callable[[Draft, Models], Awaitable[Sequence[Draft]]]


def each(run: Callable[[Draft, Models], Awaitable[Sequence[Draft]]]) -> Step:
    """Make a step of an async function of one draft, under the function's own name."""
    return Step(run.__name__, run)


@dataclass(frozen=True, slots=True)
class NewRubric:
    """One criterion of a new sample; `traps` are the keys of the traps it is tied to."""

    key: str
    criterion: str
    traps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewSample:
    """What a recipe makes. `content` is the benchmark's own; `facets` of a sample are derived at the release.

    specialty: of which whoever reviews it has to be, where its record says so (empty: any). A benchmark's `case` passes it on.
    """

    task: str
    title: str
    language: str
    content: Mapping[str, Any]
    rubrics: tuple[NewRubric, ...] = ()
    specialty: str = ""


@dataclass(frozen=True, slots=True)
class ModelRole:
    """A role that an endpoint is bound to at launch."""

    name: str
    label: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a benchmark makes its samples.

    `kinds`: the record kinds it takes. `max_versions`: after that many rejected versions a sample is discarded and listed.
    """

    label: str
    kinds: frozenset[str]
    roles: tuple[ModelRole, ...]
    steps: tuple[Step, ...]
    sample: Callable[[Draft], NewSample]
    max_versions: int = 3


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt file: `name@version` in the ledger, its turns with ``$placeholders``."""

    name: str
    version: str
    turns: tuple[tuple[Role, str], ...]

    def messages(self, **values: str) -> tuple[Message, ...]:
        """The turns with every placeholder filled. Raises KeyError for a missing value."""
        return tuple(Message(role, Template(text).substitute(values)) for role, text in self.turns)

    @property
    def label(self) -> str:
        return f"{self.name}@{self.version}"


def read_prompt(path: Path) -> Prompt:
    """Read ``<benchmark>/prompts/<name>.md``: a line ``version: N``, then parts headed ``=== system`` or ``=== user``.

    Raises:
        ValueError: the file has no version or an unknown part.
    """
    head, _, body = path.read_text(encoding="utf-8").partition("\n")
    if not head.startswith("version:"):
        raise ValueError(f"{path.name}: the first line must be 'version: N'")
    turns: list[tuple[Role, str]] = []
    for part in f"\n{body}".split("\n=== ")[1:]:
        role, _, text = part.partition("\n")
        if role.strip() not in ("system", "user"):
            raise ValueError(f"{path.name}: unknown part {role.strip()!r}")
        turns.append(("system" if role.strip() == "system" else "user", text.strip()))
    if not turns:
        raise ValueError(f"{path.name}: no part '=== system' or '=== user'")
    return Prompt(f"{path.parent.parent.name}/{path.stem}", head.removeprefix("version:").strip(), tuple(turns))
