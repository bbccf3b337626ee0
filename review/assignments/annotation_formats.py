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
from review.rules.text import is_storable

LABEL_STUDIO, ARGILLA = TOOLS = "label-studio", "argilla"
MAX_BYTES = 2**24
HOW_TO_EXPORT = "export records.to_list(flatten=True) as JSON"
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
    levels = tuple((level.value, level.label) for level in form.severities)
    for rubric in form.rubrics:
        yield task(
            f"rubric.{rubric.key}",
            f"Is this criterion adequate? {rubric.criterion}",
            ((value, value) for value in form.findings),
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
    labels: dict[str, None] = {}
    for task in listed:
        labels |= dict.fromkeys(value for value, _label in task.choices)
    yield "settings.json", json.dumps(_argilla_settings(labels), ensure_ascii=False, indent=1)


def _argilla_settings(labels: Iterable[str]) -> dict[str, Any]:
    """What `argilla.Settings.from_json` reads, of a dataset for the records."""
    options = [{"text": label, "value": label} for label in labels]
    choose = {"type": "multi_label_selection", "options": options, "visible_options": None, "options_order": "natural"}
    answered: dict[str, dict[str, Any]] = {"answer": choose, "note": {"type": "text", "use_markdown": False}}
    kept: dict[str, dict[str, Any]] = {
        "case": {"type": "integer", "min": None, "max": None},
        "field": {"type": "terms", "values": None},
    }

    def named(name: str, settings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return {"name": name, "title": name, "settings": settings, **more}

    plain = {"type": "text", "use_markdown": False}
    return {
        "fields": [named(name, plain, required=True) for name in ("title", "text", "question", "choices")],
        "questions": [named(name, settings, required=False) for name, settings in answered.items()],
        "metadata": [
            named(name, {**settings, "visible_for_annotators": True}, visible_for_annotators=True)
            for name, settings in kept.items()
        ],
        "vectors": [],
        "allow_extra_metadata": False,
        "distribution": {"strategy": "overlap", "min_submitted": 1},
    }


def annotations(tool: str, content: bytes) -> Iterator[Annotation | RefusedAnnotation]:
    """The annotations in a tool's JSON export. Raises WrongExport."""
    if len(content) > MAX_BYTES:
        raise WrongExport(f"longer than {MAX_BYTES >> 20} MB")
    rows = _entries(content)
    if not isinstance(rows, list):
        raise WrongExport("not a list of tasks or records")
    if tool == LABEL_STUDIO:
        rows = _whole_tasks(rows)
    read = _argilla
    if tool == LABEL_STUDIO:
        read = _label_studio
    for number, row in enumerate(rows, 1):
        where = f"entry {number}"
        try:
            yield from _checked(where, read(row))
        except _NotAnswered as reason:
            yield RefusedAnnotation(where, str(reason))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            yield RefusedAnnotation(where, "not a task of ours with its annotations")


class _NotAnswered(Exception):
    """Why the annotations of an entry are not anybody's answers."""


def _entries(content: bytes) -> Any:
    """The tasks or records: a list, lines, or columns of a data set. Raises WrongExport."""
    try:
        text = content.decode("utf-8-sig")
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) > 1 and lines[0].startswith("{") and lines[0].rstrip().endswith("}"):
            return [json.loads(line) for line in lines]
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongExport("not JSON") from error
    columns = []
    if isinstance(rows, dict):
        columns = list(rows.values())
    if columns and all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        return [dict(zip(rows, cells, strict=True)) for cells in zip(*columns, strict=True)]
    return rows


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


def _whole_tasks(rows: list[Any]) -> list[Any]:
    """Tasks as "JSON" has them, also of "JSON-MIN", which has an entry for each annotation."""
    tasks: list[Any] = []
    by_number: dict[Any, dict[str, Any]] = {}
    for row in rows:
        if not isinstance(row, dict) or "annotation_id" not in row:
            tasks.append(row)
            continue
        number = json.dumps(row.get("id"))
        if number not in by_number:
            by_number[number] = {"data": row, "annotations": []}
            tasks.append(by_number[number])
        results = [
            {"type": "choices", "value": {"choices": _as_list(row.get("answer") or [], "choices")}},
            {"type": "textarea", "value": {"text": _as_list(row.get("note") or [], "text")}},
        ]
        about = {name: row.get(name) for name in ("created_at", "updated_at")}
        by_number[number]["annotations"].append(
            {"id": row["annotation_id"], "completed_by": row.get("annotator"), "result": results, **about}
        )
    return tasks


def _as_list(value: Any, name: str) -> list[Any]:
    """One value, a list of them, or an object that has several under a name."""
    values = value
    if isinstance(value, dict):
        values = value.get(name)
    if isinstance(values, list):
        return values
    return [values]


def _label_studio(row: Mapping[str, Any]) -> Iterator[Read]:
    """The last answer of each annotator to a task; what they cancelled is none."""
    about = row["data"]
    aliases = {choice["value"]: choice["alias"] for choice in about.get("choices", ())}
    latest: dict[str, Mapping[str, Any]] = {}
    for annotation in sorted(row["annotations"], key=_moment):
        annotator = annotation["completed_by"]
        if isinstance(annotator, dict):
            annotator = annotator["email"]
        latest[str(annotator)] = annotation
    for annotator, annotation in latest.items():
        if annotation.get("was_cancelled"):
            continue
        values: list[str] = []
        notes: list[str] = []
        for result in annotation["result"]:
            if result["type"] == "choices":
                values += [aliases.get(choice, choice) for choice in result["value"]["choices"]]
            elif result["type"] == "textarea":
                notes += result["value"]["text"]
        yield about["case"], about["field"], annotator, values, notes


def _moment(annotation: Mapping[str, Any]) -> tuple[str, int]:
    """When an annotation was changed last: ISO 8601, so texts are in order; then by its number."""
    number = annotation.get("id")
    at = annotation.get("updated_at") or annotation.get("created_at") or ""
    return str(at), number if isinstance(number, int) else 0


SUBMITTED = "submitted"
ANSWERS, USERS, STATUS = ".responses", ".responses.users", ".responses.status"


def _argilla(row: Mapping[str, Any]) -> Iterator[Read]:
    """The submitted responses of each user to a record, flattened or not.

    Only the flattened form (`to_list(flatten=True)`, `to_datasets`) has the status of a response;
    the plain one (`to_json`) has that of the record, which is completed by one user's submission.
    """
    is_flat = not isinstance(row.get("responses"), dict)
    if is_flat:
        about = row
    else:
        about = row["metadata"]
    case, field = about["case"], about["field"]
    answers: dict[str, tuple[list[str], list[str]]] = {}
    for name, user, value in _flat_responses(row) if is_flat else _plain_responses(row):
        values, notes = answers.setdefault(user, ([], []))
        (values if name == "answer" else notes).extend([value] if isinstance(value, str) else value)
    for annotator, (values, notes) in answers.items():
        yield case, field, annotator, values, notes


def _flat_responses(row: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """(question, user, value) of each submitted response."""
    for name in ("answer", "note"):
        columns = [row.get(name + suffix) or [] for suffix in (ANSWERS, USERS, STATUS)]
        for value, user, status in zip(*columns, strict=True):
            if status == SUBMITTED:
                yield name, str(user), value


def _plain_responses(row: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The same of a record that has been completed by the one user who responded."""
    responses = []
    for name, of_question in row["responses"].items():
        responses += [(name, response) for response in of_question]
    users = {str(response["user_id"]) for _name, response in responses}
    if users and row.get("status") != "completed":
        raise _NotAnswered("its status is not completed, so its responses may be drafts or discarded")
    if len(users) > 1:
        raise _NotAnswered(f"{len(users)} users responded, and this form does not say who submitted: {HOW_TO_EXPORT}")
    for name, response in responses:
        yield name, str(response["user_id"]), response["value"]
