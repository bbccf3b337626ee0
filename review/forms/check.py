"""Everything that keeps a form from being published, each with its field and a sentence that says what to do."""

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
LONGEST_LABEL, LONGEST_TEXT = 300, 4000
MOST_QUESTIONS, MOST_CHOICES = 60, 20
MOST_HOURS = 24 * 60
_KEY = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_VALUE = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
# What is asked before the traps are revealed must not speak of them, in either language.
_TELLS = re.compile(r"\btraps?\b|\brubrics?\b|\bplanted\b|\bhallucinat|陷阱|评分标准|评分细则|植入|幻觉", re.I)


def faults(design: Design, default: Design, locked: Mapping[str, str], sample: CaseSpec) -> list[FormFault]:
    """All faults of a design, in the order of the form.

    default: the form of the folder. locked: the keys that must stay, and why. sample: a case of the benchmark as its folder
    makes it.
    """
    found = list(_faults_of_form(design, locked))
    known = {question.key: question for question in default.questions}
    for number, question in enumerate(design.questions, 1):
        where = f"question.{number}"
        found += _faults_of_question(question, where, sample)
        found += _faults_of_condition(design, number, where)
        found += _faults_of_first_look(design, question, known.get(question.key), where)
        if question.key in locked and question.key in known:
            found += _faults_of_locked(question, known[question.key], translate(locked[question.key]), where)
    for part in ("reasons", "dissents"):
        found += _faults_of_reasons(getattr(design, part) or (), part, sample)
    if design.reasons == () and default.reasons:
        found.append(FormFault("reasons", _("Keep at least one reason.")))
    if design.levels is not None:
        found += _faults_of_levels(design.levels, default.levels or ())
    return found + list(_faults_of_policy(design, sample))


def _faults_of_form(design: Design, locked: Mapping[str, str]) -> Iterator[FormFault]:
    keys = Counter(question.key for question in design.questions)
    if not design.questions:
        yield FormFault("form", _("Add at least one question."))
    if len(design.questions) > MOST_QUESTIONS:
        most = ngettext("A form has at most %(n)s question.", "A form has at most %(n)s questions.", MOST_QUESTIONS)
        yield FormFault("form", most % {"n": MOST_QUESTIONS})
    for key, why in locked.items():
        if key not in keys:
            sentence = _("The question “%(key)s” cannot be removed: %(why)s")
            yield FormFault("form", sentence % {"key": key, "why": translate(why)})
    for language, words in design.wordings.items():
        if language not in dict(settings.LANGUAGES):
            yield FormFault("form", _("The site does not speak “%(language)s”.") % {"language": language})
        for name, text in words.items():
            if len(text) > LONGEST_TEXT:
                yield FormFault("form", f"{name}: " + _("Use at most %(n)s characters.") % {"n": LONGEST_TEXT})
    asking = [question for question in design.questions if any(choice.evidence for choice in question.choices)]
    if len(asking) > 1 and all(question.when or question.stages for question in asking):
        yield FormFault("form", _("One question that requires evidence must be asked always, at every stage."))


def _faults_of_question(question: Question, where: str, sample: CaseSpec) -> Iterator[FormFault]:
    if not _KEY.fullmatch(question.key):
        yield FormFault(
            f"{where}.key", _("Use a short key: a small letter, then small letters, digits, hyphens or underscores.")
        )
    if not question.label.strip():
        yield FormFault(f"{where}.label", _("Enter the name of the question."))
    for part, most in (("label", LONGEST_LABEL), ("asks", LONGEST_TEXT), ("help", LONGEST_TEXT)):
        if len(getattr(question, part)) > most:
            yield FormFault(f"{where}.{part}", _("Use at most %(n)s characters.") % {"n": most})
    if question.about:
        yield FormFault(f"{where}.per", _("What a question is about is filled in when a case is opened. Leave it out."))
    if question.kind not in KINDS_OF_QUESTION:
        yield FormFault(f"{where}.kind", _("Choose one of the types."))
    if question.per not in SUBJECTS:
        yield FormFault(f"{where}.per", _("Choose what the question is asked about."))
    elif question.per != "case" and not sample.form.rubrics:
        yield FormFault(f"{where}.per", _("The cases of this benchmark have no rubrics to review."))
    if set(question.stages) - set(STAGES):
        yield FormFault(f"{where}.stages", _("Choose among the stages of a review."))
    if question.kind == "text" and question.choices:
        yield FormFault(f"{where}.kind", _("A question answered in words has no choices. Remove them."))
    if question.kind in ("choice", "choices"):
        yield from _faults_of_choices(question.choices, where, sample)


def _faults_of_choices(choices: Sequence[Choice], where: str, sample: CaseSpec) -> Iterator[FormFault]:
    if not 2 <= len(choices) <= MOST_CHOICES:
        yield FormFault(f"{where}.choices", _("Offer from 2 to %(n)s choices.") % {"n": MOST_CHOICES})
    elif all(choice.blocks or choice.inadequate for choice in choices):
        yield FormFault(f"{where}.choices", _("Every choice rules out approval. Leave one with which a case can pass."))
    values = Counter(choice.value for choice in choices)
    for number, choice in enumerate(choices, 1):
        at = f"{where}.choice.{number}"
        if not _VALUE.fullmatch(choice.value):
            yield FormFault(
                f"{at}.value", _("Use a short value: small letters, digits, hyphens or underscores, such as “not-met”.")
            )
        elif values[choice.value] > 1:
            yield FormFault(f"{at}.value", _("Another choice of this question has this value."))
        if not choice.label.strip():
            yield FormFault(f"{at}.label", _("Enter the wording of the choice."))
        elif len(choice.label) > LONGEST_LABEL:
            yield FormFault(f"{at}.label", _("Use at most %(n)s characters.") % {"n": LONGEST_LABEL})
        if choice.ends and not choice.blocks:
            yield FormFault(f"{at}.effect", _("What discards the sample must also rule out approval."))
        if choice.inadequate and not (choice.blocks and sample.form.rubrics):
            yield FormFault(f"{at}.effect", _("Only a benchmark whose rubrics are reviewed can reject them."))
        if set(choice.evidence_kinds) - set(KINDS) or (choice.evidence_kinds and not choice.evidence):
            yield FormFault(f"{at}.evidence", _("Choose among the kinds of sources, and require evidence with them."))


def _faults_of_condition(design: Design, number: int, where: str) -> Iterator[FormFault]:
    question = design.questions[number - 1]
    if [each.key for each in design.questions].index(question.key) != number - 1:
        yield FormFault(f"{where}.key", _("Another question has this key. Keys must be unique."))
    if not question.when:
        return
    key, _equals, value = question.when.partition("=")
    at = f"{where}.when"
    source = next((each for each in design.questions[: number - 1] if each.key == key), None)
    if source is None:
        yield FormFault(at, _("“Asked when” must name an earlier question. “%(key)s” is none.") % {"key": key})
        return
    if value not in {choice.value for choice in source.choices}:
        sentence = _("“%(value)s” is no choice of the question “%(key)s”.")
        yield FormFault(at, sentence % {"value": value, "key": key})
    if source.per not in ("case", question.per):
        yield FormFault(at, _("It depends on a question that is asked several times a case. Depend on another one."))
    if source.stages and not (question.stages and set(question.stages) <= set(source.stages)):
        yield FormFault(at, _("It depends on a question that is not asked at all of its stages."))
    if question.first_look and not source.first_look:
        yield FormFault(at, _("A question of the first look can depend only on another one of the first look."))


def _faults_of_first_look(
    design: Design, question: Question, default: Question | None, where: str
) -> Iterator[FormFault]:
    if not question.first_look:
        return
    at = f"{where}.first_look"
    if question.per != "case":
        yield FormFault(at, _("A question about a trap or a rubric cannot be asked before the traps are revealed."))
    if any(choice.inadequate or choice.evidence for choice in question.choices):
        yield FormFault(at, _("What needs evidence or judges rubrics cannot be asked before the traps are revealed."))
    # Texts that the benchmark's folder shows in its own first look have been weighed there.
    texts = {text for text in _texts(design, question) if default is None or not default.first_look}
    if any(_TELLS.search(text) for text in texts):
        yield FormFault(
            at,
            _(
                "It speaks of traps or rubrics, so it cannot be asked before they are revealed. Reword it, or ask later."
            ),
        )


def _texts(design: Design, question: Question) -> Iterator[str]:
    yield from (question.label, question.asks, question.help, *(choice.label for choice in question.choices))
    for words in design.wordings.values():
        yield from (text for name, text in words.items() if name.partition(".")[0] == question.key)


def _faults_of_locked(question: Question, default: Question, why: str, where: str) -> Iterator[FormFault]:
    """Its wording may change; what its stored answers mean may not."""
    fixed = ("first_look", "kind", "required", "compared", "when", "stages", "per")
    changed = [part for part in fixed if getattr(question, part) != getattr(default, part)]
    if changed:
        sentence = _("Of this question only the wording can change: %(why)s")
        yield FormFault(f"{where}.{changed[0]}", sentence % {"why": why})
    if [_meaning(choice) for choice in question.choices] != [_meaning(choice) for choice in default.choices]:
        sentence = _("The values and effects of its choices cannot change: %(why)s")
        yield FormFault(f"{where}.choices", sentence % {"why": why})


def _meaning(choice: Choice) -> Choice:
    return replace(choice, label="", evidence_kinds=())


def _faults_of_reasons(reasons: Sequence[Reason], part: str, sample: CaseSpec) -> Iterator[FormFault]:
    if len(reasons) > MOST_CHOICES:
        yield FormFault(part, _("Offer at most %(n)s reasons.") % {"n": MOST_CHOICES})
    codes = Counter(reason.code for reason in reasons)
    for number, reason in enumerate(reasons, 1):
        at = f"{part}.{number}"
        if not _VALUE.fullmatch(reason.code):
            yield FormFault(
                at, _("Use a short value: small letters, digits, hyphens or underscores, such as “not-met”.")
            )
        elif codes[reason.code] > 1:
            yield FormFault(at, _("Another reason of this list has this value."))
        yield from _faults_of_label(reason.label, at)
        if part == "reasons" and reason.reducible and not can_be_revised(sample.form):
            yield FormFault(at, _("Samples of this benchmark cannot be revised. Every rejection discards them."))


def _faults_of_levels(levels: Sequence[Level], default: Sequence[Level]) -> Iterator[FormFault]:
    if [level.value for level in levels] != [level.value for level in default]:
        yield FormFault(
            "levels", _("The levels and their order cannot change: rates are weighted by them. Change their wording.")
        )
    for number, level in enumerate(levels, 1):
        yield from _faults_of_label(level.label, f"levels.{number}")
        if len(level.about) > LONGEST_TEXT:
            yield FormFault(f"levels.{number}", _("Use at most %(n)s characters.") % {"n": LONGEST_TEXT})


def _faults_of_label(label: str, at: str) -> Iterator[FormFault]:
    if not label.strip():
        yield FormFault(at, _("Enter the wording."))
    elif len(label) > LONGEST_LABEL:
        yield FormFault(at, _("Use at most %(n)s characters.") % {"n": LONGEST_LABEL})


def _faults_of_policy(design: Design, sample: CaseSpec) -> Iterator[FormFault]:
    for name in design.policy:
        if name not in SETTINGS:
            yield FormFault(f"policy.{name}", _("There is no such setting."))
    if len(design.severity_asks) > LONGEST_LABEL:
        yield FormFault("severity_asks", _("Use at most %(n)s characters.") % {"n": LONGEST_LABEL})
    if design.share is not None and not 0 <= design.share <= 100:
        yield FormFault("share", _("Enter a whole number from 0 to 100, or leave it empty."))
    if design.objection_hours is not None and not 0 <= design.objection_hours <= MOST_HOURS:
        sentence = _("Enter a whole number from 0 to %(n)s, or leave it empty.")
        yield FormFault("objection_hours", sentence % {"n": MOST_HOURS})
    if design.policy.get("reveal_first_look", sample.policy.reveal_first_look):
        asked = [question for question in design.questions if question.first_look and not question.stages]
        if not sample.first_look:
            yield FormFault("policy.reveal_first_look", _("The cases of this benchmark have no text for a first look."))
        elif not asked:
            sentence = _("Ask at least one question in the first look, or turn the first look off.")
            yield FormFault("policy.reveal_first_look", sentence)
