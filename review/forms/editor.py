"""The editor of a review form: a posted page read as a design, what its buttons do, and the rows that it shows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.http import QueryDict
from django.utils.translation import get_language

from review.forms import lists
from review.forms.check import MOST_CHOICES, MOST_QUESTIONS, STAGES
from review.forms.design import SETTINGS, Design, FormFault
from review.forms.wording import TypedTexts, Worded, worded
from review.labels import translate
from review.rules.citations import KINDS
from review.rules.questions import Choice, Question
from review.rules.state_machine import Policy

WRONG = -1  # what is no number
EFFECTS: Mapping[str, tuple[str, ...]] = {
    "": (),
    "blocks": ("blocks",),
    "ends": ("blocks", "ends"),
    "inadequate": ("blocks", "inadequate"),
}


def design_from_post(data: QueryDict) -> Design:
    """What was typed, right or wrong, with the change that the pressed button (`do`) asks for."""
    typed = TypedTexts(data)
    text, worded = typed.text, typed.worded
    questions = []
    for number in _numbers(data, r"q\.(\d+)\.key"):
        name = f"q.{number}"
        key = text(f"{name}.key")
        choices = []
        for place in _numbers(data, rf"q\.{number}\.c\.(\d+)\.value"):
            at = f"{name}.c.{place}"
            value = text(f"{at}.value")
            effects = EFFECTS.get(text(f"{at}.effect"), ())
            choices.append(
                Choice(
                    value,
                    worded(f"{at}.label", f"{key}.choice.{value}"),
                    blocks="blocks" in effects,
                    inadequate="inadequate" in effects,
                    ends="ends" in effects,
                    evidence=f"{at}.evidence" in data,
                    evidence_kinds=tuple(each for each in data.getlist(f"{at}.kinds") if each in KINDS),
                )
            )
        stages = tuple(stage.value for stage in STAGES if stage in data.getlist(f"{name}.stages"))
        questions.append(
            Question(
                key,
                worded(f"{name}.label", f"{key}.label"),
                worded(f"{name}.help", f"{key}.help"),
                tuple(choices),
                first_look=f"{name}.first_look" in data,
                asks=worded(f"{name}.asks", f"{key}.asks"),
                kind=text(f"{name}.kind"),
                required=f"{name}.required" in data,
                compared=f"{name}.compared" in data,
                when=text(f"{name}.when"),
                stages=() if len(stages) == len(STAGES) else stages,
                per=text(f"{name}.per"),
            )
        )
    policy = {name: text(f"policy.{name}") == "on" for name in SETTINGS if text(f"policy.{name}") in ("on", "off")}
    share, hours = (_whole(text(name)) for name in ("share", "objection_hours"))
    design = Design(tuple(questions), policy, share, hours, typed.words, **lists.lists_from_post(typed))
    return lists.changed(_changed(design, text("do")), text("do"))


def _whole(typed: str) -> int | None:
    """A whole number of at most four digits; None: nothing was typed."""
    if not typed:
        return None
    return int(typed) if typed.isascii() and typed.isdecimal() and len(typed) < 5 else WRONG


def _numbers(data: QueryDict, pattern: str) -> list[int]:
    """The numbers of the rows posted, in order."""
    found = (re.fullmatch(pattern, name) for name in data)
    return sorted({int(match[1]) for match in found if match and len(match[1]) < 4})


def _changed(design: Design, do: str) -> Design:
    """The design after a button: add a question or a choice, remove one, move a question."""
    what, *numbers = do.split(".")
    if not all(each.isdecimal() and len(each) < 4 for each in numbers):
        return design
    places = [int(each) - 1 for each in numbers]
    rows = list(design.questions)
    if what in ("add-choices", "add-text") and not places and len(rows) < MOST_QUESTIONS:
        rows.append(_blank(rows, "text" if what == "add-text" else "choice"))
    elif places and 0 <= places[0] < len(rows):
        _change_row(rows, what, places)
    return replace(design, questions=tuple(rows))


def opened_row(design: Design, do: str) -> int:
    """The number of the question that a button has changed; 0: none."""
    what, *numbers = do.split(".")
    if what in ("add-choices", "add-text"):
        return len(design.questions)
    at = int(numbers[0]) if numbers and numbers[0].isdecimal() and len(numbers[0]) < 4 else 0
    return {"up": at - 1, "down": at + 1, "add-choice": at, "remove-choice": at}.get(what, 0)


def _change_row(rows: list[Question], what: str, places: Sequence[int]) -> None:
    at = places[0]
    choices = list(rows[at].choices)
    if what == "remove":
        del rows[at]
    elif what == "up" and at:
        rows[at - 1], rows[at] = rows[at], rows[at - 1]
    elif what == "down" and at + 1 < len(rows):
        rows[at + 1], rows[at] = rows[at], rows[at + 1]
    elif what == "add-choice" and len(choices) < MOST_CHOICES:
        rows[at] = replace(rows[at], choices=(*choices, Choice(_free(choices), "")))
    elif what == "remove-choice" and len(places) == 2 and 0 <= places[1] < len(choices):
        del choices[places[1]]
        rows[at] = replace(rows[at], choices=tuple(choices))


def _blank(rows: Sequence[Question], kind: str) -> Question:
    taken = {question.key for question in rows}
    key = next(name for number in range(1, MOST_QUESTIONS + 2) if (name := f"question-{number}") not in taken)
    choices = (Choice("yes", "Yes"), Choice("no", "No")) if kind == "choice" else ()
    return Question(key, "", "", choices, kind=kind)


def _free(choices: Sequence[Choice]) -> str:
    taken = {choice.value for choice in choices}
    return next(name for number in range(1, MOST_CHOICES + 2) if (name := str(number)) not in taken)


@dataclass(frozen=True, slots=True)
class ChoiceFields:
    """The fields of one choice."""

    number: int
    name: str
    id: str
    choice: Choice
    label: Worded
    effect: str
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuestionFields:
    """The fields of one question. locked: why it cannot be removed; empty: it can. conditions: (value, words) of `when`."""

    number: int
    name: str
    id: str
    question: Question
    texts: tuple[tuple[str, Worded], ...]
    choices: tuple[ChoiceFields, ...]
    conditions: tuple[tuple[str, str], ...]
    locked: str
    errors: tuple[str, ...]
    first: bool
    last: bool
    title: str = ""  # its name in the reader's language

    @property
    def faulty(self) -> bool:
        return bool(self.errors) or any(choice.errors for choice in self.choices)


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting of the policy. value: 'on', 'off' or empty, as the benchmark says; `default`: what that is in its sample."""

    name: str
    value: str
    default: bool
    error: str


def question_fields(
    design: Design, locked: Mapping[str, str], faults: Sequence[FormFault] = ()
) -> tuple[QuestionFields, ...]:
    """The rows of the editor, each problem in its row."""
    wrong: dict[str, list[str]] = {}
    for fault in faults:
        wrong.setdefault(fault.field, []).append(fault.sentence)
    rows = []
    for number, question in enumerate(design.questions, 1):
        name, id_, where = f"q.{number}", f"q-{number}", f"question.{number}"
        choices = tuple(
            _choice_fields(design, question, place, f"{name}.c.{place}", wrong, f"{where}.choice.{place}")
            for place in range(1, len(question.choices) + 1)
        )
        own = [text for field, texts in wrong.items() if _is_of_row(field, where) for text in texts]
        texts = tuple(
            (part, worded(design.wordings, f"{name}.{part}", f"{question.key}.{part}", getattr(question, part)))
            for part in ("label", "asks", "help")
        )
        conditions = _conditions(design, design.questions[: number - 1], question.when)
        why = translate(locked.get(question.key, ""))
        rows.append(
            QuestionFields(
                number,
                name,
                id_,
                question,
                texts,
                choices,
                conditions,
                why,
                tuple(own),
                number == 1,
                number == len(design.questions),
                title(design, question),
            )
        )
    return tuple(rows)


def title(design: Design, question: Question) -> str:
    """The name of a question in the reader's language, as far as it has one."""
    worded = design.wordings.get(get_language() or "", {}).get(f"{question.key}.label")
    return worded or translate(question.label) or question.key


def _is_of_row(field: str, where: str) -> bool:
    return field.startswith(f"{where}.") and not field.startswith(f"{where}.choice.")


def _choice_fields(
    design: Design, question: Question, place: int, name: str, wrong: Mapping[str, list[str]], where: str
) -> ChoiceFields:
    choice = question.choices[place - 1]
    effect = next((name for name in ("inadequate", "ends", "blocks") if getattr(choice, name)), "")
    label = worded(design.wordings, f"{name}.label", f"{question.key}.choice.{choice.value}", choice.label)
    errors = tuple(text for field, texts in wrong.items() if field.startswith(f"{where}.") for text in texts)
    return ChoiceFields(place, name, name.replace(".", "-"), choice, label, effect, errors)


def _choice_title(design: Design, question: Question, choice: Choice) -> str:
    worded = design.wordings.get(get_language() or "", {}).get(f"{question.key}.choice.{choice.value}")
    return worded or translate(choice.label) or choice.value


def _conditions(design: Design, earlier: Sequence[Question], chosen: str) -> tuple[tuple[str, str], ...]:
    """What a question can depend on: each answer to each earlier question, and what is chosen, even if it is gone."""
    found = {
        f"{each.key}={choice.value}": f"{title(design, each)}: {_choice_title(design, each, choice)}"
        for each in earlier
        for choice in each.choices
    }
    return tuple({**found, **({chosen: found.get(chosen, chosen)} if chosen else {})}.items())


def setting_fields(design: Design, policy: Policy, faults: Sequence[FormFault] = ()) -> tuple[SettingField, ...]:
    """The settings of the policy. `policy`: the one of the benchmark's folder."""
    wrong = {fault.field: fault.sentence for fault in faults}
    chosen = {True: "on", False: "off"}
    return tuple(
        SettingField(
            name,
            chosen[design.policy[name]] if name in design.policy else "",
            bool(getattr(policy, name)),
            wrong.get(f"policy.{name}", ""),
        )
        for name in SETTINGS
    )
