"""Validation of review forms: each fault has a field and a sentence that says what to do."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


Rule = tuple[object, str, str]  # whether it is broken, the field, a sentence that says what to do


def _broken(rules: Iterable[Rule], prefix: str = "") -> list[FormFault]:
    """The faults by rules; `prefix` stands before each field."""
    return [FormFault(f"{prefix}{field}", sentence) for is_broken, field, sentence in rules if is_broken]


def _at_most(text: str, most: int, field: str) -> Rule:
    return len(text) > most, field, _("Use at most %(n)s characters.") % {"n": most}


def faults(design: Design, default: Design, locked: Mapping[str, str], sample: CaseSpec) -> list[FormFault]:
    """All faults of a design, in the order of the form.

    default: the form in the benchmark's folder.
    locked: the keys of questions that must not be removed, and why.
    sample: a case of the benchmark with the form of its folder.
    """
    result = _broken(_form_rules(design, locked))
    default_questions = {question.key: question for question in default.questions}
    for number, question in enumerate(design.questions, 1):
        field = f"question.{number}."
        result += _broken(_question_rules(question, sample), field)
        if question.kind in ("choice", "choices"):
            for position in range(1, len(question.choices) + 1):
                rules = _choice_rules(question.choices, position, sample)
                result += _broken(rules, f"{field}choice.{position}.")
        result += _broken(_condition_rules(design, number), field)
        default_question = default_questions.get(question.key)
        if question.first_look:
            result += _broken(_first_look_rules(design, question, default_question), field)
        if question.key in locked and default_question is not None:
            result += _broken(_locked_rules(question, default_question, translate(locked[question.key])), field)
    for part in ("reasons", "dissents"):
        result += _broken(_reason_rules(getattr(design, part) or (), part, sample))
    result += _broken([(design.reasons == () and default.reasons, "reasons", _("Keep at least one reason."))])
    if design.levels is not None:
        result += _broken(_level_rules(design.levels, default.levels or ()))
    return result + _broken(_policy_rules(design, sample))


def _form_rules(design: Design, locked: Mapping[str, str]) -> Iterator[Rule]:
    keys = {question.key for question in design.questions}
    yield not design.questions, "form", _("Add at least one question.")
    message = ngettext("A form has at most %(n)s question.", "A form has at most %(n)s questions.", MAX_QUESTIONS)
    yield len(design.questions) > MAX_QUESTIONS, "form", message % {"n": MAX_QUESTIONS}
    for key, reason in locked.items():
        sentence = _("The question “%(key)s” cannot be removed: %(why)s")
        yield key not in keys, "form", sentence % {"key": key, "why": translate(reason)}
    for language, texts in design.wordings.items():
        sentence = _("The site is not available in “%(language)s”.") % {"language": language}
        yield language not in dict(settings.LANGUAGES), "form", sentence
        for name, text in texts.items():
            is_long, field, sentence = _at_most(text, MAX_TEXT, "form")
            yield is_long, field, f"{name}: {sentence}"
    proven = []
    for question in design.questions:
        if any(choice.evidence for choice in question.choices):
            proven.append(question)
    is_always_asked = any(not question.when and not question.stages for question in proven)
    yield (
        len(proven) > 1 and not is_always_asked,
        "form",
        _("At least one question that requires evidence must always be asked, at every stage."),
    )


def _question_rules(question: Question, sample: CaseSpec) -> Iterator[Rule]:
    yield (
        not _KEY.fullmatch(question.key),
        "key",
        _("Use a short key: a small letter, then small letters, digits, hyphens or underscores."),
    )
    yield not question.label.strip(), "label", _("Enter the name of the question.")
    for part, maximum in (("label", MAX_LABEL), ("asks", MAX_TEXT), ("help", MAX_TEXT)):
        yield _at_most(getattr(question, part), maximum, part)
    yield question.about, "per", _("The subject of a question is filled in when a case is opened. Leave it out.")
    yield question.kind not in KINDS_OF_QUESTION, "kind", _("Choose one of the types.")
    yield question.per not in SUBJECTS, "per", _("Choose what the question is asked about.")
    asks_of_rubrics = question.per in SUBJECTS and question.per != "case"
    yield (
        asks_of_rubrics and not sample.form.rubrics,
        "per",
        _("The cases of this benchmark have no rubrics to review."),
    )
    too_much = len(question.shows) > MAX_CHOICES or any(len(title) > MAX_LABEL for title in question.shows)
    yield too_much, "shows", _("Choose from the parts of a case.")
    yield set(question.stages) - set(STAGES), "stages", _("Choose from the stages of a review.")
    if question.kind == "text":
        yield question.choices, "kind", _("A question answered in words has no choices. Remove them.")
    elif question.kind in KINDS_OF_QUESTION:
        is_number_right = 2 <= len(question.choices) <= MAX_CHOICES
        yield not is_number_right, "choices", _("Offer from 2 to %(n)s choices.") % {"n": MAX_CHOICES}
        yield (
            is_number_right and all(choice.blocks or choice.inadequate for choice in question.choices),
            "choices",
            _("Every choice rules out approval. Leave one with which a case can pass."),
        )


def _code_rules(code: str, codes: Counter[str], field: str, taken: str) -> Iterator[Rule]:
    """Rules for a stored value. `taken`: what to say if another row of the list has it."""
    is_short = _VALUE.fullmatch(code)
    sentence = _("Use a short value: small letters, digits, hyphens or underscores, such as “not-met”.")
    yield not is_short, field, sentence
    yield is_short and codes[code] > 1, field, taken


def _label_rules(label: str, field: str, missing: str) -> Iterator[Rule]:
    yield not label.strip(), field, missing
    if label.strip():
        yield _at_most(label, MAX_LABEL, field)


def _choice_rules(choices: Sequence[Choice], position: int, sample: CaseSpec) -> Iterator[Rule]:
    choice, values = choices[position - 1], Counter(choice.value for choice in choices)
    yield from _code_rules(choice.value, values, "value", _("Another choice of this question has this value."))
    yield from _label_rules(choice.label, "label", _("Enter the wording of the choice."))
    discards = choice.ends and not choice.blocks
    yield discards, "effect", _("A choice that discards the sample must also rule out approval.")
    rejects = choice.inadequate and not (choice.blocks and sample.form.rubrics)
    yield rejects, "effect", _("Only a benchmark whose rubrics are reviewed can reject them.")
    kinds = set(choice.evidence_kinds) - set(KINDS) or (choice.evidence_kinds and not choice.evidence)
    yield kinds, "evidence", _("Choose from the kinds of sources, and require evidence with them.")


def _condition_rules(design: Design, number: int) -> Iterator[Rule]:
    question, earlier = design.questions[number - 1], design.questions[: number - 1]
    by_key: dict[str, Question] = {}
    for other in earlier:
        by_key.setdefault(other.key, other)
    is_taken = question.key in by_key
    yield is_taken, "key", _("Another question has this key. Keys must be unique.")
    if not question.when:
        return
    key, _equals, value = question.when.partition("=")
    source = by_key.get(key)
    if source is None:
        yield True, "when", _("“Asked when” must name an earlier question. “%(key)s” is not one.") % {"key": key}
        return
    sentence = _("“%(value)s” is not a choice of the question “%(key)s”.") % {"value": value, "key": key}
    yield value not in {choice.value for choice in source.choices}, "when", sentence
    yield (
        source.per not in ("case", question.per),
        "when",
        _("It depends on a question that is asked several times per case. Choose another one."),
    )
    is_missing = source.stages and not (question.stages and set(question.stages) <= set(source.stages))
    yield is_missing, "when", _("It depends on a question that is not asked at all of its stages.")
    is_late = question.first_look and not source.first_look
    yield is_late, "when", _("A first-look question can depend only on another first-look question.")


def _first_look_rules(design: Design, question: Question, default: Question | None) -> Iterator[Rule]:
    yield (
        question.per != "case",
        "first_look",
        _("A question about a trap or a rubric cannot be asked before the traps are revealed."),
    )
    yield (
        any(choice.inadequate or choice.evidence for choice in question.choices),
        "first_look",
        _("A question that requires evidence or judges rubrics cannot be asked before the traps are revealed."),
    )
    # Texts that the benchmark's folder shows in its own first look were checked by its author.
    is_checked = default is not None and default.first_look
    is_revealing = not is_checked and any(_REVEALING.search(text) for text in _texts(design, question))
    yield (
        is_revealing,
        "first_look",
        _("It mentions traps or rubrics, so it cannot be asked before they are revealed. Reword it, or ask it later."),
    )


def _texts(design: Design, question: Question) -> Iterator[str]:
    yield from (question.label, question.asks, question.help)
    for choice in question.choices:
        yield choice.label
    for texts in design.wordings.values():
        for name, text in texts.items():
            if name.partition(".")[0] == question.key:
                yield text


def _locked_rules(question: Question, default: Question, reason: str) -> Iterator[Rule]:
    """Rules for a locked question.

    Only its wording may change, not the meaning of stored answers.
    """
    fixed = ("first_look", "kind", "required", "compared", "when", "stages", "per")
    sentence = _("Only the wording of this question can change: %(why)s") % {"why": reason}
    changed = [part for part in fixed if getattr(question, part) != getattr(default, part)]
    yield changed, "".join(changed[:1]), sentence
    sentence = _("The values and effects of its choices cannot change: %(why)s") % {"why": reason}
    yield _without_words(question) != _without_words(default), "choices", sentence


def _without_words(question: Question) -> list[Choice]:
    return [replace(choice, label="", evidence_kinds=()) for choice in question.choices]


def _reason_rules(reasons: Sequence[Reason], part: str, sample: CaseSpec) -> Iterator[Rule]:
    yield len(reasons) > MAX_CHOICES, part, _("Offer at most %(n)s reasons.") % {"n": MAX_CHOICES}
    codes = Counter(reason.code for reason in reasons)
    for number, reason in enumerate(reasons, 1):
        field = f"{part}.{number}"
        yield from _code_rules(reason.code, codes, field, _("Another reason of this list has this value."))
        yield from _label_rules(reason.label, field, _("Enter the wording."))
        yield (
            part == "reasons" and reason.reducible and not can_be_revised(sample.form),
            field,
            _("Samples of this benchmark cannot be revised. Every rejection discards them."),
        )


def _level_rules(levels: Sequence[Level], default: Sequence[Level]) -> Iterator[Rule]:
    yield (
        _codes(levels) != _codes(default),
        "levels",
        _("The levels and their order cannot change: rates are weighted by them. Change their wording."),
    )
    for number, level in enumerate(levels, 1):
        yield from _label_rules(level.label, f"levels.{number}", _("Enter the wording."))
        yield _at_most(level.about, MAX_TEXT, f"levels.{number}")


def _codes(levels: Sequence[Level]) -> list[str]:
    return [level.value for level in levels]


def _policy_rules(design: Design, sample: CaseSpec) -> Iterator[Rule]:
    for name in design.policy:
        yield name not in SETTINGS, f"policy.{name}", _("There is no such setting.")
    yield _at_most(design.severity_asks, MAX_LABEL, "severity_asks")
    share, hours = design.share or 0, design.objection_hours or 0
    yield not 0 <= share <= 100, "share", _("Enter a whole number from 0 to 100, or leave it empty.")
    sentence = _("Enter a whole number from 0 to %(n)s, or leave it empty.") % {"n": MAX_HOURS}
    yield not 0 <= hours <= MAX_HOURS, "objection_hours", sentence
    if design.policy.get("reveal_first_look", sample.policy.reveal_first_look):
        asked = any(question.first_look and not question.stages for question in design.questions)
        field = "policy.reveal_first_look"
        yield not sample.first_look, field, _("The cases of this benchmark have no text for a first look.")
        sentence = _("Ask at least one question in the first look, or turn the first look off.")
        yield sample.first_look and not asked, field, sentence
