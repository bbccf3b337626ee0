"""Rendering of a case's blocks, and labels for the values of the state machine."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from django import template
from django.template import Context
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext

from review.access import visibility
from review.access.pictures import picture_token
from review.answers.marked_text import Marks, Piece, TextMark, pieces, trap_place
from review.answers.side_by_side import citation_line
from review.charts.scatter import points_chart
from review.labels import (
    GROUNDS,
    MEANINGS,
    PHASES,
    ROLES,
    VERDICTS,
    language_label,
    task_label,
    translate,
    with_label,
)
from review.models import Review, User
from review.rules.blocks import Block, Diff, Images, Picture, Points, Table, Text, TrapTerm, Turn
from review.rules.citations import Citation
from review.rules.diffing import Span, TurnPair, align_turns
from review.templatetags.reading import doses, is_right_to_left, isolated_doses, written_in
from review.templatetags.review_parts import part

register = template.Library()


@register.filter
def cited(citation: Mapping[str, str]) -> str:
    """A citation stored with a sample, in one line."""
    return citation_line(Citation(**citation))


_ANSWERING_SPEAKERS = {"assistant", "doctor", "physician", "ai", "助手", "医生"}


@dataclass(frozen=True, slots=True)
class TrapNote:
    """A row of the table of traps, shown in the margin of the turns that it refers to.

    location: where the generator says that it is, with the words that it quotes.
    first: the first mark of this trap, which the keyboard shortcut focuses.
    at: the offset of the words that it refers to.
    card: the ID of the element that describes it: in the margin, or in the question about it.
    """

    number: int
    code: str
    name: str
    location: str
    lines: tuple[tuple[str, str], ...]
    first: bool
    at: int = 0
    card: str = ""


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A pair of turns with their numbers in their respective texts, and the traps in it.

    `bait`: the title of the question that models answer, if this turn asks it.
    """

    pair: TurnPair
    before: int
    after: int
    notes: tuple[TrapNote, ...] = ()
    bait: str = ""


def _notes(blocks: Iterable[Block]) -> dict[int, tuple[TrapNote, ...]]:
    """The traps by the turn of the altered conversation that they refer to."""
    by_turn: dict[int, list[TrapNote]] = {}
    for block in blocks:
        if isinstance(block, Table) and block.tone == "trap":
            for number, (row, places) in enumerate(zip(block.rows, block.places, strict=False), 1):
                code, name, location, *lines = row
                labelled_lines = tuple(zip(block.columns[3:], lines, strict=False))
                for turn in places:
                    note = TrapNote(number, code, name, location, labelled_lines, first=turn == places[0])
                    by_turn.setdefault(turn, []).append(note)
    return {turn: tuple(notes) for turn, notes in by_turn.items()}


def _row_runs(diff: Diff, view: "_BlockView") -> list[tuple[bool, list[DiffRow]]]:
    """The rows of a comparison in runs: (whether they are unchanged and can be folded, rows)."""
    before = after = 0
    notes = dict(view.notes)
    rows = []
    for pair in align_turns(diff.before, diff.after):
        before += pair.before is not None
        after += pair.after is not None
        located: list[TrapNote] = []
        if pair.after is not None:
            for note in notes.get(after, ()):
                card = f"trap-{view.number}-{after}-{note.number}"
                if view.asked:
                    card = f"trap-{note.number}"
                located.append(replace(note, at=_place(pair.spans, note)[0], card=card))
        bait = ""
        if pair.after is not None and after == len(diff.after):
            bait = view.bait
        rows.append(DiffRow(pair, before, after, tuple(located), bait))

    def folds(row: DiffRow) -> bool:
        return row.pair.change == "same" and not row.notes

    return [(same, list(run)) for same, run in groupby(rows, key=folds)]


def _bait(text: Block, among: Sequence[Block]) -> str:
    """The title of a question that is also the last turn of an altered conversation; else empty."""
    if not isinstance(text, Text) or text.tone != "question":
        return ""
    last_turns = [block.after[-1].text for block in among if isinstance(block, Diff) and block.after]
    if text.text in last_turns:
        return text.title
    return ""


def _without_quotes(traps: Table, among: Sequence[Block]) -> Table:
    """A table of traps without the words that it quotes, where the conversation marks them."""
    texts: list[str] = []
    for block in among:
        if isinstance(block, Diff):
            texts += [turn.text for turn in block.after]
    conversation = "\n".join(texts)
    rows = []
    for code, name, location, *others in traps.rows:
        place, _colon, quoted = location.partition(": “")
        if quoted.rstrip("”") not in conversation:
            place = location
        rows.append((code, name, place, *others))
    return replace(traps, rows=tuple(rows))


def _place(spans: Sequence[Span], note: TrapNote) -> tuple[int, int]:
    return trap_place(spans, [note.location, *(text for _column, text in note.lines)])


@register.simple_tag(takes_context=True)
def show_block(
    context: Context,
    block: Block,
    number: int,
    language: str = "",
    folded: bool = False,
    beside: str = "",
    among: Sequence[Block] = (),
    view: str = "shown",
    marks: Marks | None = None,
    within: str = "",
    about: str = "",
    inside: Collection[int] = (),
) -> SafeString:
    """`{% show_block block forloop.counter case.language folded=True %}`: render a block.

    folded: keep what was planted closed until the reader opens it, so that naturalness is judged on
        the text alone.
    beside: distinguishes it from the same block of another version on the page.
    among: all blocks of the case, to show the traps beside their turns.
    view: the view of a conversation that is open.
    marks: the highlights in the texts of the case.
    within: the name of the question with which it is shown.
    about: what that question is about: of a table of traps, only this one is shown.
    inside: the numbers of the blocks of `among` that are shown with their questions.
    """
    if _bait(block, among):
        return SafeString()  # the conversation ends with it
    if within and isinstance(block, Table) and block.tone == "trap":
        block = _without_quotes(block, among)
    notes = _notes(among)
    if isinstance(block, Text):  # the traps of a case without a conversation are in its bait question
        trap_notes: Sequence[TrapNote] = ()
        if block.tone == "question" and not any(isinstance(other, Diff) for other in among):
            trap_notes = notes.get(1, ())
        marks = _with_traps(block.text, trap_notes, marks or {}, f"{number}.1")
    is_asked, bait = False, ""
    for n, other in enumerate(among, 1):
        if isinstance(other, Table) and other.tone == "trap" and n in (inside or ()):
            is_asked = True
        bait = bait or _bait(other, [block])
    block_view = _BlockView(
        *(block, number, language, folded, beside, view, within, about, tuple(notes.items())),
        asked=is_asked,
        bait=bait,
    )
    if isinstance(block, Images):  # the URLs are signed for the reader of the page
        reader = getattr(context.get("request"), "user", None)
        signed = ((picture, picture_token(reader, picture.sha256)) for picture in block.pictures)
        pictures = [(picture, f"{reverse('image', args=[picture.sha256])}?seen={token}") for picture, token in signed]
        return _render(block_view, marks or {}, pictures)
    if marks:
        return _render(block_view, marks)
    return _cached_block(block_view, get_language())


class _BlockView(NamedTuple):
    """A block with everything that determines its rendering.

    notes: the traps by turn; asked: a question shows them; bait: the title of the last turn.
    """

    block: Block
    number: int
    language: str
    folded: bool
    beside: str
    view: str
    within: str
    about: str
    notes: tuple[tuple[int, tuple[TrapNote, ...]], ...]
    asked: bool
    bait: str


def _with_traps(text: str, notes: Iterable[TrapNote], marks: Marks, key: str) -> Marks:
    """The marks of the texts, with those of the words of traps in one of them."""
    traps = []
    for note in notes:
        start, end = _place([Span("insert", text)], note)
        if start < end:
            traps.append(TextMark(start, end, gettext("Trap %(n)s") % {"n": note.number}, style=1, fixed=True))
    if traps:
        return {**marks, key: [*marks.get(key, ()), *traps]}
    return marks


@lru_cache(maxsize=200)  # about 20 KB each
def _cached_block(view: _BlockView, _language: str | None) -> SafeString:
    """A block without marks, which several readers see on several pages each."""
    return _render(view, {})


def _render(view: _BlockView, marks: Marks, pictures: Sequence[tuple[Picture, str]] = ()) -> SafeString:
    block = view.block
    parts, chart = [], None
    if isinstance(block, Diff):
        parts = _row_runs(block, view)
    if isinstance(block, Points):
        chart = points_chart(block)
    values = view._asdict() | {
        "parts": parts,
        "elsewhere": bool(view.notes),
        "chart": chart,
        "pictures": pictures,
        "marks": marks,
    }
    return render_to_string(f"review/blocks/{block.kind}.html", values)


@register.simple_tag
def marked_text(text: str, marks: Marks, key: str) -> SafeString:
    """`{% marked_text block.text marks "1.2" %}`: the text of a passage with its highlights."""
    text_marks = marks.get(key, ())
    if text_marks:
        return _pieces_html(pieces([Span("equal", text)], text_marks))
    return doses(text)


@register.simple_tag
def conversation(
    turns: Sequence[Turn], number: int, language: str, marks: Marks, bait: str = "", side: str = ""
) -> SafeString:
    """`{% conversation block.after number language marks bait=bait %}`: the turns of a text.

    Numbered, as mistakes and traps name them, unless `side` is "source": the text before a change.
    """
    elements = []
    for place, turn in enumerate(turns, 1):
        key = f"{number}.{place}"
        classes, badges = "", []
        if bait and place == len(turns):
            classes += " turn--bait"
            badges.append(_badge("turn__mark--bait", translate(bait)))
        if turn.mark:
            classes += " turn--marked"
            badges.append(_badge("turn__mark", translate(turn.mark)))
        shown_number: int | str = place
        if side:
            key = f"{key}.source"
            shown_number = ""
        elements.append(_turn(turn, key, language, marked_text(turn.text, marks, key), shown_number, badges, classes))
    return mark_safe("".join(elements))  # noqa: S308 -- each of them is escaped


@register.simple_tag
def turn_before(row: DiffRow, number: int, language: str, marks: Marks) -> SafeString:
    """`{% turn_before row number language marks %}`: a turn before a change, if it was there."""
    turn = row.pair.before
    if turn is None:
        return SafeString()
    key, classes, badges = f"{number}.{row.before}.source", "", []
    if row.pair.change == "removed":
        classes, badges = " turn--removed", [_badge("turn__mark", f"− {gettext('turn removed')}")]
    text = _pieces_html(pieces(row.pair.spans, marks.get(key, ()), source=True))
    return _turn(turn, key, language, text, "", badges, classes)


@register.simple_tag
def turn_after(row: DiffRow, number: int, language: str, marks: Marks, asked: bool) -> SafeString:
    """`{% turn_after row number language marks asked %}`: a turn after a change, with its traps.

    asked: whether a question describes the traps, instead of the margin.
    """
    turn = row.pair.after
    if turn is None:
        return SafeString()
    key, classes, badges = f"{number}.{row.after}", "", []
    if row.pair.change == "added":
        classes, badges = " turn--added", [_badge("turn__mark", f"+ {gettext('turn added')}")]
    if row.bait:
        badges.append(_badge("turn__mark--bait", translate(row.bait)))
    traps, cards = [], {}
    for note in row.notes:
        badges.append(_trap_link(note, asked=asked))
        traps.append((note.at, note.number))
        cards[note.number] = note.card
    text = _pieces_html(pieces(row.pair.spans, marks.get(key, ()), traps), cards)
    return _turn(turn, key, language, text, row.after, badges, classes)


def _turn(
    turn: Turn,
    key: str,
    language: str,
    text: SafeString,
    number: int | str,
    badges: Sequence[SafeString],
    classes: str,
) -> SafeString:
    """The element of a turn; in Python, as a page has dozens.

    key: of its passage; text: its own, marked; badges: beside the speaker.
    """
    return format_html(
        '<div class="turn turn--{}{}"><h3 class="turn__speaker">{} {}{}</h3>'
        '<div class="turn__text" data-passage="{}"{}>{}</div></div>\n',
        *(side(turn.speaker), classes, number, translate(turn.speaker), mark_safe("".join(badges))),  # noqa: S308
        *(key, written_in(language, turn.text), text),
    )


def _badge(name: str, label: str) -> SafeString:
    return format_html(' <span class="{}">{}</span>', name, label)


def _trap_link(note: TrapNote, *, asked: bool) -> SafeString:
    attributes = SafeString()
    if note.first:
        attributes = SafeString(" data-trap")
        if not asked:
            attributes = format_html(' data-trap data-card="{}"', note.card)
    name = gettext("Trap %(n)s") % {"n": note.number}
    return format_html(' <a class="trap-mark" href="#{}"{}>{}</a>', note.card, attributes, name)


_CHANGE_TAGS = {"insert": "ins", "delete": "del"}


def _pieces_html(cut: Iterable[Piece], cards: Mapping[int, str] = MappingProxyType({})) -> SafeString:
    """Render pieces as elements that never overlap; in Python, as there can be hundreds.

    cards: the IDs of the elements that describe the traps, by their numbers.
    """
    elements: list[SafeString] = []
    cut = list(cut)
    escape: Callable[[str], SafeString] = conditional_escape
    if any(is_right_to_left(piece.text) for piece in cut):
        escape = isolated_doses
    for op, run in groupby(cut, key=lambda piece: piece.op):  # one element per change, even if marks split it
        parts: list[SafeString] = []
        for piece in run:
            parts += _piece_html(piece, cards, escape)
        element = mark_safe("".join(parts))  # noqa: S308 -- each is escaped
        if tag := _CHANGE_TAGS.get(op):
            element = format_html(f"<{tag}>{{}}</{tag}>", element)
        elements.append(element)
    return mark_safe("".join(elements))  # noqa: S308 -- each of them is escaped


def _piece_html(piece: Piece, cards: Mapping[int, str], escape: Callable[[str], SafeString]) -> Iterator[SafeString]:
    for number in piece.traps:
        name = gettext("Trap %(n)s") % {"n": number}
        link = '<a class="trap-mark trap-mark--here" data-aside href="#{}" aria-label="{}">{}</a>'
        yield format_html(link, cards[number], name, number)
    text = escape(piece.text)
    layers: Iterable[tuple[bool, Sequence[TextMark]]] = ()
    if piece.marks:
        layers = piece.layers()
    for own, layer in layers:
        classes = " ".join(["mark", *(f"mark--{mark.style}" for mark in layer)])
        ending = ", ".join(dict.fromkeys(str(mark) for mark in layer if mark.end == piece.at + len(piece.text)))
        name = ""
        if ending:
            name = format_html(' data-name="{}"', ending)
        title = ", ".join(dict.fromkeys(map(str, layer)))
        element = '<mark class="{}" title="{}"{}>{}</mark>'
        if own:
            element = '<mark class="{}" title="{}"{} data-own>{}</mark>'
        text = format_html(element, classes, title, name, text)
    yield text


@register.filter
def cells(table: Table, row: Sequence[str]) -> list[tuple[str, str]]:
    """`{{ table|cells:row }}`: filled cells of a row, each with its column; no name of a trap."""
    named = list(zip(table.columns, row, strict=False))
    if table.tone == "trap":
        named = named[2:]
    return [(column, cell) for column, cell in named if cell]


@register.filter
def rows_about(table: Table, about: str) -> list[tuple[int, tuple[str, ...]]]:
    """`{{ table|rows_about:about }}`: its numbered rows; of traps, that which `about` names."""
    numbered = list(enumerate(table.rows, 1))
    if table.tone != "trap":
        return numbered
    named = [(number, row) for number, row in numbered if f"{row[0]} {row[1]}" == about]
    return named or numbered


@register.filter
def join_key(number: int, turn: int) -> str:
    """`{{ number|join_key:forloop.counter }}`: the passage key of a block and turn."""
    return f"{number}.{turn}"


@register.simple_tag
def trap_code(code: str, terms: Sequence[TrapTerm], named: bool = False) -> SafeString:
    """`{% trap_code tag spec.form.terms %}`: the code of a trap, its name and definition on hover.

    named: also show the name beside it.
    """
    by_code = {term.code: term for term in terms}
    term = by_code.get(code)
    return part("review/answers/_code.html", code=code, term=term, named=named)


@register.filter
def outcome(review: Review, reader: User) -> str:
    """The outcome of the case of one's own review, as far as `reader` may know it."""
    return visibility.outcome_shown_to(reader, review)


@register.filter(name="language_label")
def shown_language(code: str) -> str:
    """A language as its code, or a phrase if it is undetermined."""
    return language_label(code)


@register.filter
def msgid(text: str) -> str:
    """A benchmark's string that is frozen in a case, in the reader's language."""
    return translate(text)


@register.filter
def judged_first(blocks: Sequence[Block]) -> list[tuple[int, Block]]:
    """The blocks with their numbers; altered texts, which are judged, before what they rest on.

    A question stays before the answer to it.
    """
    numbered = list(enumerate(blocks, 1))
    altered = [(number, block) for number, block in numbered if isinstance(block, Diff)]
    if not altered:
        return numbered
    questions = []
    for number, block in numbered:
        if number < altered[0][0] and isinstance(block, Text) and block.tone == "question":
            questions.append((number, block))
    first: list[tuple[int, Block]] = [*questions, *altered]
    return [*first, *(entry for entry in numbered if entry not in first)]


_TURN = re.compile(r"turn ([0-9]{1,3}) \((user|assistant)\)|(?<=\), )final question$")


@register.filter
def in_words(text: str) -> str:
    """Like `msgid`, with the places that a model names ("turn 5 (user), final question"), too."""

    def place(match: re.Match[str]) -> str:
        if match[1] is None:
            return gettext("final question")
        return gettext("turn %(number)s (%(speaker)s)") % {
            "number": match[1],
            "speaker": gettext(match[2].capitalize()).lower(),
        }

    return _TURN.sub(place, translate(text))


@register.filter
def requested_change(reason: str) -> str:
    """Why an earlier version was rejected, with the question's or reason's label translated."""
    label, separator, text = reason.partition(": ")
    if separator:
        return with_label(translate(label), text)
    return reason


@register.filter(name="task_label")
def name_of_task(task: str) -> str:
    """A benchmark's label for one of its tasks, in the reader's language."""
    return task_label(task)


@register.filter
def side(speaker: str) -> str:
    """'assistant' for a speaker who answers, 'patient' for one who asks."""
    if speaker.casefold() in _ANSWERING_SPEAKERS:
        return "assistant"
    return "patient"


def _label_of(words: Mapping[str, Promise], value: str) -> Promise | str:
    """The label of a value in the reader's language; unknown values are returned unchanged."""
    return words.get(value, value)


_WORDS = {
    "review_role": ROLES,
    "review_phase": PHASES,
    "verdict": VERDICTS,
    "ground": GROUNDS,
    "signed_meaning": MEANINGS,
}
for _name, _words in _WORDS.items():
    register.filter(_name, partial(_label_of, _words))
