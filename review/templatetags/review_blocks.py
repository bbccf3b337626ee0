"""How a case's blocks are drawn, and the words for the machine's values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby
from typing import Any

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
from review.answers.marked_text import Marks, Piece, pieces, trap_offset
from review.answers.side_by_side import cited as citation_line
from review.charts.scatter import points_chart
from review.labels import GROUNDS, MEANINGS, PHASES, ROLES, VERDICTS, language_label, task_label, translate
from review.models import Review, User
from review.rules.blocks import Block, Diff, Images, Picture, Points, Table
from review.rules.citations import Citation
from review.rules.diffing import Span, TurnPair, align_turns
from review.rules.questions import Form
from review.templatetags.review_parts import part

register = template.Library()


@register.filter
def cited(citation: Mapping[str, str]) -> str:
    """A source that was stored with a sample, in one line."""
    return citation_line(Citation(**citation))


_ANSWERING = {"assistant", "doctor", "physician", "ai", "助手", "医生"}


@dataclass(frozen=True, slots=True)
class TrapNote:
    """What a row of the traps says, for the margin of the turns that it is about. `first`: the mark that keys lead to; `at`:
    the offset of the words that it is about."""

    number: int
    code: str
    name: str
    lines: tuple[tuple[str, str], ...]
    first: bool
    at: int = 0


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A pair of turns with the numbers that both have in their own texts, and the traps in it."""

    pair: TurnPair
    before: int
    after: int
    notes: tuple[TrapNote, ...] = ()


def _notes(blocks: Iterable[Block]) -> dict[int, tuple[TrapNote, ...]]:
    """The traps by the turn of the altered conversation that they are about."""
    found: dict[int, list[TrapNote]] = {}
    for block in blocks:
        if isinstance(block, Table) and block.tone == "trap":
            for number, (row, places) in enumerate(zip(block.rows, block.places, strict=False), 1):
                code, name, _where, *lines = row  # where, its turn says
                told = tuple(zip(block.columns[3:], lines, strict=False))
                for turn in places:
                    note = TrapNote(number, code, name, told, first=turn == places[0])
                    found.setdefault(turn, []).append(note)
    return {turn: tuple(notes) for turn, notes in found.items()}


def _parts(pairs: Iterable[TurnPair], notes: dict[int, tuple[TrapNote, ...]]) -> list[tuple[bool, list[DiffRow]]]:
    """The rows of a comparison in runs: (whether they are as they were and can be folded, rows)."""
    before = after = 0
    rows = []
    for pair in pairs:
        before += pair.before is not None
        after += pair.after is not None
        here = notes.get(after, ()) if pair.after is not None else ()
        placed = (replace(note, at=trap_offset(pair.spans, [text for _c, text in note.lines])) for note in here)
        rows.append(DiffRow(pair, before, after, tuple(placed)))
    return [
        (same, list(run)) for same, run in groupby(rows, key=lambda row: row.pair.change == "same" and not row.notes)
    ]


@register.simple_tag(takes_context=True, name="show_block")
def show_block_here(context: Context, block: Block, number: int, language: str = "", **options: Any) -> SafeString:
    """`show_block` on the page of a reader, for whom the addresses of images are good."""
    return show_block(block, number, language, reader=getattr(context.get("request"), "user", None), **options)


def show_block(
    block: Block,
    number: int,
    language: str = "",
    folded: bool = False,
    beside: str = "",
    among: Sequence[Block] = (),
    view: str = "shown",
    marks: Marks | None = None,
    reader: object = None,
) -> SafeString:
    """`{% show_block block forloop.counter case.language folded=True %}`: the block by its own template.

    beside: what tells it from the same block of another version on the page.
    folded: what was planted stays closed until the reader opens it, so that naturalness is judged on the text alone.
    among: all blocks of the case, where the traps are shown beside their turns. view: of a conversation, the one that is open.
    marks: what was highlighted in the texts of the case. reader: who is shown it.
    """
    placed = _Placed(block, number, language, folded, beside, view, tuple(_notes(among).items()))
    if marks or isinstance(block, Images):
        return _rendered(placed, marks or {}, _addressed(block, reader) if isinstance(block, Images) else ())
    return _unmarked(placed, get_language())


@dataclass(frozen=True, slots=True)
class _Placed:
    """A block at its place on a page. notes: the traps by the turn that they are about."""

    block: Block
    number: int
    language: str
    folded: bool
    beside: str
    view: str
    notes: tuple[tuple[int, tuple[TrapNote, ...]], ...]


@lru_cache(maxsize=200)  # of some twenty kilobytes each
def _unmarked(placed: _Placed, _language: str | None) -> SafeString:
    """A block that is the same for every reader, who are several, and see it on several pages each."""
    return _rendered(placed, {})


def _rendered(placed: _Placed, marks: Marks, pictures: Sequence[tuple[Picture, str]] = ()) -> SafeString:
    block, notes = placed.block, dict(placed.notes)
    values = {
        "block": block,
        "number": placed.number,
        "parts": _parts(align_turns(block.before, block.after), notes) if isinstance(block, Diff) else [],
        "view": placed.view,
        "elsewhere": bool(notes),
        "chart": points_chart(block) if isinstance(block, Points) else None,
        "pictures": pictures,
        "folded": placed.folded,
        "language": placed.language,
        "beside": placed.beside,
        "marks": marks,
    }
    return render_to_string(f"review/blocks/{block.kind}.html", values)


def _addressed(block: Images, reader: object) -> list[tuple[Picture, str]]:
    """The pictures with their addresses, good for this reader, who sees them here."""
    return [
        (each, f"{reverse('image', args=[each.sha256])}?seen={picture_token(reader, each.sha256)}")
        for each in block.pictures
    ]


@register.simple_tag
def marked_text(text: str, marks: Marks, key: str, side: str = "") -> SafeString:
    """`{% marked_text turn.text marks "1.2" %}`: a text with what was highlighted in it; `side` "source": as it was before."""
    marked = marks.get(f"{key}.source" if side else key, ())
    return _html(pieces([Span("equal", text)], marked)) if marked else conditional_escape(text)


@register.simple_tag
def marked_changes(row: DiffRow, marks: Marks, number: int, side: str = "") -> SafeString:
    """`{% marked_changes row marks number "source" %}`: a pair of turns with its changes, highlights and traps."""
    if side:
        return _html(pieces(row.pair.spans, marks.get(f"{number}.{row.before}.source", ()), source=True))
    traps = [(note.at, note.number) for note in row.notes]
    return _html(pieces(row.pair.spans, marks.get(f"{number}.{row.after}", ()), traps), f"trap-{number}-{row.after}")


_CHANGED = {"insert": "ins", "delete": "del"}


def _html(cut: Iterable[Piece], card: str = "") -> SafeString:
    """Pieces as elements that never overlap. In Python: a conversation has hundreds of them. card: where the traps are told."""
    found: list[SafeString] = []
    for op, run in groupby(cut, key=lambda piece: piece.op):  # one sign for what came, however many marks cut it
        text = mark_safe("".join(part for piece in run for part in _parts_of(piece, card)))  # noqa: S308 -- each is escaped
        tag = _CHANGED.get(op)
        found.append(format_html(f"<{tag}>{{}}</{tag}>", text) if tag else text)
    return mark_safe("".join(found))  # noqa: S308 -- each of them is escaped


def _parts_of(piece: Piece, card: str) -> Iterator[SafeString]:
    for number in piece.traps:
        name = gettext("Trap %(n)s") % {"n": number}
        link = '<a class="trap-mark trap-mark--here" data-aside href="#{}-{}" aria-label="{}">{}</a>'
        yield format_html(link, card, number, name, number)
    text: SafeString = conditional_escape(piece.text)
    for own, layer in piece.layers() if piece.marks else ():
        look = " ".join(["mark", *(f"mark--{each.style}" for each in layer)])
        ended = ", ".join(dict.fromkeys(str(each) for each in layer if each.end == piece.at + len(piece.text)))
        name = format_html(' data-name="{}"', ended) if ended else ""
        title = ", ".join(dict.fromkeys(map(str, layer)))
        start = '<mark class="{}" title="{}"{} data-own>{}</mark>' if own else '<mark class="{}" title="{}"{}>{}</mark>'
        text = format_html(start, look, title, name, text)
    yield text


@register.filter
def join_key(number: int, turn: int) -> str:
    """`{{ number|join_key:forloop.counter }}`: the key of a passage."""
    return f"{number}.{turn}"


@register.simple_tag
def trap_code(code: str, form: Form, named: bool = False) -> SafeString:
    """`{% trap_code tag spec.form %}`: the code of a trap, with its name and definition for those who point at it.

    named: the name is shown beside it.
    """
    term = next((term for term in form.terms if term.code == code), None)
    return part("review/answers/_code.html", code=code, term=term, named=named)


@register.filter
def outcome(review: Review, reader: User) -> str:
    """How the case of an own review ended, as far as `reader` may know it."""
    return visibility.outcome_shown_to(reader, review)


@register.filter(name="language_label")
def shown_language(code: str) -> str:
    """A language by its code; in words where nobody knows it."""
    return language_label(code)


@register.filter
def msgid(text: str) -> str:
    """A string frozen into a case by its benchmark, in the reader's language."""
    return translate(text)


@register.filter(name="task_label")
def name_of_task(task: str) -> str:
    """What a benchmark calls one of its tasks, in the reader's language."""
    return task_label(task)


@register.filter
def side(speaker: str) -> str:
    """'assistant' for the voice that answers, 'patient' for the one that asks."""
    return "assistant" if speaker.casefold() in _ANSWERING else "patient"


def _word(words: Mapping[str, Promise], value: str) -> Promise | str:
    """The word for a value in the reader's language; an unknown one stands as it is."""
    return words.get(value, value)


_WORDS = {
    "review_role": ROLES,
    "review_phase": PHASES,
    "verdict": VERDICTS,
    "ground": GROUNDS,
    "signed_meaning": MEANINGS,
}
for _name, _words in _WORDS.items():
    register.filter(_name, partial(_word, _words))
