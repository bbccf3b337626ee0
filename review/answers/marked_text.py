"""Split a text of a case into pieces by its changes, its highlights and the places of its traps."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from review.answers.side_by_side import ReviewColumn
from review.labels import translate
from review.rules.blocks import Highlight, passage_texts
from review.rules.case_spec import CaseSpec
from review.rules.diffing import Op, Span
from review.rules.text import character_edges, widened


@dataclass(frozen=True, slots=True)
class TextMark:
    """A highlight in one text.

    Attributes:
        name: of the label.
        style: position of the label in the form, from 1.
        who: whose it is; empty for the reader's own.
        fixed: whether it was made at the first look and can no longer be removed.
    """

    start: int
    end: int
    name: str
    style: int
    who: str = ""
    fixed: bool = False

    def __str__(self) -> str:
        if self.who:
            return f"{self.name} ({self.who})"
        return self.name


Marks = Mapping[str, Sequence[TextMark]]  # by key of the passage


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text under the same marks. `traps`: the traps whose words begin here."""

    op: Op
    text: str
    marks: tuple[TextMark, ...] = ()
    at: int = 0  # offset of its beginning
    traps: tuple[int, ...] = ()

    def layers(self) -> list[tuple[bool, list[TextMark]]]:
        """Pairs (whether a script may remove them, marks), innermost first."""
        removable, fixed = [], []
        for mark in self.marks:
            if mark.who or mark.fixed:
                fixed.append(mark)
            else:
                removable.append(mark)
        layers = []
        if removable:
            layers.append((True, removable))
        if fixed:
            layers.append((False, fixed))
        return layers


def marks(spec: CaseSpec, own: Iterable[Highlight], columns: Iterable[ReviewColumn]) -> dict[str, list[TextMark]]:
    """The highlights in the texts of `spec`, by passage: the reader's own, and those in `columns`.

    A highlight of the first look is found again by the text of its passage, because that text may
    have another key once the traps are revealed.
    """
    texts = passage_texts(spec.blocks)
    first_look_texts = {}
    if spec.first_look != spec.blocks:
        first_look_texts = passage_texts(spec.first_look)
    styles = {label.value: (translate(label.label), number) for number, label in enumerate(spec.form.labels, 1)}
    by_person = [("", own)]
    for column in columns:
        if not column.own:
            by_person.append((column.who, column.answers.highlights))
    result: dict[str, list[TextMark]] = {}
    for who, highlights in by_person:
        for highlight in highlights:
            from_first_look = highlight.first_look and bool(first_look_texts)
            if from_first_look:
                text = first_look_texts.get(highlight.passage)
            else:
                text = texts.get(highlight.passage)
            if text is None or not 0 <= highlight.start < highlight.end <= len(text) or highlight.label not in styles:
                continue  # unfinished highlight of a draft, without a position or label
            name, style = styles[highlight.label]
            mark = TextMark(highlight.start, highlight.end, name, style, who, fixed=from_first_look)
            places = [highlight.passage]
            if from_first_look:
                places = _keys_with(texts, text)
            for key in places:
                result.setdefault(key, []).append(mark)
    return result


def _keys_with(texts: Mapping[str, str], text: str) -> list[str]:
    """The keys of the passages that have this text now, without sources of changes."""
    return [key for key, other in texts.items() if other == text and not key.endswith(".source")]


def pieces(
    spans: Sequence[Span],
    marks: Sequence[TextMark] = (),
    traps: Sequence[tuple[int, int]] = (),
    *,
    source: bool = False,
) -> list[Piece]:
    """Cut `spans` where a mark begins or ends and where the words of a trap begin.

    Args:
        traps: pairs (offset, number of the trap).
        source: offsets refer to the text before the change instead of the one after it.
    """
    skipped_op: Op = "delete"
    if source:
        skipped_op = "insert"
    if marks or traps:  # no mark begins inside a character
        edges = character_edges("".join(_text(span, source) for span in spans if span.op != skipped_op))
        marks = [_widened(mark, edges) for mark in marks]
        traps = [(widened(edges, at, at)[0], number) for at, number in traps]
    ends = {at for at, _number in traps}
    for mark in marks:
        ends |= {mark.start, mark.end}
    cuts = sorted(ends)
    result: list[Piece] = []
    offset = 0
    remaining_traps = list(traps)
    for span in spans:
        shown = _text(span, source)
        if span.op == skipped_op:
            result.append(Piece(span.op, shown))
            continue
        span_end = offset + len(shown)
        places = [offset, *(cut for cut in cuts if offset < cut < span_end), span_end]
        for start, end in pairwise(places):
            starting_traps = tuple(number for at, number in remaining_traps if at <= start)
            remaining_traps = [(at, number) for at, number in remaining_traps if at > start]
            covering = tuple(mark for mark in marks if mark.start <= start and end <= mark.end)
            text = shown[start - offset : end - offset]
            result.append(Piece(span.op, text, covering, start, starting_traps))
        offset = span_end
    return result


def _text(span: Span, source: bool) -> str:
    if source:
        return span.source or span.text
    return span.text


def _widened(mark: TextMark, edges: Sequence[int]) -> TextMark:
    start, end = widened(edges, mark.start, mark.end)
    return replace(mark, start=start, end=end)


_QUOTED = re.compile("[\"“「『‘'](.{2,80}?)[\"”」』’']")
_SENTENCE = re.compile(r"\S(?:[^.!?。！？]|[.!?](?!\s))*[.!?。！？]*")
MAX_QUOTES = 20  # of a description of a trap that are looked for
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]{3,}")


def _folded(text: str) -> str:
    """`text` in lower case, with as many characters as before."""
    folded = []
    for character in text:
        lower = character.lower()
        if len(lower) == 1:
            folded.append(lower)
        else:
            folded.append(character)
    return "".join(folded)


def trap_place(spans: Sequence[Span], descriptions: Iterable[str]) -> tuple[int, int]:
    """Where the words of a trap begin and end, as offsets in the text after the change.

    The best guess is an inserted passage that the trap's description quotes; else the inserted
    sentence with the most words in common with the description; else the first change, as no words.
    """
    texts = list(descriptions)
    inserted, first_change = _insertions(spans)
    return (
        _quoted_place(inserted, texts) or _most_alike_place(inserted, " ".join(texts)) or (first_change, first_change)
    )


def _insertions(spans: Sequence[Span]) -> tuple[list[tuple[int, str]], int]:
    """The inserted sentences with their offsets; the offset of the first change, 0 without one."""
    inserted: list[tuple[int, str]] = []
    offset = 0
    first_change = None
    for span in spans:
        if span.op != "equal" and first_change is None:
            first_change = offset
        if span.op == "insert":
            inserted += [(offset + match.start(), match[0]) for match in _SENTENCE.finditer(span.text)]
        if span.op != "delete":
            offset += len(span.text)
    return inserted, first_change or 0


def _quoted_place(inserted: Sequence[tuple[int, str]], descriptions: Sequence[str]) -> tuple[int, int] | None:
    """Where a quotation in the descriptions stands in an inserted sentence."""
    folded = [(at, _folded(sentence)) for at, sentence in inserted]
    for text in descriptions:
        for quote in _QUOTED.findall(text)[:MAX_QUOTES]:
            for at, sentence in folded:
                position = sentence.find(_folded(quote))
                if position >= 0:
                    return at + position, at + position + len(quote)
    return None


def _most_alike_place(inserted: Sequence[tuple[int, str]], description: str) -> tuple[int, int] | None:
    """The first of the inserted sentences that share most with a description.

    A short word, or one that several sentences share with it, tells less.
    """
    described = set(_WORD.findall(description.casefold()))
    shared = [described & set(_WORD.findall(sentence.casefold())) for _at, sentence in inserted]
    uses = Counter(chain.from_iterable(shared))
    most = 0.0
    place = None
    for (at, sentence), words in zip(inserted, shared, strict=True):
        overlap = sum(max(len(word) - 2, 1) / uses[word] for word in words)
        if overlap > most:
            most = overlap
            place = (at, at + len(sentence))
    return place
