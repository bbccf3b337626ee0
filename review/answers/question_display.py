"""How the page presents a question that is not a plain choice.

Such a question is a text, optional, conditional, or about one rubric or trap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from review.answers.posted_answers import requires_evidence
from review.labels import CITATION_KINDS, translate
from review.rules.blocks import Block
from review.rules.questions import Choice, Form, Question


@dataclass(frozen=True, slots=True)
class QuestionDisplay:
    """What the page shows of a question besides its choices.

    Attributes:
        about: the rubric or trap that the question is about.
        kinds: labels of the kinds of source that its answers accept.
        when: field and value on which the question depends; `condition` says it in words.
        sources: whether sources are entered with this question.
        blocks: the blocks of the case that are shown with it, each with its number.
    """

    about: str = ""
    kinds: tuple[str, ...] = ()
    in_words: bool = False
    several: bool = False
    required: bool = True
    compared: bool = True
    when: tuple[str, ...] = ()
    condition: str = ""
    sources: bool = False
    blocks: tuple[tuple[int, Block], ...] = ()


DEFAULT_DISPLAY = QuestionDisplay()


def question_display(form: Form, question: Question, blocks: Sequence[Block] = ()) -> QuestionDisplay:
    """How a question of `form` is presented in a case with `blocks`."""
    kinds = dict.fromkeys(kind for choice in question.choices for kind in choice.evidence_kinds)
    return QuestionDisplay(
        about=_about(form, question),
        kinds=tuple(str(CITATION_KINDS[kind]) for kind in kinds if kind in CITATION_KINDS),
        in_words=question.kind == "text",
        several=question.kind == "choices",
        required=question.required,
        compared=question.compared,
        when=_field_and_value(question.when),
        condition=_condition(form, question.when),
        sources=question is _question_with_sources(form),
        blocks=tuple((n, block) for n, block in enumerate(blocks, 1) if block.title in question.shows),
    )


def rubric_display(form: Form) -> QuestionDisplay:
    """How the rubrics of `form` are presented."""
    return QuestionDisplay(when=_field_and_value(form.rubrics_when), condition=_condition(form, form.rubrics_when))


def _field_and_value(when: str) -> tuple[str, ...]:
    return tuple(f"question.{when}".split("=", 1)) if when else ()


def required_with(choice: Choice) -> str:
    """What an answer requires besides itself, as words for the page's script: note, evidence."""
    return " ".join(["note"] * choice.blocks + ["evidence"] * choice.evidence)


def _question_with_sources(form: Form) -> Question | None:
    """The one question with which sources are entered, preferably an unconditional one."""
    candidates = [question for question in form.questions if requires_evidence(question)]
    chosen = next((question for question in candidates if not question.when), candidates[0] if candidates else None)
    if chosen is None or not chosen.about:
        return chosen
    repeated = chosen.key.partition(":")[0]  # asked of each trap or rubric: the sources follow the last one
    return next(question for question in reversed(candidates) if question.key.partition(":")[0] == repeated)


def _about(form: Form, question: Question) -> str:
    """What a question is about: a rubric, or a trap with its name in the reader's language."""
    tag, _, name = question.about.partition(" ")
    known = next((term for term in form.terms if (term.code, term.name) == (tag, name)), None)
    return f"{tag} {translate(known.name)}" if known else translate(question.about)


def _condition(form: Form, when: str) -> str:
    key, _, value = when.partition("=")
    source = next((question for question in form.questions if question.key == key), None)
    if source is None:
        return ""
    label = next((translate(choice.label) for choice in source.choices if choice.value == value), value)
    return gettext("Only if “%(question)s” is “%(answer)s”") % {"question": translate(source.label), "answer": label}
