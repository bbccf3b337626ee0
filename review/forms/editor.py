"""The editor of a review form: parsing its posts, its buttons, and its fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.http import QueryDict

from review.forms import lists
from review.forms.check import MAX_CHOICES, MAX_QUESTIONS, STAGES
from review.forms.design import SETTINGS, Design, FormFault
from review.forms.wording import PostedTexts, TranslatedText, in_own_language, posted_numbers, translated_text
from review.labels import translate
from review.rules.citations import KINDS
from review.rules.questions import Choice, Question
from review.rules.state_machine import Policy
from review.rules.text import whole_number

INVALID_NUMBER = -1
EFFECTS: Mapping[str, tuple[str, ...]] = {
    "": (),
    "blocks": ("blocks",),
    "ends": ("blocks", "ends"),
    "inadequate": ("blocks", "inadequate"),
}


def design_from_post(data: QueryDict) -> Design:
    """The posted design, valid or not, after applying the pressed button (`do`)."""
    posted = PostedTexts(data)
    text, translated = posted.text, posted.translated
    questions = []
    for number in posted_numbers(data, "q.", ".key"):
        name = f"q.{number}"
        key = text(f"{name}.key")
        choices = []
        for choice_number in posted_numbers(data, f"{name}.c.", ".value"):
            choice_name = f"{name}.c.{choice_number}"
            value = text(f"{choice_name}.value")
            effects = EFFECTS.get(text(f"{choice_name}.effect"), ())
            choices.append(
                Choice(
                    value,
                    translated(f"{choice_name}.label", f"{key}.choice.{value}"),
                    blocks="blocks" in effects,
                    inadequate="inadequate" in effects,
                    ends="ends" in effects,
                    evidence=f"{choice_name}.evidence" in data,
                    evidence_kinds=tuple(kind for kind in data.getlist(f"{choice_name}.kinds") if kind in KINDS),
                )
            )
        stages = tuple(stage.value for stage in STAGES if stage in data.getlist(f"{name}.stages"))
        questions.append(
            Question(
                key,
                translated(f"{name}.label", f"{key}.label"),
                translated(f"{name}.help", f"{key}.help"),
                tuple(choices),
                first_look=f"{name}.first_look" in data,
                asks=translated(f"{name}.asks", f"{key}.asks"),
                kind=text(f"{name}.kind"),
                required=f"{name}.required" in data,
                compared=f"{name}.compared" in data,
                when=text(f"{name}.when"),
                stages=() if len(stages) == len(STAGES) else stages,
                per=text(f"{name}.per"),
                shows=tuple(data.getlist(f"{name}.shows")),
            )
        )
    policy = {name: text(f"policy.{name}") == "on" for name in SETTINGS if text(f"policy.{name}") in ("on", "off")}
    share, hours = (_whole_number(text(name)) for name in ("share", "objection_hours"))
    design = Design(tuple(questions), policy, share, hours, posted.wordings, **lists.lists_from_post(posted))
    return lists.apply_button(_apply_button(design, text("do")), text("do"))


def _whole_number(text: str) -> int | None:
    """A whole number of at most four digits; None for an empty field."""
    number = whole_number(text, 4)
    return INVALID_NUMBER if text and number is None else number


def _apply_button(design: Design, do: str) -> Design:
    """The design after a button was pressed.

    Buttons add or remove a question or choice, or move a question.
    """
    action, *numbers = do.split(".")
    indexes = [(whole_number(number, 3) or 0) - 1 for number in numbers]
    rows = list(design.questions)
    if action in ("add-choices", "add-text") and not indexes and len(rows) < MAX_QUESTIONS:
        rows.append(_new_question(rows, "text" if action == "add-text" else "choice"))
    elif indexes and 0 <= indexes[0] < len(rows):
        _change_row(rows, action, indexes)
    return replace(design, questions=tuple(rows))


def opened_row(design: Design, do: str) -> int:
    """The number of the question that a button has changed; 0 if none."""
    action, *numbers = do.split(".")
    if action in ("add-choices", "add-text"):
        return len(design.questions)
    number = whole_number(numbers[0], 3) or 0 if numbers else 0
    return {"up": number - 1, "down": number + 1, "add-choice": number, "remove-choice": number}.get(action, 0)


def _change_row(rows: list[Question], action: str, indexes: Sequence[int]) -> None:
    index = indexes[0]
    choices = list(rows[index].choices)
    if action in lists.MOVES:
        lists.move(rows, action, index)
    elif action == "add-choice" and len(choices) < MAX_CHOICES:
        value = lists.free_name("", [choice.value for choice in choices])
        rows[index] = replace(rows[index], choices=(*choices, Choice(value, "")))
    elif action == "remove-choice" and len(indexes) == 2 and 0 <= indexes[1] < len(choices):
        del choices[indexes[1]]
        rows[index] = replace(rows[index], choices=tuple(choices))


def _new_question(rows: Sequence[Question], kind: str) -> Question:
    choices = (Choice("yes", "Yes"), Choice("no", "No")) if kind == "choice" else ()
    return Question(lists.free_name("question-", [row.key for row in rows]), "", "", choices, kind=kind)


@dataclass(frozen=True, slots=True)
class ChoiceFields:
    """The fields of one choice."""

    number: int
    name: str
    id: str
    choice: Choice
    label: TranslatedText
    effect: str
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuestionFields:
    """The fields of one question.

    conditions: the options for `when`, as (value, label).
    locked: why the question cannot be removed; empty: it can.
    """

    number: int
    name: str
    id: str
    question: Question
    texts: tuple[tuple[str, TranslatedText], ...]
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
    """One setting of the policy.

    value: 'on', 'off', or empty for the benchmark's default.
    default: the value in the benchmark's sample case.
    """

    name: str
    value: str
    default: bool
    error: str


def question_fields(
    design: Design, locked: Mapping[str, str], faults: Sequence[FormFault] = ()
) -> tuple[QuestionFields, ...]:
    """The fields of all questions, each fault at its row."""
    errors: dict[str, list[str]] = {}
    for fault in faults:
        errors.setdefault(fault.field, []).append(fault.sentence)
    rows = []
    for number, question in enumerate(design.questions, 1):
        name, id_, prefix = f"q.{number}", f"q-{number}", f"question.{number}"
        choices = tuple(
            _choice_fields(
                design,
                question,
                choice_number,
                f"{name}.c.{choice_number}",
                errors,
                f"{prefix}.choice.{choice_number}",
            )
            for choice_number in range(1, len(question.choices) + 1)
        )
        row_errors = [text for field, texts in errors.items() if _is_of_row(field, prefix) for text in texts]
        texts = tuple(
            (
                part,
                translated_text(design.wordings, f"{name}.{part}", f"{question.key}.{part}", getattr(question, part)),
            )
            for part in ("label", "asks", "help")
        )
        conditions = _conditions(design, design.questions[: number - 1], question.when)
        lock_reason = translate(locked.get(question.key, ""))
        rows.append(
            QuestionFields(
                number,
                name,
                id_,
                question,
                texts,
                choices,
                conditions,
                lock_reason,
                tuple(row_errors),
                number == 1,
                number == len(design.questions),
                title(design, question),
            )
        )
    return tuple(rows)


def title(design: Design, question: Question) -> str:
    """The name of a question in the reader's language; its key if it has no label."""
    return in_own_language(design.wordings, f"{question.key}.label", question.label) or question.key


def _is_of_row(field: str, row: str) -> bool:
    return field.startswith(f"{row}.") and not field.startswith(f"{row}.choice.")


def _choice_fields(
    design: Design, question: Question, number: int, name: str, faults: Mapping[str, list[str]], field_prefix: str
) -> ChoiceFields:
    choice = question.choices[number - 1]
    effect = next((name for name in ("inadequate", "ends", "blocks") if getattr(choice, name)), "")
    label = translated_text(design.wordings, f"{name}.label", f"{question.key}.choice.{choice.value}", choice.label)
    errors = tuple(text for field, texts in faults.items() if field.startswith(f"{field_prefix}.") for text in texts)
    return ChoiceFields(number, name, name.replace(".", "-"), choice, label, effect, errors)


def _choice_title(design: Design, question: Question, choice: Choice) -> str:
    key = f"{question.key}.choice.{choice.value}"
    return in_own_language(design.wordings, key, choice.label) or choice.value


def _conditions(design: Design, earlier: Sequence[Question], chosen: str) -> tuple[tuple[str, str], ...]:
    """The conditions that a question can have: all choices of earlier questions.

    Includes the current condition (`chosen`) even if its choice no longer exists.
    """
    conditions = {
        f"{question.key}={choice.value}": f"{title(design, question)}: {_choice_title(design, question, choice)}"
        for question in earlier
        for choice in question.choices
    }
    return tuple({**conditions, **({chosen: conditions.get(chosen, chosen)} if chosen else {})}.items())


def setting_fields(design: Design, policy: Policy, faults: Sequence[FormFault] = ()) -> tuple[SettingField, ...]:
    """The settings of the policy; `policy` is that of the benchmark's folder."""
    errors = {fault.field: fault.sentence for fault in faults}
    values = {True: "on", False: "off"}
    return tuple(
        SettingField(
            name,
            values[design.policy[name]] if name in design.policy else "",
            bool(getattr(policy, name)),
            errors.get(f"policy.{name}", ""),
        )
        for name in SETTINGS
    )
