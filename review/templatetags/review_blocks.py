"""How a case's blocks are drawn, and the words for the machine's values."""

from django import template
from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.safestring import SafeString

from review.access import visibility
from review.charts.scatter import cloud
from review.labels import GROUNDS, MEANINGS, PHASES, ROLES, VERDICTS, said
from review.models import Review, User
from review.rules.blocks import Block, Diff, Points
from review.rules.diffing import align
from review.rules.questions import Form

register = template.Library()

_ANSWERING = {"assistant", "doctor", "physician", "ai", "助手", "医生"}


@register.simple_tag
def show_block(block: Block, number: int, language: str = "", folded: bool = False, beside: str = "") -> SafeString:
    """`{% show_block block forloop.counter case.language folded=True %}`: the block by its own template.

    beside: what tells it from the same block of another version on the page.
    folded: what was planted stays closed until the reader opens it, so that naturalness is judged on the text alone.
    """
    pairs = align(block.before, block.after) if isinstance(block, Diff) else []
    chart = cloud(block) if isinstance(block, Points) else None
    context = {
        "block": block,
        "number": number,
        "pairs": pairs,
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


@register.filter
def msgid(text: str) -> str:
    """A string frozen into a case by its benchmark, in the reader's language."""
    return said(text)


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
