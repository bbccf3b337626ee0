"""What a case can show, and places in its texts. Each block has one template, `templates/review/blocks/<kind>.html`; nothing
here knows a benchmark."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation; `speaker` is shown as it stands. `mark`: what a reader is to find in it, in a word or two."""

    speaker: str
    text: str
    mark: str = ""


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
class Picture:
    """An image that is kept here, by its SHA-256. `alt`: what it is about, as what it shows is often what is asked."""

    sha256: str
    alt: str

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError("a picture is named by its SHA-256")


@dataclass(frozen=True, slots=True)
class Images:
    """Kept images, side by side."""

    title: str
    pictures: tuple[Picture, ...]
    kind: Literal["images"] = "images"


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
    """A scatter with its text alternative, a table of the same numbers. percent: both scales run from 0 to 100."""

    title: str
    x_label: str
    y_label: str
    points: tuple[Point, ...]
    percent: bool = False
    kind: Literal["points"] = "points"


@dataclass(frozen=True, slots=True)
class RubricText:
    """A rubric as shown to physicians, with the tags of its traps."""

    key: str
    criterion: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrapTerm:
    """What a tag means: the name of its trap, and its definition. `evidence`: the kinds of source of which one shows it; empty:
    any."""

    code: str
    name: str
    definition: str = ""
    evidence: tuple[str, ...] = ()


Block = Text | Dialogue | Diff | Table | Image | Images | Points


@dataclass(frozen=True, slots=True)
class Passage:
    """A running text of a case: what a comment or a highlight can point at. `source`: as it was before it was changed."""

    block: int
    turn: int
    text: str
    source: bool = False

    @property
    def key(self) -> str:
        """Its name on the page (`data-passage`), counted from 1."""
        return f"{self.block + 1}.{self.turn + 1}{'.source' if self.source else ''}"


def passages(blocks: Iterable[Block]) -> Iterator[Passage]:
    """The running texts of what is shown; a changed text as it is shown comes before its source."""
    for number, block in enumerate(blocks):
        match block:
            case Text():
                yield Passage(number, 0, block.text)
            case Dialogue(turns=turns):
                yield from _texts(number, turns)
            case Diff():
                yield from _texts(number, block.after)
                yield from _texts(number, block.before, source=True)


def _texts(block: int, turns: Iterable[Turn], *, source: bool = False) -> Iterator[Passage]:
    return (Passage(block, number, turn.text, source) for number, turn in enumerate(turns))


@dataclass(frozen=True, slots=True)
class Highlight:
    """Words of a case's text under one of the form's labels.

    passage: the key of the passage; empty: its author gave the words alone, and they are not found yet. start, end: of the
    words in the passage's text, in Unicode code points. first_look: made before the traps were revealed, in the text of then.
    """

    quote: str = ""
    label: str = ""
    passage: str = ""
    start: int = 0
    end: int = 0
    first_look: bool = False


@dataclass(frozen=True, slots=True)
class HighlightLabel:
    """As what words of the text can be highlighted. `first_look`: before the traps are revealed, too."""

    value: str
    label: str
    first_look: bool = False


HighlightFault = Literal["highlight-misplaced", "unknown-value", "highlight-duplicate", "too-many"]
MOST_HIGHLIGHTS = 100  # of one review


def texts_of(blocks: Iterable[Block]) -> dict[str, str]:
    """The running texts by the keys of their passages."""
    return {passage.key: passage.text for passage in passages(blocks)}


def placed(highlight: Highlight, texts: Mapping[str, str]) -> Highlight:
    """The same with the place of its words: where it says, else in the same passage, else the first place anywhere.

    Words that are nowhere come back without a place.
    """
    words = highlight.quote
    if words and texts.get(highlight.passage, "")[highlight.start : highlight.end] == words:
        return highlight
    for key in [highlight.passage, *texts] if words.strip() else ():
        for form in dict.fromkeys((words, words.strip())):
            if (start := texts.get(key, "").find(form)) >= 0:
                return replace(highlight, quote=form, passage=key, start=start, end=start + len(form))
    return replace(highlight, passage="", start=0, end=0)


def highlight_faults(
    highlights: Sequence[Highlight],
    labels: Collection[str],
    texts: Mapping[str, str],
    looked_at: Mapping[str, str],
) -> list[tuple[str, HighlightFault]]:
    """Everything that is wrong with `highlights`, as (field, code); fields are `highlight.<n>.<part>`, n from 1.

    looked_at: the texts of the first look, to which what was highlighted then refers.
    """
    found: list[tuple[str, HighlightFault]] = []
    for number, each in enumerate(highlights, 1):
        text = (looked_at if each.first_look else texts).get(each.passage)
        inside = text is not None and 0 <= each.start < each.end <= len(text)
        if text is None or not inside or text[each.start : each.end] != each.quote:
            found.append((f"highlight.{number}.quote", "highlight-misplaced"))
        elif each in highlights[: number - 1]:
            found.append((f"highlight.{number}.quote", "highlight-duplicate"))
        if each.label not in labels:
            found.append((f"highlight.{number}.label", "unknown-value"))
    if len(highlights) > MOST_HIGHLIGHTS:
        found.append(("highlights", "too-many"))
    return found


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer to a question.

    blocks: with this answer the case cannot be approved. ends: nor can another version mend it, so that a sample rejected with
    it is discarded. inadequate: it says that a rubric is not aligned with its trap.
    evidence: it claims something that wants at least one citation, of one of the `evidence_kinds` if any are named.
    """

    value: str
    label: str
    blocks: bool = False
    inadequate: bool = False
    evidence: bool = False
    evidence_kinds: tuple[str, ...] = ()
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A criterion that every reviewer judges. A note is required with an answer that blocks.

    label: the criterion's name, a heading. asks: the question itself, where the heading alone could be read two ways.
    first_look: asked before the traps are revealed, where the policy says so; the answer then stands.
    kind: 'choice'; 'choices', of which several can be chosen (the value names them in the form's order, between commas); or
    'text', which has no choices and is answered by its note. required: off, it can be left open.
    compared: off, reviewers need not agree on it. when: `<key>=<value>`, the answer with which it is asked; empty: always.
    stages: where it is asked; empty: everywhere. per: 'rubric' or 'trap', a case asks it once of each, under `<key>:<its key>`,
    and `about` says which.
    """

    key: str
    label: str
    help: str
    choices: tuple[Choice, ...]
    first_look: bool = False
    asks: str = ""
    kind: str = "choice"
    required: bool = True
    compared: bool = True
    when: str = ""
    stages: tuple[str, ...] = ()
    per: str = "case"
    about: str = ""

    def chosen(self, value: str) -> tuple[Choice, ...]:
        """The choices that the value of an answer names."""
        values = value.split(",") if self.kind == "choices" else [value]
        return tuple(choice for choice in self.choices if choice.value in values)

    def value_of(self, values: Collection[str]) -> str:
        """The value of an answer that chooses these of several."""
        return ",".join(choice.value for choice in self.choices if choice.value in values)


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a scale, from the least to the most. about: what it means; empty: as the harm scale defines it."""

    value: str
    label: str
    about: str = ""
