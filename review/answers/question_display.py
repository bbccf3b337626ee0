"""How a question is asked where it is not the usual choice: in words, optional, on a condition, about one rubric or trap."""

from dataclasses import dataclass

from django.utils.translation import gettext

from review.answers.posted_answers import wants_evidence
from review.labels import CITATION_KINDS, translate
from review.rules.questions import Choice, Form, Question


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page says of a question beside its choices.

    about: the rubric or trap that it is asked of. kinds: of sources that its answers want. when: the field and the value with
    which it is asked, `condition` in words. sources: they are entered here.
    """

    about: str = ""
    kinds: tuple[str, ...] = ()
    in_words: bool = False
    several: bool = False
    required: bool = True
    when: tuple[str, ...] = ()
    condition: str = ""
    sources: bool = False


USUAL = Asked()


def asked(form: Form, question: Question) -> Asked:
    """How a question of `form` is asked."""
    kinds = dict.fromkeys(kind for choice in question.choices for kind in choice.evidence_kinds)
    return Asked(
        about=translate(question.about),
        kinds=tuple(str(CITATION_KINDS[kind]) for kind in kinds if kind in CITATION_KINDS),
        in_words=question.kind == "text",
        several=question.kind == "choices",
        required=question.required,
        when=_field_and_value(question.when),
        condition=_condition(form, question.when),
        sources=question is _with_sources(form),
    )


def asked_rubric(form: Form) -> Asked:
    """How the rubrics of `form` are asked."""
    return Asked(when=_field_and_value(form.rubrics_when), condition=_condition(form, form.rubrics_when))


def _field_and_value(when: str) -> tuple[str, ...]:
    return tuple(f"question.{when}".split("=", 1)) if when else ()


def wanted_with(choice: Choice) -> str:
    """What is required with an answer."""
    return " ".join(["note"] * choice.blocks + ["evidence"] * choice.evidence)


def _with_sources(form: Form) -> Question | None:
    """The question with which sources are entered, once a form: one that is asked whatever was answered."""
    asking = [question for question in form.questions if wants_evidence(question)]
    return next((question for question in asking if not question.when), asking[0] if asking else None)


def _condition(form: Form, when: str) -> str:
    key, _, value = when.partition("=")
    source = next((each for each in form.questions if each.key == key), None)
    if source is None:
        return ""
    label = next((translate(choice.label) for choice in source.choices if choice.value == value), value)
    return gettext("Only if “%(question)s” is “%(answer)s”") % {"question": translate(source.label), "answer": label}
