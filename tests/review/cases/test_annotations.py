"""Cases leave as tasks of other tools; annotations come back as drafts, never as reviews."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from review.assignments import annotation_formats, claims, services
from review.assignments.annotation_formats import Annotation
from review.models import Case, Draft, Event, PersonEvent, Review, User
from review.rules.case_spec import answers_from_json
from review.rules.questions import Answers
from tests.review.factories import FIRST_LOOK_POLICY, approval, claim_and_submit, open_case, rejection, turn_at

pytestmark = pytest.mark.django_db


def exported(folder: Path, tool: str) -> list[dict[str, Any]]:
    call_command("export_cases", "--format", tool, "--out", str(folder), verbosity=0)
    name = "tasks.json" if tool == "label-studio" else "records.json"
    rows: list[dict[str, Any]] = json.loads((folder / name).read_text(encoding="utf-8"))
    return rows


def value_for(answers: Answers, field: str) -> tuple[str, str]:
    """The value and the note that `answers` have for a task."""
    name, _dot, key = field.partition(".")
    if name == "question":
        return answers.questions[key].value, answers.questions[key].note
    if name == "rubric":
        return answers.rubrics[key].value, answers.rubrics[key].note
    return (answers.verdict, answers.reason) if name == "verdict" else ("", "")


def annotated(tool: str, row: dict[str, Any], answers: Answers, by: str) -> dict[str, Any]:
    """A task or record as the tool exports it after `by` has answered it."""
    about = row["data"] if tool == "label-studio" else row["metadata"]
    value, note = value_for(answers, about["field"])
    if tool == "argilla":
        responses = answered_by({}, "answer", [value], by)
        if note:
            answered_by(responses, "note", note, by)
        return {"id": row["id"], "status": "completed", **row["fields"], **about, **responses}
    label = next(choice["value"] for choice in about["choices"] if choice["alias"] == value)
    result = [{"from_name": "answer", "type": "choices", "value": {"choices": [label]}}]
    if note:
        result.append({"from_name": "note", "type": "textarea", "value": {"text": [note]}})
    thrown_away = {"completed_by": 7, "was_cancelled": True, "result": [{"type": "choices"}]}
    return {**row, "annotations": [thrown_away, {"completed_by": {"email": by}, "result": result}]}


def answered_by(
    record: dict[str, Any], question: str, value: Any, by: str, status: str = "submitted"
) -> dict[str, Any]:
    """The record with one more response, as Argilla writes it with `flatten=True`."""
    for suffix, cell in (("", value), (".users", by), (".status", status)):
        record.setdefault(f"{question}.responses{suffix}", []).append(cell)
    return record


def import_back(folder: Path, tool: str, rows: object, admin: User, *pairs: str) -> dict[str, Any]:
    path = folder / "export.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    options = [option for pair in pairs for option in ("--annotator", pair)]
    with (folder / "printed").open("w+") as out:
        call_command(
            "import_annotations", str(path), "--format", tool, "--by", admin.username, "--json", *options, stdout=out
        )
        out.seek(0)
        printed: dict[str, Any] = json.loads(out.read())
    return printed


@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
@pytest.mark.parametrize("answers", [approval(), rejection()], ids=["approve", "reject"])
def test_annotations_become_the_draft_of_the_physician(
    tmp_path: Path, ana: User, adela: User, tool: str, answers: Answers
) -> None:
    case = open_case()
    rows = [annotated(tool, row, answers, "ana@elsewhere") for row in exported(tmp_path, tool)]
    printed = import_back(tmp_path, tool, rows, adela, "ana@elsewhere=ana")
    assert printed == {"drafts": [[case.pk, "ana"]], "refusals": []}
    assert not Review.objects.exists()
    draft = Draft.objects.get()
    assert (draft.physician, answers_from_json(draft.answers)) == (ana, answers)
    event = Event.objects.get(kind=Event.Kind.IMPORTED)
    assert (event.case, event.actor, event.data["text"]) == (case, adela, f"{tool}, export.json, ana@elsewhere")
    assignment = claims.claim_next(ana)  # it is reserved, so it comes first
    assert assignment is not None
    assert assignment.case == case
    assert assignment.token is not None
    services.submit(turn_at(ana, assignment), assignment.token, answers_from_json(draft.answers))
    assert Review.objects.get().physician == ana


def test_nothing_is_replaced_and_no_policy_is_passed_by(tmp_path: Path, ana: User, bo: User, adela: User) -> None:
    """The second annotator waits for the first, and a physician never has two roles."""
    open_case()
    rows = exported(tmp_path, "argilla")

    def import_of(by: str) -> dict[str, Any]:
        return import_back(tmp_path, "argilla", [annotated("argilla", row, approval(), by) for row in rows], adela)

    def refusal(by: str) -> str:
        with pytest.raises(SystemExit):
            import_of(by)
        return (tmp_path / "printed").read_text()

    assert "cannot review" in refusal("adela")
    assert import_of("ana")["drafts"]
    assert import_of("ana")["drafts"], "what the physician has not touched is replaced"
    Draft.objects.update(saved_at=timezone.now())
    assert "draft of their own" in refusal("ana")
    assert "reserved for another" in refusal("bo")
    assert "no such account" in refusal("nobody")
    claim_and_submit(ana, approval())
    Draft.objects.all().delete()
    assert refusal("ana")  # the primary cannot be the secondary
    assert import_of("bo")["drafts"]


def test_cases_with_a_first_look_stay_here(tmp_path: Path, ana: User, adela: User) -> None:
    open_case(policy=FIRST_LOOK_POLICY)
    with pytest.raises(CommandError, match="1 wait whose policy asks for a first look"):
        exported(tmp_path, "label-studio")
    row = answered_by({"case": Case.objects.get().pk, "field": "verdict"}, "answer", ["approve"], "ana")
    with pytest.raises(SystemExit):
        import_back(tmp_path, "argilla", [row], adela)
    assert not Draft.objects.exists()


def test_what_no_question_takes_is_refused_and_the_rest_kept(tmp_path: Path, ana: User, adela: User) -> None:
    open_case()
    rows = [annotated("argilla", row, approval(), "ana") for row in exported(tmp_path, "argilla")]
    rows[0]["answer.responses"] = [["perhaps"]]
    rows[1]["field"] = "question.unknown"
    printed = import_back(tmp_path, "argilla", [*rows, {"id": 1}, None], adela)
    assert len(printed["drafts"]) == 1
    assert [refusal["where"] for refusal in printed["refusals"]] == [
        f"entry {number}" for number in (len(rows) + 1, len(rows) + 2, 1, 2)
    ]
    assert answers_from_json(Draft.objects.get().answers).verdict == "approve"


def test_of_argilla_only_submitted_responses_count(tmp_path: Path, ana: User, bo: User, adela: User) -> None:
    """Bo discarded one and has another in draft; users are in another order at each question."""
    case = open_case()
    rows = []
    for row in exported(tmp_path, "argilla"):
        value, note = value_for(approval(), row["metadata"]["field"])
        record = {"id": row["id"], "status": "completed", **row["fields"], **row["metadata"]}
        answered_by(record, "answer", ["inadequate"], "bo", "discarded")
        answered_by(record, "answer", [value], "ana")
        answered_by(record, "note", note or "Seen.", "ana")
        rows.append(answered_by(record, "note", "Not yet.", "bo", "draft"))
    assert import_back(tmp_path, "argilla", rows, adela) == {"drafts": [[case.pk, "ana"]], "refusals": []}
    assert answers_from_json(Draft.objects.get().answers).verdict == "approve"


@pytest.mark.parametrize("form", ["lines", "columns"])
def test_records_of_argilla_come_in_other_forms(tmp_path: Path, ana: User, adela: User, form: str) -> None:
    case = open_case()
    rows = [annotated("argilla", row, approval(), "ana") for row in exported(tmp_path, "argilla")]
    if form == "lines":
        content = "\ufeff" + "\n".join(json.dumps(row) for row in rows) + "\n"
    else:
        content = json.dumps({name: [row.get(name) for row in rows] for name in {key for row in rows for key in row}})
    [*found] = annotation_formats.annotations("argilla", content.encode())
    assert {(each.case, each.annotator) for each in found if isinstance(each, Annotation)} == {(case.pk, "ana")}
    assert len(found) == len(rows)


@pytest.mark.parametrize(
    ("status", "users", "reason"),
    [
        ("pending", ["ana"], "status is not completed"),
        ("completed", ["ana", "bo"], "2 users responded"),
        ("completed", ["ana"], ""),
    ],
)
def test_plain_records_of_argilla_are_read_by_their_own_status(status: str, users: list[str], reason: str) -> None:
    """Its JSON does not say which of the responses were submitted."""
    responses = {"answer": [{"value": ["approve"], "user_id": user} for user in users]}
    row = {"id": "1", "metadata": {"case": 1, "field": "verdict"}, "responses": responses, "status": status}
    [found] = annotation_formats.annotations("argilla", json.dumps([row]).encode())
    if isinstance(found, Annotation):
        assert (reason, found.values) == ("", ("approve",))
    else:
        assert reason in found.reason


def test_of_label_studio_the_last_answer_counts(tmp_path: Path, ana: User, adela: User) -> None:
    """Wherever it stands in the file; and what its author has cancelled at last is none."""
    open_case()
    rows = []
    for number, row in enumerate(exported(tmp_path, "label-studio")):
        done = annotated("label-studio", row, approval(), "ana")
        [_thrown_away, last] = done["annotations"]
        older = {**last, "id": 2, "updated_at": "2026-11-01T10:00:00Z", "result": []}
        last |= {"id": 1, "updated_at": "2026-11-02T10:00:00Z", "was_cancelled": number == 0}
        rows.append({**done, "annotations": [last, older]})
    found = list(annotation_formats.annotations("label-studio", json.dumps(rows).encode()))
    assert len(found) == len(rows) - 1
    assert all(isinstance(each, Annotation) and each.values for each in found)


@pytest.mark.plain
def test_json_min_has_other_types_for_one_answer_and_for_several() -> None:
    about = {"case": 1, "field": "question.natural", "choices": [], "annotator": "ana"}
    one = {**about, "id": 1, "annotation_id": 1, "answer": "yes", "note": "Seen."}
    two = {
        **about,
        "id": 2,
        "annotation_id": 2,
        "answer": {"choices": ["yes", "no"]},
        "note": {"text": ["Seen.", "Twice."]},
    }
    found = list(annotation_formats.annotations("label-studio", json.dumps([one, two]).encode()))
    assert [(each.values, each.note) for each in found if isinstance(each, Annotation)] == [
        (("yes",), "Seen."),
        (("yes", "no"), "Seen.\nTwice."),
    ]


def test_a_file_of_which_nothing_fits_leaves_nothing_behind(tmp_path: Path, ana: User, adela: User) -> None:
    """The corrected file is imported afterwards."""
    case = open_case()
    rows = [annotated("label-studio", row, approval(), "ana") for row in exported(tmp_path, "label-studio")]
    wrong = json.loads(json.dumps(rows))
    for row in wrong:
        row["data"]["field"] = "question.unknown"
    with pytest.raises(SystemExit):
        import_back(tmp_path, "label-studio", wrong, adela)
    assert "None of its annotations answers" in (tmp_path / "printed").read_text()
    assert not Draft.objects.exists()
    assert not case.assignments.exclude(reserved_for=None).exists()
    assert import_back(tmp_path, "label-studio", rows, adela)["drafts"] == [[case.pk, "ana"]]


@pytest.mark.parametrize("content", ["[]", '[{"data": {"case": 1, "field": "verdict"}, "annotations": []}]'])
def test_a_file_without_annotations_fails(tmp_path: Path, adela: User, content: str) -> None:
    with pytest.raises(SystemExit):
        import_back(tmp_path, "label-studio", json.loads(content), adela)
    assert "no submitted annotation" in (tmp_path / "printed").read_text()


@pytest.mark.parametrize("content", ["{}", "no JSON", "[" * 100_000])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, adela: User, content: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(content)
    with pytest.raises(CommandError, match="not"):
        call_command("import_annotations", str(path), "--format", "argilla", "--by", "adela")


def test_page_and_api_hand_out_tasks_and_take_annotations(
    client: Client, ana: User, adela: User, tmp_path: Path
) -> None:
    open_case()
    client.force_login(adela)
    page = reverse("review:annotate-elsewhere")
    assert "records.json" in client.get(page).content.decode()
    rows = json.loads(client.get(reverse("review:task-file", args=["argilla", "records.json"])).content)
    assert rows == exported(tmp_path, "argilla")
    assert client.get(reverse("review:task-file", args=["argilla", "tasks.json"])).status_code == 404
    files = client.get(reverse("api:case-tasks"), {"tool": "argilla"}).json()["files"]
    assert json.loads(files["records.json"]) == rows
    assert PersonEvent.objects.filter(kind=PersonEvent.Kind.EXPORTED, actor=adela).count() == 1
    content = json.dumps([annotated("argilla", row, approval(), "ana@example.org") for row in rows]).encode()

    def upload(content: bytes, **more: Any) -> dict[str, Any]:
        return {"tool": "argilla", "file": SimpleUploadedFile("x.json", content), **more}

    row = {"accounts.name": "ana@example.org", "accounts.account": ana.pk}
    assert client.post(page, upload(b"{}")).status_code == 422
    assert client.post(page, upload(content, **{**row, "accounts.account": ""})).status_code == 422
    assert not Draft.objects.exists()
    done = client.post(page, upload(content, **row)).content.decode()
    assert "1 draft stored." in done
    assert Draft.objects.get().physician == ana
    assert not Review.objects.exists()
    Draft.objects.update(saved_at=timezone.now())
    again = client.post(reverse("api:case-annotations"), upload(content, accounts="ana@example.org=ana")).json()
    assert again["drafts"] == []
    assert "draft of their own" in again["refusals"][0]["reason"]
    client.force_login(ana)
    assert client.get(page).status_code == 403
