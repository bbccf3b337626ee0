"""How a case's blocks are drawn, and the words for the machine's values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from django import template
from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.safestring import SafeString

from review.access import visibility
from review.charts.scatter import points_chart
from review.labels import GROUNDS, MEANINGS, PHASES, ROLES, VERDICTS, language_label, translate
from review.models import Review, User
from review.rules.blocks import Block, Diff, Points, Table
from review.rules.diffing import TurnPair, align_turns
from review.rules.questions import Form

register = template.Library()

_ANSWERING = {"assistant", "doctor", "physician", "ai", "助手", "医生"}


@dataclass(frozen=True, slots=True)
class TrapNote:
    """What a row of the traps says, for the margin of the turns that it is about. `first`: the mark that keys lead to."""

    number: int
    code: str
    name: str
    lines: tuple[tuple[str, str], ...]
    first: bool


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
        rows.append(DiffRow(pair, before, after, notes.get(after, ()) if pair.after is not None else ()))
    return [
        (same, list(run)) for same, run in groupby(rows, key=lambda row: row.pair.change == "same" and not row.notes)
    ]


@register.simple_tag
def show_block(
    block: Block,
    number: int,
    language: str = "",
    folded: bool = False,
    beside: str = "",
    among: Sequence[Block] = (),
    view: str = "shown",
) -> SafeString:
    """`{% show_block block forloop.counter case.language folded=True %}`: the block by its own template.

    beside: what tells it from the same block of another version on the page.
    folded: what was planted stays closed until the reader opens it, so that naturalness is judged on the text alone.
    among: all blocks of the case, where the traps are shown beside their turns. view: of a conversation, the one that is open.
    """
    notes = _notes(among)
    parts = _parts(align_turns(block.before, block.after), notes) if isinstance(block, Diff) else []
    chart = points_chart(block) if isinstance(block, Points) else None
    context = {
        "block": block,
        "number": number,
        "parts": parts,
        "view": view,
        "elsewhere": bool(notes),
        "chart": chart,
        "folded": folded,
        "language": language,
        "beside": beside,
    }
    return render_to_string(f"review/blocks/{block.kind}.html", context)


@register.inclusion_tag("review/answers/_code.html")
def trap_code(code: str, form: Form, named: bool = False) -> dict[str, object]:
    """`{% trap_code tag spec.form %}`: the code of a trap, with its name and definition for those who point at it.

    named: the name is shown beside it.
    """
    return {"code": code, "term": next((term for term in form.terms if term.code == code), None), "named": named}


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


@register.filter
def side(speaker: str) -> str:
    """'assistant' for the voice that answers, 'patient' for the one that asks."""
    return "assistant" if speaker.casefold() in _ANSWERING else "patient"


@register.filter
def review_role(role: str) -> Promise | str:
    """The word for a role in a case."""
    return ROLES.get(role, role)


@register.filter
def review_phase(phase: str) -> Promise | str:
    """The word for what is to be submitted."""
    return PHASES.get(phase, phase)


@register.filter
def verdict(value: str) -> Promise | str:
    """The word for a verdict."""
    return VERDICTS.get(value, value)


@register.filter
def ground(value: str) -> Promise | str:
    """Why a case ended, in words."""
    return GROUNDS.get(value, value)


@register.filter
def signed_meaning(value: str) -> Promise | str:
    """What a signature under a review says: `review`, `verification` or `adjudication`."""
    return MEANINGS.get(value, value)
