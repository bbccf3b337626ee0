"""Cases as tasks for Label Studio and Argilla, and the annotations that come back. Plain values.

Each question, rubric and verdict of a case is one task, because forms differ from case to case and
both tools have one configuration for all tasks.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from review.rules import limits
from review.rules.blocks import Block
from review.rules.case_spec import CaseSpec
from review.rules.questions import RUBRIC_VALUES
from review.rules.text import is_storable

LABEL_STUDIO, ARGILLA = TOOLS = "label-studio", "argilla"
MAX_BYTES = 2**24
CONFIG = """<View>
  <Header value="$title"/>
  <Text name="text" value="$text"/>
  <Header value="$question"/>
  <Choices name="answer" toName="text" value="$choices" choice="multiple"/>
  <TextArea name="note" toName="text" placeholder="Note, wording or reason"/>
</View>
"""


@dataclass(frozen=True, slots=True)
class Task:
    """One question about a case. `field` names it as in `review.rules.questions.Problem`."""

    case: int
    field: str
    title: str
    text: str
    question: str
    choices: tuple[tuple[str, str], ...]  # value, label


@dataclass(frozen=True, slots=True)
class Annotation:
    """What one annotator answered to one task, and its place in the file."""

    where: str
    case: int
    field: str
    annotator: str
    values: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True)
class RefusedAnnotation:
    """An annotation that was not imported, and the reason."""

    where: str
    reason: str


class WrongExport(ValueError):
    """The file is not an export of the tool."""


def tasks(case: int, spec: CaseSpec) -> Iterator[Task]:
    """The tasks of one case, with what a physician sees of it as text."""
    form, text = spec.form, "\n\n".join(filter(None, map(_as_text, spec.blocks)))

    def task(field: str, question: str, choices: Iterable[tuple[str, str]]) -> Task:
        return Task(case, field, spec.title, text, question, tuple(choices))

    for question in form.questions:
        asked = " – ".join(filter(None, (question.label, question.asks or question.help)))
        yield task(f"question.{question.key}", asked, ((choice.value, choice.label) for choice in question.choices))
    values = RUBRIC_VALUES if form.rubrics_editable else RUBRIC_VALUES[:-1]
    levels = tuple((level.value, level.label) for level in form.severities)
    for rubric in form.rubrics:
        yield task(
            f"rubric.{rubric.key}",
            f"Is this criterion adequate? {rubric.criterion}",
            ((value, value) for value in values),
        )
        if levels:
            yield task(f"rubric.{rubric.key}.severity", form.severity_asks or f"Harm: {rubric.criterion}", levels)
    if form.asks_verdict:
        yield task("verdict", "Is the case approved? If not, note why.", (("approve", "Approve"), ("reject", "Reject")))
        if form.reasons:
            yield task("reason_code", "Why is it rejected?", ((reason.code, reason.label) for reason in form.reasons))


def _as_text(block: Block) -> str:
    match block.kind:
        case "text":
            body = block.text
        case "dialogue":
            body = "\n".join(f"{turn.speaker}: {turn.text}" for turn in block.turns)
        case "diff":
            body = "\n".join(f"{turn.speaker}: {turn.text}" for turn in block.after)
        case "table":
            body = "\n".join(" | ".join(row) for row in (block.columns, *block.rows))
        case _:
            return ""  # pictures and charts stay here
    return f"{block.title}\n{body}"


def files(tool: str, all_tasks: Iterable[Task]) -> Iterator[tuple[str, str]]:
    """The name and the text of each file for the tool."""
    listed = list(all_tasks)
    rows: list[dict[str, Any]] = []
    for task in listed:
        about = {"case": task.case, "field": task.field}
        shown = {"title": task.title, "text": task.text, "question": task.question}
        if tool == LABEL_STUDIO:
            choices = [{"value": label, "alias": value} for value, label in task.choices]
            rows.append({"data": {**about, **shown, "choices": choices}})
        else:
            shown["choices"] = "\n".join(f"{value}: {label}" for value, label in task.choices)
            rows.append({"id": f"{task.case} {task.field}", "fields": shown, "metadata": about})
    yield ("tasks.json" if tool == LABEL_STUDIO else "records.json"), json.dumps(rows, ensure_ascii=False, indent=1)
    if tool == LABEL_STUDIO:
        yield "config.xml", CONFIG
        return
    labels = list(dict.fromkeys(value for task in listed for value, _label in task.choices))
    settings = {
        "fields": [{"name": name, "type": "text"} for name in ("title", "text", "question", "choices")],
        "questions": [
            {"name": "answer", "type": "multi_label_selection", "labels": labels, "required": False},
            {"name": "note", "type": "text", "required": False},
        ],
        "metadata": [{"name": "case", "type": "integer"}, {"name": "field", "type": "terms"}],
    }
    yield "settings.json", json.dumps(settings, ensure_ascii=False, indent=1)


def annotations(tool: str, content: bytes) -> Iterator[Annotation | RefusedAnnotation]:
    """The annotations in a tool's JSON export. Raises WrongExport."""
    if len(content) > MAX_BYTES:
        raise WrongExport(f"longer than {MAX_BYTES >> 20} MB")
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise WrongExport("not JSON") from error
    if not isinstance(rows, list):
        raise WrongExport("not a list of tasks or records")
    read = _label_studio if tool == LABEL_STUDIO else _argilla
    for number, row in enumerate(rows, 1):
        where = f"entry {number}"
        try:
            yield from _checked(where, read(row))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            yield RefusedAnnotation(where, "not a task of ours with its annotations")


Read = tuple[int, str, str, list[str], list[str]]  # case, field, annotator, values, notes


def _checked(where: str, found: Iterable[Read]) -> Iterator[Annotation | RefusedAnnotation]:
    for case, field, annotator, values, notes in found:
        note = "\n".join(notes)
        texts = [field, annotator, *values]
        if type(case) is not int or not all(isinstance(text, str) and len(text) <= 1000 for text in texts):
            yield RefusedAnnotation(where, "not a task of ours with its annotations")
        elif len(note) > limits.TEXT or not is_storable([*texts, note]):
            yield RefusedAnnotation(where, "its note is too long, or cannot be stored")
        else:
            yield Annotation(where, case, field, annotator, tuple(values), note)


def _label_studio(row: Mapping[str, Any]) -> Iterator[Read]:
    about = row["data"]
    aliases = {choice["value"]: choice["alias"] for choice in about.get("choices", ())}
    for annotation in row["annotations"]:
        if annotation.get("was_cancelled"):
            continue
        by = annotation["completed_by"]
        values: list[str] = []
        notes: list[str] = []
        for result in annotation["result"]:
            if result["type"] == "choices":
                values += [aliases.get(choice, choice) for choice in result["value"]["choices"]]
            elif result["type"] == "textarea":
                notes += result["value"]["text"]
        yield about["case"], about["field"], str(by["email"] if isinstance(by, dict) else by), values, notes


def _argilla(row: Mapping[str, Any]) -> Iterator[Read]:
    about = row["metadata"]
    answers: dict[str, tuple[list[str], list[str]]] = {}
    for name, responses in row["responses"].items():
        for response in responses:
            if response.get("status") in ("discarded", "draft"):
                continue
            values, notes = answers.setdefault(str(response["user_id"]), ([], []))
            value = response["value"]
            (values if name == "answer" else notes).extend([value] if isinstance(value, str) else value)
    for annotator, (values, notes) in answers.items():
        yield about["case"], about["field"], annotator, values, notes
