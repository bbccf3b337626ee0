"""The blocks that a case can show, and locations in their texts.

Each kind of block has one template, `templates/review/blocks/<kind>.html`. Nothing here depends on
a benchmark.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from review.rules import limits
from review.rules.shown_fields import Recent
from review.rules.text import character_edges, find_words, widened


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation; `speaker` is shown unchanged.

    mark: what a reader should look for in this turn, in a word or two.
    """

    speaker: str
    text: str
    mark: Recent[str] = ""


@dataclass(frozen=True, slots=True)
class Text:
    """Running text. `tone` sets it apart: a bait question, or a rule (ours, not the case's)."""

    title: str
    text: str
    tone: Literal["plain", "question", "rule"] = "plain"
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation, turn by turn."""

    title: str
    turns: tuple[Turn, ...]
    kind: Literal["dialogue"] = "dialogue"


@dataclass(frozen=True, slots=True)
class Diff:
    """A conversation before and after a change, aligned by turn, with the changed words marked.

    A plain text is a conversation of one turn.
    """

    title: str
    before: tuple[Turn, ...]
    after: tuple[Turn, ...]
    kind: Literal["diff"] = "diff"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under named columns. The tone 'trap' marks planted, false content.

    places: for each row, the turns (from 1) of the case's altered conversation that it refers to.
        Of a case without a conversation, the bait question is turn 1.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    tone: Literal["plain", "trap"] = "plain"
    kind: Literal["table"] = "table"
    places: tuple[tuple[int, ...], ...] = ()


def share_table(title: str, columns: tuple[str, ...], counts: Iterable[tuple[str, int]], whole: int) -> Table:
    """A table of labels with their number and its share of the whole."""
    return Table(title, columns, tuple((label, str(n), format_percent(n, whole)) for label, n in counts))


def format_percent(part: int, whole: int) -> str:
    """'12.5 %'; '–' of nothing."""
    if whole:
        return f"{100 * part / whole:.1f} %"
    return "–"


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as a data URL (`image/png` or `image/jpeg`), with its alternative text."""

    title: str
    url: str
    alt: str
    kind: Literal["image"] = "image"

    def __post_init__(self) -> None:
        if not self.url.startswith(("data:image/png;base64,", "data:image/jpeg;base64,")):
            raise ValueError("an image block takes a PNG or JPEG data URL")


@dataclass(frozen=True, slots=True)
class Picture:
    """A stored image, identified by its SHA-256.

    alt: its subject only, because its content is often what is asked about.
    """

    sha256: str
    alt: str

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError("a picture is named by its SHA-256")


@dataclass(frozen=True, slots=True)
class Images:
    """Stored images, side by side."""

    title: str
    pictures: tuple[Picture, ...]
    kind: Literal["images"] = "images"


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a scatter plot.

    `size` is relative to the other points and drawn as area; `group` determines shape and colour.
    """

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
    """A scatter plot, with a table of the same numbers as its alternative.

    percent: both scales run from 0 to 100.
    """

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
    """The meaning of a tag: the name of its trap and its definition.

    evidence: the kinds of source that can show the trap; empty: any.
    levels: the levels of evidence that can. If there are some, evidence is given by trap: each
        citation belongs to one, and has a level.
    """

    code: str
    name: str
    definition: str = ""
    evidence: Recent[tuple[str, ...]] = ()
    levels: Recent[tuple[str, ...]] = ()


Block = Text | Dialogue | Diff | Table | Image | Images | Points


@dataclass(frozen=True, slots=True)
class Passage:
    """A running text of a case, to which comments and highlights can refer.

    source: the original version of a text that was changed.
    """

    block: int
    turn: int
    text: str
    source: bool = False

    @property
    def key(self) -> str:
        """The passage's key on the page (`data-passage`): block and turn, counted from 1."""
        key = f"{self.block + 1}.{self.turn + 1}"
        if self.source:
            return f"{key}.source"
        return key


def passages(blocks: Iterable[Block]) -> Iterator[Passage]:
    """The running texts of `blocks`; the changed version of a text comes before its source."""
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
    """Words of a case's text, marked with one of the form's labels.

    passage: the key of the passage; empty: only the words were given and they are not located yet.
    start, end: the position of the words in the passage's text, in Unicode code points.
    first_look: made before the traps were revealed, in the text shown then.
    """

    quote: Annotated[str, limits.QUOTE] = ""
    label: Annotated[str, limits.CODE] = ""
    passage: Annotated[str, limits.PASSAGE] = ""
    start: int = 0
    end: int = 0
    first_look: bool = False


@dataclass(frozen=True, slots=True)
class HighlightLabel:
    """A label for highlights. `first_look`: also available before the traps are revealed."""

    value: str
    label: str
    first_look: Recent[bool] = False


HighlightFault = Literal["highlight-misplaced", "unknown-value", "highlight-duplicate", "too-many"]


def passage_texts(blocks: Iterable[Block]) -> dict[str, str]:
    """The running texts, by passage key."""
    return {passage.key: passage.text for passage in passages(blocks)}


def locate_highlight(highlight: Highlight, texts: Mapping[str, str]) -> Highlight:
    """Locate a highlight's words in `texts` (by passage key), widened to whole characters.

    Tries the given position, then the same passage, then all passages. Without a match the location
    is cleared.
    """
    words, place = highlight.quote, highlight.passage
    if words and texts.get(place, "")[highlight.start : highlight.end] == words:
        start, end = widened(character_edges(texts[place]), highlight.start, highlight.end)
        return replace(highlight, quote=texts[place][start:end], start=start, end=end)
    unlocated = replace(highlight, passage="", start=0, end=0)
    if not words.strip():
        return unlocated
    for key in [place, *texts]:
        for quote in dict.fromkeys((words, words.strip())):
            if found := find_words(texts.get(key, ""), quote):
                start, end = found
                return replace(highlight, quote=texts[key][start:end], passage=key, start=start, end=end)
    return unlocated


def highlight_faults(
    highlights: Sequence[Highlight],
    labels: Collection[str],
    texts: Mapping[str, str],
    first_look_texts: Mapping[str, str],
) -> list[tuple[str, HighlightFault]]:
    """All faults of `highlights`, as (field, code); fields are `highlight.<n>.<part>`, n from 1.

    first_look_texts: the texts to which highlights made at the first look refer.
    """
    faults: list[tuple[str, HighlightFault]] = []
    seen: set[Highlight] = set()
    for number, highlight in enumerate(highlights, 1):
        if highlight.first_look:
            text = first_look_texts.get(highlight.passage)
        else:
            text = texts.get(highlight.passage)
        inside = text is not None and 0 <= highlight.start < highlight.end <= len(text)
        if text is None or not inside or text[highlight.start : highlight.end] != highlight.quote:
            faults.append((f"highlight.{number}.quote", "highlight-misplaced"))
        elif highlight in seen:
            faults.append((f"highlight.{number}.quote", "highlight-duplicate"))
        seen.add(highlight)
        if highlight.label not in labels:
            faults.append((f"highlight.{number}.label", "unknown-value"))
    if len(highlights) > limits.HIGHLIGHTS:
        faults.append(("highlights", "too-many"))
    return faults


@dataclass(frozen=True, slots=True)
class Choice:
    """A possible answer to a question.

    blocks: a case with this answer cannot be approved.
    inadequate: it says that a rubric is not aligned with its trap.
    evidence: it needs at least one citation, of one of the `evidence_kinds` if there are any.
    ends: another version cannot fix the sample either, so a sample rejected with it is discarded.
    """

    value: str
    label: str
    blocks: bool = False
    inadequate: bool = False
    evidence: Recent[bool] = False
    evidence_kinds: tuple[str, ...] = ()
    ends: Recent[bool] = False


@dataclass(frozen=True, slots=True)
class Question:
    """A criterion that every reviewer judges. A blocking answer requires a note.

    label: the criterion's name, used as a heading.
    asks: the question in words, if the heading alone is ambiguous.
    first_look: asked before the traps are revealed, if the policy says so; the answer
        is then final.
    kind: 'choice'; 'choices' (several; the value joins them with commas, in the form's order); or
        'text' (no choices, answered by its note).
    required: if off, it may be left open.
    compared: if off, reviewers need not agree on it.
    when: `<key>=<value>`, asked only with this answer; empty: always.
    stages: the stages at which it is asked; empty: all.
    per: if 'rubric' or 'trap', a case asks it for each of them, under `<key>:<its key>`.
    about: the rubric or trap that it is asked for.
    shows: titles of the blocks of the case that are shown with the question instead of beside it.
    """

    key: str
    label: str
    help: str
    choices: tuple[Choice, ...]
    first_look: Recent[bool] = False
    asks: str = ""
    kind: str = "choice"
    required: bool = True
    compared: bool = True
    when: str = ""
    stages: tuple[str, ...] = ()
    per: str = "case"
    about: str = ""
    shows: tuple[str, ...] = ()

    def chosen(self, value: str) -> tuple[Choice, ...]:
        """The choices that an answer's value refers to."""
        if self.kind == "choices":
            values = value.split(",")
        else:
            values = [value]
        return tuple(choice for choice in self.choices if choice.value in values)

    def value_of(self, values: Collection[str]) -> str:
        """The value of an answer that selects several choices."""
        return ",".join(choice.value for choice in self.choices if choice.value in values)


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a scale, which is ordered from least to most.

    about: its meaning; empty: as defined by the harm scale.
    """

    value: str
    label: str
    about: str = ""
