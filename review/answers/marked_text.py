"""A text of a case in pieces: what changed in it, what was highlighted, and where the traps are."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from review.labels import translate
from review.rules.blocks import Highlight, texts_of
from review.rules.case_spec import CaseSpec
from review.rules.diffing import Op, Span
from review.rules.questions import Form


class Voice(Protocol):
    """A review as a column: see `side_by_side.ReviewColumn`."""

    @property
    def who(self) -> str: ...
    @property
    def own(self) -> bool: ...
    @property
    def highlights(self) -> tuple[Highlight, ...]: ...


@dataclass(frozen=True, slots=True)
class TextMark:
    """Highlighted words of one text. name: of the label; style: its place among the form's, from 1; who: empty for the reader's
    own; fixed: the reader's own, which stands since the first look."""

    start: int
    end: int
    name: str
    style: int
    who: str = ""
    fixed: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.who})" if self.who else self.name


Marks = Mapping[str, Sequence[TextMark]]  # by the key of the passage


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text under the same marks. traps: those whose words begin here."""

    op: Op
    text: str
    marks: tuple[TextMark, ...] = ()
    at: int = 0  # where it begins
    traps: tuple[int, ...] = ()

    def layers(self) -> list[tuple[bool, list[TextMark]]]:
        """(whether a script may take them away, marks): the reader's own, inside what stands."""
        own = [each for each in self.marks if not each.who and not each.fixed]
        others = [each for each in self.marks if each.who or each.fixed]
        return [(yes, some) for yes, some in ((True, own), (False, others)) if some]


def marks(
    spec: CaseSpec, form: Form, own: Iterable[Highlight], voices: Iterable[Voice] = ()
) -> dict[str, list[TextMark]]:
    """What was highlighted in the texts of `spec`, by passage: the reader's own, and that of others whose reviews are shown.

    What was highlighted at the first look is looked up by its text, which stands elsewhere once the traps are revealed.
    """
    texts = texts_of(spec.blocks)
    looked = texts_of(spec.first_look) if spec.first_look != spec.blocks else {}
    styles = {label.value: (translate(label.label), number) for number, label in enumerate(form.labels, 1)}
    found: dict[str, list[TextMark]] = {}
    for who, highlights in [("", own), *((voice.who, voice.highlights) for voice in voices if not voice.own)]:
        for each in highlights:
            early = each.first_look and bool(looked)
            text = (looked if early else texts).get(each.passage)
            if text is None or not 0 <= each.start < each.end <= len(text) or each.label not in styles:
                continue  # words of a draft that have no place yet
            name, style = styles[each.label]
            mark = TextMark(each.start, each.end, name, style, who, fixed=early)
            at = [key for key, there in texts.items() if there == text and not key.endswith(".source")]
            for key in at if early else [each.passage]:
                found.setdefault(key, []).append(mark)
    return found


def pieces(
    spans: Sequence[Span],
    marked: Sequence[TextMark] = (),
    traps: Sequence[tuple[int, int]] = (),
    *,
    source: bool = False,
) -> list[Piece]:
    """`spans` cut where a mark begins or ends, and where a trap's words begin; traps: (offset, number of the trap).

    Offsets are of the text after the change, or with `source` of the one before.
    """
    aside: Op = "insert" if source else "delete"
    cuts = sorted({*(each.start for each in marked), *(each.end for each in marked), *(at for at, _number in traps)})
    found: list[Piece] = []
    here = 0
    due = list(traps)
    for span in spans:
        if span.op == aside:
            found.append(Piece(span.op, span.text))
            continue
        end = here + len(span.text)
        edges = [here, *(cut for cut in cuts if here < cut < end), end]
        for start, stop in pairwise(edges):
            begun = tuple(number for at, number in due if at <= start)
            due = [(at, number) for at, number in due if at > start]
            over = tuple(each for each in marked if each.start <= start and stop <= each.end)
            text = span.text[start - here : stop - here]
            found.append(Piece(span.op, text, over, start, begun))
        here = end
    return found


_QUOTED = re.compile("[\"“「『‘'](.{2,80}?)[\"”」』’']")
_SENTENCE = re.compile(r"\S(?:[^.!?。！？]|[.!?](?!\s))*[.!?。！？]*")
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]{3,}")


def trap_offset(spans: Sequence[Span], said: Iterable[str]) -> int:
    """Where in a changed text the words of a trap begin: words that its description quotes; else the sentence that came and
    has most words in common with it; else the first change. Offsets are of the text after the change."""
    described = list(said)
    changed: list[tuple[int, str]] = []
    here = 0
    first = None
    for span in spans:
        if span.op != "equal" and first is None:
            first = here
        if span.op == "insert":
            changed += [(here + said.start(), said[0]) for said in _SENTENCE.finditer(span.text)]
        here += len(span.text) if span.op != "delete" else 0
    for text in described:
        for quote in _QUOTED.findall(text):
            for at, new in changed:
                if (place := new.casefold().find(quote.casefold())) >= 0:
                    return at + place
    words = set(_WORD.findall(" ".join(described).casefold()))
    shares = [(len(words & set(_WORD.findall(new.casefold()))), at) for at, new in changed]
    best = max((share for share, _at in shares), default=0)
    return next((at for share, at in shares if share == best), first or 0)
