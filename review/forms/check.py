"""Validation of review forms: each fault has a field and a sentence that says what to do."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from review.forms.design import SETTINGS, Design, FormFault, can_be_revised
from review.labels import translate
from review.rules.case_spec import CaseSpec
from review.rules.citations import KINDS
from review.rules.questions import Choice, Level, Question, Reason
from review.rules.state_machine import State

STAGES = (State.PRIMARY, State.SECONDARY, State.ADJUDICATION)
KINDS_OF_QUESTION = ("choice", "choices", "text")
SUBJECTS = ("case", "rubric", "trap")
MAX_LABEL, MAX_TEXT = 300, 4000
MAX_QUESTIONS, MAX_CHOICES = 60, 20
MAX_HOURS = 24 * 60
_KEY = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_VALUE = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
# Questions asked before the traps are revealed must not mention them, in either language.
_REVEALING = re.compile(r"\btraps?\b|\brubrics?\b|\bplanted\b|\bhallucinat|陷阱|评分标准|评分细则|植入|幻觉", re.I)


def faults(design: Design, default: Design, locked: Mapping[str, str], sample: CaseSpec) -> list[FormFault]:
    """All faults of a design, in the order of the form.

    default: the form in the benchmark's folder.
    locked: the keys of questions that must not be removed, and why.
    sample: a case of the benchmark with the form of its folder.
    """
    result = list(_form_faults(design, locked))
    default_questions = {question.key: question for question in default.questions}
    for number, question in enumerate(design.questions, 1):
        field = f"question.{number}"
        result += _question_faults(question, field, sample)
        result += _condition_faults(design, number, field)
        default_question = default_questions.get(question.key)
        result += _first_look_faults(design, question, default_question, field)
        if question.key in locked and default_question is not None:
            result += _locked_faults(question, default_question, translate(locked[question.key]), field)
    for part in ("reasons", "dissents"):
        result += _reason_faults(getattr(design, part) or (), part, sample)
    if design.reasons == () and default.reasons:
        result.append(FormFault("reasons", _("Keep at least one reason.")))
    if design.levels is not None:
        result += _level_faults(design.levels, default.levels or ())
    return result + list(_policy_faults(design, sample))


def _form_faults(design: Design, locked: Mapping[str, str]) -> Iterator[FormFault]:
    keys = Counter(question.key for question in design.questions)
    if not design.questions:
        yield FormFault("form", _("Add at least one question."))
    if len(design.questions) > MAX_QUESTIONS:
        message = ngettext("A form has at most %(n)s question.", "A form has at most %(n)s questions.", MAX_QUESTIONS)
        yield FormFault("form", message % {"n": MAX_QUESTIONS})
    for key, reason in locked.items():
        if key not in keys:
            sentence = _("The question “%(key)s” cannot be removed: %(why)s")
            yield FormFault("form", sentence % {"key": key, "why": translate(reason)})
    for language, texts in design.wordings.items():
        if language not in dict(settings.LANGUAGES):
            yield FormFault("form", _("The site is not available in “%(language)s”.") % {"language": language})
        for name, text in texts.items():
            if len(text) > MAX_TEXT:
                yield FormFault("form", f"{name}: " + _("Use at most %(n)s characters.") % {"n": MAX_TEXT})
    evidence_questions = [
        question for question in design.questions if any(choice.evidence for choice in question.choices)
    ]
    if len(evidence_questions) > 1 and all(question.when or question.stages for question in evidence_questions):
        yield FormFault("form", _("At least one question that requires evidence must always be asked, at every stage."))


def _question_faults(question: Question, field: str, sample: CaseSpec) -> Iterator[FormFault]:
    if not _KEY.fullmatch(question.key):
        yield FormFault(
            f"{field}.key", _("Use a short key: a small letter, then small letters, digits, hyphens or underscores.")
        )
    if not question.label.strip():
        yield FormFault(f"{field}.label", _("Enter the name of the question."))
    for part, maximum in (("label", MAX_LABEL), ("asks", MAX_TEXT), ("help", MAX_TEXT)):
        if len(getattr(question, part)) > maximum:
            yield FormFault(f"{field}.{part}", _("Use at most %(n)s characters.") % {"n": maximum})
    if question.about:
        yield FormFault(
            f"{field}.per", _("The subject of a question is filled in when a case is opened. Leave it out.")
        )
    if question.kind not in KINDS_OF_QUESTION:
        yield FormFault(f"{field}.kind", _("Choose one of the types."))
    if question.per not in SUBJECTS:
        yield FormFault(f"{field}.per", _("Choose what the question is asked about."))
    elif question.per != "case" and not sample.form.rubrics:
        yield FormFault(f"{field}.per", _("The cases of this benchmark have no rubrics to review."))
    if len(question.shows) > MAX_CHOICES or any(len(title) > MAX_LABEL for title in question.shows):
        yield FormFault(f"{field}.shows", _("Choose from the parts of a case."))
    if set(question.stages) - set(STAGES):
        yield FormFault(f"{field}.stages", _("Choose from the stages of a review."))
    if question.kind == "text" and question.choices:
        yield FormFault(f"{field}.kind", _("A question answered in words has no choices. Remove them."))
    if question.kind in ("choice", "choices"):
        yield from _choice_faults(question.choices, field, sample)


def _choice_faults(choices: Sequence[Choice], field: str, sample: CaseSpec) -> Iterator[FormFault]:
    if not 2 <= len(choices) <= MAX_CHOICES:
        yield FormFault(f"{field}.choices", _("Offer from 2 to %(n)s choices.") % {"n": MAX_CHOICES})
    elif all(choice.blocks or choice.inadequate for choice in choices):
        yield FormFault(f"{field}.choices", _("Every choice rules out approval. Leave one with which a case can pass."))
    values = Counter(choice.value for choice in choices)
    for number, choice in enumerate(choices, 1):
        location = f"{field}.choice.{number}"
        if not _VALUE.fullmatch(choice.value):
            yield FormFault(
                f"{location}.value",
                _("Use a short value: small letters, digits, hyphens or underscores, such as “not-met”."),
            )
        elif values[choice.value] > 1:
            yield FormFault(f"{location}.value", _("Another choice of this question has this value."))
        if not choice.label.strip():
            yield FormFault(f"{location}.label", _("Enter the wording of the choice."))
        elif len(choice.label) > MAX_LABEL:
            yield FormFault(f"{location}.label", _("Use at most %(n)s characters.") % {"n": MAX_LABEL})
        if choice.ends and not choice.blocks:
            yield FormFault(f"{location}.effect", _("A choice that discards the sample must also rule out approval."))
        if choice.inadequate and not (choice.blocks and sample.form.rubrics):
            yield FormFault(f"{location}.effect", _("Only a benchmark whose rubrics are reviewed can reject them."))
        if set(choice.evidence_kinds) - set(KINDS) or (choice.evidence_kinds and not choice.evidence):
            yield FormFault(
                f"{location}.evidence", _("Choose from the kinds of sources, and require evidence with them.")
            )


def _condition_faults(design: Design, number: int, field: str) -> Iterator[FormFault]:
    question = design.questions[number - 1]
    if [other.key for other in design.questions].index(question.key) != number - 1:
        yield FormFault(f"{field}.key", _("Another question has this key. Keys must be unique."))
    if not question.when:
        return
    key, _equals, value = question.when.partition("=")
    location = f"{field}.when"
    source = next((other for other in design.questions[: number - 1] if other.key == key), None)
    if source is None:
        yield FormFault(location, _("“Asked when” must name an earlier question. “%(key)s” is not one.") % {"key": key})
        return
    if value not in {choice.value for choice in source.choices}:
        sentence = _("“%(value)s” is not a choice of the question “%(key)s”.")
        yield FormFault(location, sentence % {"value": value, "key": key})
    if source.per not in ("case", question.per):
        yield FormFault(
            location, _("It depends on a question that is asked several times per case. Choose another one.")
        )
    if source.stages and not (question.stages and set(question.stages) <= set(source.stages)):
        yield FormFault(location, _("It depends on a question that is not asked at all of its stages."))
    if question.first_look and not source.first_look:
        yield FormFault(location, _("A first-look question can depend only on another first-look question."))


def _first_look_faults(design: Design, question: Question, default: Question | None, field: str) -> Iterator[FormFault]:
    if not question.first_look:
        return
    location = f"{field}.first_look"
    if question.per != "case":
        yield FormFault(
            location, _("A question about a trap or a rubric cannot be asked before the traps are revealed.")
        )
    if any(choice.inadequate or choice.evidence for choice in question.choices):
        yield FormFault(
            location,
            _("A question that requires evidence or judges rubrics cannot be asked before the traps are revealed."),
        )
    # Texts that the benchmark's folder shows in its own first look were checked by its author.
    texts = {text for text in _texts(design, question) if default is None or not default.first_look}
    if any(_REVEALING.search(text) for text in texts):
        yield FormFault(
            location,
            _(
                "It mentions traps or rubrics, so it cannot be asked before they are revealed. Reword it, or ask it later."
            ),
        )


def _texts(design: Design, question: Question) -> Iterator[str]:
    yield from (question.label, question.asks, question.help, *(choice.label for choice in question.choices))
    for texts in design.wordings.values():
        yield from (text for name, text in texts.items() if name.partition(".")[0] == question.key)


def _locked_faults(question: Question, default: Question, reason: str, field: str) -> Iterator[FormFault]:
    """Faults of a locked question.

    Only its wording may change, not the meaning of stored answers.
    """
    fixed = ("first_look", "kind", "required", "compared", "when", "stages", "per")
    changed = [part for part in fixed if getattr(question, part) != getattr(default, part)]
    if changed:
        sentence = _("Only the wording of this question can change: %(why)s")
        yield FormFault(f"{field}.{changed[0]}", sentence % {"why": reason})
    if [_meaning(choice) for choice in question.choices] != [_meaning(choice) for choice in default.choices]:
        sentence = _("The values and effects of its choices cannot change: %(why)s")
        yield FormFault(f"{field}.choices", sentence % {"why": reason})


def _meaning(choice: Choice) -> Choice:
    return replace(choice, label="", evidence_kinds=())


def _reason_faults(reasons: Sequence[Reason], part: str, sample: CaseSpec) -> Iterator[FormFault]:
    if len(reasons) > MAX_CHOICES:
        yield FormFault(part, _("Offer at most %(n)s reasons.") % {"n": MAX_CHOICES})
    codes = Counter(reason.code for reason in reasons)
    for number, reason in enumerate(reasons, 1):
        field = f"{part}.{number}"
        if not _VALUE.fullmatch(reason.code):
            yield FormFault(
                field, _("Use a short value: small letters, digits, hyphens or underscores, such as “not-met”.")
            )
        elif codes[reason.code] > 1:
            yield FormFault(field, _("Another reason of this list has this value."))
        yield from _label_faults(reason.label, field)
        if part == "reasons" and reason.reducible and not can_be_revised(sample.form):
            yield FormFault(field, _("Samples of this benchmark cannot be revised. Every rejection discards them."))


def _level_faults(levels: Sequence[Level], default: Sequence[Level]) -> Iterator[FormFault]:
    if [level.value for level in levels] != [level.value for level in default]:
        yield FormFault(
            "levels", _("The levels and their order cannot change: rates are weighted by them. Change their wording.")
        )
    for number, level in enumerate(levels, 1):
        yield from _label_faults(level.label, f"levels.{number}")
        if len(level.about) > MAX_TEXT:
            yield FormFault(f"levels.{number}", _("Use at most %(n)s characters.") % {"n": MAX_TEXT})


def _label_faults(label: str, field: str) -> Iterator[FormFault]:
    if not label.strip():
        yield FormFault(field, _("Enter the wording."))
    elif len(label) > MAX_LABEL:
        yield FormFault(field, _("Use at most %(n)s characters.") % {"n": MAX_LABEL})


def _policy_faults(design: Design, sample: CaseSpec) -> Iterator[FormFault]:
    for name in design.policy:
        if name not in SETTINGS:
            yield FormFault(f"policy.{name}", _("There is no such setting."))
    if len(design.severity_asks) > MAX_LABEL:
        yield FormFault("severity_asks", _("Use at most %(n)s characters.") % {"n": MAX_LABEL})
    if design.share is not None and not 0 <= design.share <= 100:
        yield FormFault("share", _("Enter a whole number from 0 to 100, or leave it empty."))
    if design.objection_hours is not None and not 0 <= design.objection_hours <= MAX_HOURS:
        sentence = _("Enter a whole number from 0 to %(n)s, or leave it empty.")
        yield FormFault("objection_hours", sentence % {"n": MAX_HOURS})
    if design.policy.get("reveal_first_look", sample.policy.reveal_first_look):
        first_look_questions = [
            question for question in design.questions if question.first_look and not question.stages
        ]
        if not sample.first_look:
            yield FormFault("policy.reveal_first_look", _("The cases of this benchmark have no text for a first look."))
        elif not first_look_questions:
            sentence = _("Ask at least one question in the first look, or turn the first look off.")
            yield FormFault("policy.reveal_first_look", sentence)
