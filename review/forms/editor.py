"""The editor of a review form: parsing its posts, its buttons, and its fields."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict
from django.utils.translation import get_language

from review.forms.check import MAX_CHOICES, MAX_QUESTIONS, STAGES
from review.forms.design import OTHER_LANGUAGES, SETTINGS, Design, FormFault
from review.labels import translate
from review.rules.citations import KINDS
from review.rules.questions import Choice, Level, Question, Reason
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
    wordings: dict[str, dict[str, str]] = {code: {} for code in OTHER_LANGUAGES}

    def text(name: str) -> str:
        return data.get(name, "").replace("\r\n", "\n").replace("\0", "").strip()

    def translated(name: str, key: str) -> str:
        """The English text of a field; its texts in other languages are collected under `key`."""
        for code in OTHER_LANGUAGES:
            if other := text(f"{name}.{code}"):
                wordings[code][key] = other
        return text(name)

    def whole(name: str) -> int | None:
        number = whole_number(text(name), 4)
        if text(name) and number is None:
            return INVALID_NUMBER
        return number

    def choice(name: str, question: str) -> Choice:
        value, effects = text(f"{name}.value"), EFFECTS.get(text(f"{name}.effect"), ())
        return Choice(
            value,
            translated(f"{name}.label", f"{question}.choice.{value}"),
            blocks="blocks" in effects,
            inadequate="inadequate" in effects,
            ends="ends" in effects,
            evidence=f"{name}.evidence" in data,
            evidence_kinds=tuple(kind for kind in data.getlist(f"{name}.kinds") if kind in KINDS),
        )

    def question(name: str) -> Question:
        key = text(f"{name}.key")
        stages = tuple(stage.value for stage in STAGES if stage in data.getlist(f"{name}.stages"))
        if len(stages) == len(STAGES):
            stages = ()
        return Question(
            key,
            translated(f"{name}.label", f"{key}.label"),
            translated(f"{name}.help", f"{key}.help"),
            tuple(choice(row, key) for row in _posted_rows(data, f"{name}.c", "value")),
            first_look=f"{name}.first_look" in data,
            asks=translated(f"{name}.asks", f"{key}.asks"),
            kind=text(f"{name}.kind"),
            required=f"{name}.required" in data,
            compared=f"{name}.compared" in data,
            when=text(f"{name}.when"),
            stages=stages,
            per=text(f"{name}.per"),
            shows=tuple(data.getlist(f"{name}.shows")),
        )

    def reasons(part: str) -> tuple[Reason, ...]:
        rows = []
        for name in _posted_rows(data, part, "code"):
            code = text(f"{name}.code")
            label = translated(f"{name}.label", f"{part}:{code}.label")
            rows.append(Reason(code, label, f"{name}.mendable" in data))
        return tuple(rows)

    def level(name: str) -> Level:
        code = text(f"{name}.code")
        label = translated(f"{name}.label", f"levels:{code}.label")
        return Level(code, label, translated(f"{name}.about", f"levels:{code}.about"))

    policy = {}
    for name in SETTINGS:
        state = text(f"policy.{name}")
        if state in ("on", "off"):
            policy[name] = state == "on"
    design = Design(
        questions=tuple(map(question, _posted_rows(data, "q", "key"))),
        policy=policy,
        share=whole("share"),
        objection_hours=whole("objection_hours"),
        wordings=wordings,
        reasons=reasons("reasons"),
        dissents=reasons("dissents"),
        levels=tuple(map(level, _posted_rows(data, "levels", "code"))),
        severity_asks=translated("severity_asks", "severity_asks"),
    )
    return apply_button(design, text("do"))


def _posted_rows(data: QueryDict, part: str, field: str) -> list[str]:
    """The names of the posted rows of a list, such as `q.3`: those that have this field."""
    pattern = re.compile(rf"{re.escape(part)}\.([0-9]{{1,3}})\.{field}")
    numbers = set()
    for name in data:
        if match := pattern.fullmatch(name):
            numbers.add(int(match[1]))
    return [f"{part}.{number}" for number in sorted(numbers)]


_BUTTON = re.compile(
    r"(add|add-text|add-choice|remove|remove-choice|up|down)\.(questions|reasons|dissents)((?:\.[0-9]{1,3}){0,2})"
)


def _pressed(do: str) -> tuple[str, str, list[int]]:
    """(action, list, indexes of row and choice) of a button; empty for any other text."""
    match = _BUTTON.fullmatch(do)
    if match:
        return (match[1], match[2], [int(number) - 1 for number in match[3].split(".")[1:]])
    return ("", "", [])


def apply_button(design: Design, do: str) -> Design:
    """The design after a button was pressed.

    Buttons add, remove or move a question or reason, or add or remove a choice of a question:
    `add.reasons`, `add-text.questions`, `up.questions.2`, `remove-choice.questions.2.1`.
    """
    action, part, indexes = _pressed(do)
    if not part:
        return design
    rows: list[Any] = list(getattr(design, part) or ())
    index, most = -1, MAX_CHOICES
    if indexes:
        index = indexes[0]
    if part == "questions":
        most = MAX_QUESTIONS
    other = index + {"up": -1, "down": 1}.get(action, 0)
    if action in ("add", "add-text") and len(rows) < most:
        rows.append(_new_row(rows, part, action))
    elif not 0 <= index < len(rows):
        return design
    elif action == "remove":
        del rows[index]
    elif action.endswith("-choice") and part == "questions":
        rows[index] = _with_choices(rows[index], action, indexes[1:])
    elif 0 <= other < len(rows):
        rows[index], rows[other] = rows[other], rows[index]
    changed: dict[str, Any] = {part: tuple(rows)}
    return replace(design, **changed)


def _new_row(rows: Sequence[Any], part: str, action: str) -> Question | Reason:
    if part != "questions":
        return Reason(_free_name("reason-", [reason.code for reason in rows]), "", reducible=False)
    key = _free_name("question-", [question.key for question in rows])
    if action == "add-text":
        return Question(key, "", "", (), kind="text")
    return Question(key, "", "", (Choice("yes", "Yes"), Choice("no", "No")), kind="choice")


def _with_choices(question: Question, action: str, indexes: Sequence[int]) -> Question:
    choices = list(question.choices)
    if action == "add-choice" and len(choices) < MAX_CHOICES:
        choices.append(Choice(_free_name("", [choice.value for choice in choices]), ""))
    elif action == "remove-choice" and indexes and 0 <= indexes[0] < len(choices):
        del choices[indexes[0]]
    return replace(question, choices=tuple(choices))


def _free_name(prefix: str, used: Collection[str]) -> str:
    number = 1
    while f"{prefix}{number}" in used:
        number += 1
    return f"{prefix}{number}"


def opened(design: Design, do: str) -> tuple[str, int]:
    """The list that a button has changed, and the number of the row to show unfolded; 0: none."""
    action, part, indexes = _pressed(do)
    if action in ("add", "add-text"):
        return part, len(getattr(design, part) or ())
    number = 0
    if indexes:
        number = indexes[0] + 1
    return part, {"up": number - 1, "down": number + 1, "remove": 0}.get(action, number)


@dataclass(frozen=True, slots=True)
class TranslatedText:
    """A text field in all languages: `others` are (language, field name, text)."""

    name: str
    text: str
    others: tuple[tuple[str, str, str], ...]

    @property
    def id(self) -> str:
        return self.name.replace(".", "-")


@dataclass(frozen=True, slots=True)
class EditedRow:
    """The fields of a question, a choice, a reason or a level, which is `value`.

    title: its wording in the reader's language.
    texts: the fields of its texts: label, asks, help, about.
    choices: of a question.
    conditions: the options for `when` of a question, as (value, label).
    locked: why a question cannot be removed; empty: it can.
    effect: of a choice, one of EFFECTS.
    """

    number: int
    name: str
    value: Question | Choice | Reason | Level
    title: str
    texts: Mapping[str, TranslatedText]
    errors: Sequence[str]
    choices: Sequence["EditedRow"] = ()
    conditions: Sequence[tuple[str, str]] = ()
    locked: str = ""
    effect: str = ""

    @property
    def id(self) -> str:
        return self.name.replace(".", "-")

    @property
    def faulty(self) -> bool:
        return bool(self.errors) or any(choice.errors for choice in self.choices)


class Editor:
    """The fields of a design, each fault at its row.

    locked: keys of questions that cannot be removed, and why.
    errors: the sentences of all faults by row, list or setting.
    """

    def __init__(self, design: Design, locked: Mapping[str, str], faults: Sequence[FormFault] = ()) -> None:
        self.design = design
        self.errors: Mapping[str, list[str]] = _errors_by_row(faults)
        self.questions = []
        for number, question in enumerate(design.questions, 1):
            reason = translate(locked.get(question.key, ""))
            self.questions.append(self._question(number, question, reason))
        self.reasons, self.dissents, self.levels = map(self._items, ("reasons", "dissents", "levels"))
        self.severity_asks = self._text("severity_asks", "severity_asks", design.severity_asks)

    @property
    def faulty_lists(self) -> frozenset[str]:
        """The lists with a fault, which the page shows unfolded."""
        names = {name.partition(".")[0] for name in self.errors}
        if "severity_asks" in names:
            names.add("levels")
        return frozenset(names - {"severity_asks"})

    def _text(self, name: str, key: str, text: str) -> TranslatedText:
        others = []
        for code in OTHER_LANGUAGES:
            others.append((code, f"{name}.{code}", self.design.wordings.get(code, {}).get(key, "")))
        return TranslatedText(name, text, tuple(others))

    def _row(self, number: int, name: str, value: Any, keys: Mapping[str, str], **more: Any) -> EditedRow:
        """`keys`: of its texts in `Form.wordings`, by part."""
        texts = {part: self._text(f"{name}.{part}", key, getattr(value, part)) for part, key in keys.items()}
        title = _in_own_language(self.design, keys["label"], value.label)
        return EditedRow(number, name, value, title, texts, self.errors.get(name, ()), **more)

    def _question(self, number: int, question: Question, locked: str) -> EditedRow:
        name, key = f"q.{number}", question.key
        choices = []
        for position, choice in enumerate(question.choices, 1):
            effect = ""
            for name_of_effect in ("blocks", "ends", "inadequate"):  # the last that it has says all
                if getattr(choice, name_of_effect):
                    effect = name_of_effect
            label_key = {"label": f"{key}.choice.{choice.value}"}
            choices.append(self._row(position, f"{name}.c.{position}", choice, label_key, effect=effect))
        keys = {part: f"{key}.{part}" for part in ("label", "asks", "help")}
        conditions = self._conditions(number, question.when)
        row = self._row(number, name, question, keys, choices=choices, conditions=conditions, locked=locked)
        return replace(row, title=row.title or key)

    def _conditions(self, number: int, chosen: str) -> list[tuple[str, str]]:
        """The conditions that a question can have: all choices of earlier questions.

        Includes the current condition (`chosen`) even if its choice no longer exists.
        """
        conditions = {}
        for question in self.design.questions[: number - 1]:
            for choice in question.choices:
                answer = _in_own_language(self.design, f"{question.key}.choice.{choice.value}", choice.label)
                label = f"{title(self.design, question)}: {answer or choice.value}"
                conditions[f"{question.key}={choice.value}"] = label
        if chosen:
            conditions.setdefault(chosen, chosen)
        return list(conditions.items())

    def _items(self, part: str) -> list[EditedRow]:
        """The rows of a list of reasons or levels."""
        texts = ["label"]
        if part == "levels":
            texts.append("about")
        items: Sequence[Reason | Level] = getattr(self.design, part) or ()
        rows = []
        for number, item in enumerate(items, 1):
            keys = {text: f"{part}:{_code(item)}.{text}" for text in texts}
            rows.append(self._row(number, f"{part}.{number}", item, keys))
        return rows


def _code(row: Reason | Level) -> str:
    if isinstance(row, Reason):
        return row.code
    return row.value


_ROW = re.compile(r"question\.\d+(\.choice\.\d+)?|(reasons|dissents|levels)\.\d+|policy\.\w+|\w+")


def _errors_by_row(faults: Sequence[FormFault]) -> dict[str, list[str]]:
    """The sentences of faults by the name of the row, list or setting at which they are shown."""
    errors: dict[str, list[str]] = defaultdict(list)
    for fault in faults:
        row = _ROW.match(fault.field)
        if row:
            name = row[0]
        else:
            name = fault.field
        errors[name.replace("question.", "q.").replace(".choice.", ".c.")].append(fault.sentence)
    return dict(errors)


def title(design: Design, question: Question) -> str:
    """The name of a question in the reader's language; its key if it has no label."""
    return _in_own_language(design, f"{question.key}.label", question.label) or question.key


def _in_own_language(design: Design, key: str, text: str) -> str:
    """A text of a form in the reader's language: as an admin has worded it, or translated."""
    return design.wordings.get(get_language() or "", {}).get(key) or translate(text)
