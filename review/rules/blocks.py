"""What a case can show. Each block has one template, `templates/review/blocks/<kind>.html`; nothing here knows a benchmark."""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation; `speaker` is shown as it stands."""

    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """Running text. `tone` sets it apart: a bait question, a warning."""

    title: str
    text: str
    tone: Literal["plain", "question"] = "plain"
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation, turn by turn."""

    title: str
    turns: tuple[Turn, ...]
    kind: Literal["dialogue"] = "dialogue"


@dataclass(frozen=True, slots=True)
class Diff:
    """A conversation before and after: aligned by turn, the words that differ marked. A text is a dialogue of one turn."""

    title: str
    before: tuple[Turn, ...]
    after: tuple[Turn, ...]
    kind: Literal["diff"] = "diff"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under named columns. `tone` 'trap' marks what is planted and false.

    places: of each row, the turns (from 1) of the case's altered conversation that it is about.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    tone: Literal["plain", "trap"] = "plain"
    kind: Literal["table"] = "table"
    places: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as a data URL (`image/png`, `image/jpeg`), with its text alternative."""

    title: str
    url: str
    alt: str
    kind: Literal["image"] = "image"

    def __post_init__(self) -> None:
        if not self.url.startswith(("data:image/png;base64,", "data:image/jpeg;base64,")):
            raise ValueError("an image block takes a PNG or JPEG data URL")


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a scatter. `size` is in proportion to the others' and drawn as area; `group` chooses shape and colour."""

    x: float
    y: float
    label: str = ""
    size: float = 1.0
    group: str = ""

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.x, self.y, self.size))) or self.size < 0:
            raise ValueError("a point has finite numbers, and no size below 0")


@dataclass(frozen=True, slots=True)
class Points:
    """A scatter with its text alternative, a table of the same numbers."""

    title: str
    x_label: str
    y_label: str
    points: tuple[Point, ...]
    kind: Literal["points"] = "points"


@dataclass(frozen=True, slots=True)
class RubricText:
    """A rubric as shown to physicians, with the tags of its traps."""

    key: str
    criterion: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrapTerm:
    """What a tag means: the name of its trap, and its definition."""

    code: str
    name: str
    definition: str = ""


Block = Text | Dialogue | Diff | Table | Image | Points
