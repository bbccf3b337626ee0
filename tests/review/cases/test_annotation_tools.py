"""Label Studio and Argilla load our tasks, and what they write comes back as who submitted what.

Both tools are Python packages without their servers: `label-studio-sdk` has Label Studio's own
checks of tasks and annotations, and its converters; `argilla` has its records, their responses and
files. Needs MHB_INTERCHANGE (`make test-interchange`).
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from review.assignments import annotation_formats
from review.assignments.annotation_formats import Annotation, RefusedAnnotation
from review.models import User
from tests.review.factories import open_case

TOOLS = os.environ.get("MHB_INTERCHANGE", "")
pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(not TOOLS, reason="needs other tools: make test-interchange"),
]

# Ana answers each task twice, and the later answer stands first; Bo skips each.
LABEL_STUDIO = """
import json, os
from label_studio_sdk.converter import Converter
from label_studio_sdk.label_interface import LabelInterface

config, tasks = open("config.xml").read(), json.load(open("tasks.json"))
interface = LabelInterface(config)
interface.validate()

def annotation(number, by, choice, at, was_cancelled=False):
    result = [
        {"id": f"a{number}", "from_name": "answer", "to_name": "text", "type": "choices", "value": {"choices": [choice]}},
        {"id": f"n{number}", "from_name": "note", "to_name": "text", "type": "textarea", "value": {"text": ["Seen."]}},
    ]
    about = {"created_at": at, "updated_at": at, "lead_time": 1.0, "was_cancelled": was_cancelled}
    return {"id": number, "completed_by": {"id": 1, "email": by}, "result": result, **about}

for number, task in enumerate(tasks, 1):
    assert interface.validate_task(task)
    first, last = task["data"]["choices"][0], task["data"]["choices"][-1]
    task["id"] = number
    task["annotations"] = [
        annotation(10 * number + 2, "ana", last["alias"], "2026-11-02T10:00:00Z"),
        annotation(10 * number + 1, "ana", first["alias"], "2026-11-01T10:00:00Z"),
        annotation(10 * number + 3, "bo", first["alias"], "2026-11-02T10:00:00Z", was_cancelled=True),
    ]
    assert all(interface.validate_annotation(each) for each in task["annotations"])
json.dump(tasks, open("exported.json", "w"))
for name in ("JSON", "JSON_MIN"):
    os.mkdir(name)
    Converter(config, ".", download_resources=False).convert("exported.json", name, name, is_dir=False)
"""

# Ana submits, Bo discards, Cai has a draft; only Ana responds to the last record.
ARGILLA = """
import http.server, json, threading, uuid
import argilla as rg
from argilla.records._io import GenericIO, HFDatasetsIO, JsonIO

class Server(http.server.BaseHTTPRequestHandler):  # argilla makes no settings before it has signed in
    def do_GET(self):
        user = {"id": str(uuid.UUID(int=1)), "username": "ana", "first_name": "Ana", "role": "owner"}
        moments = {"inserted_at": "2026-01-01T00:00:00", "updated_at": "2026-01-01T00:00:00"}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({**user, **moments}).encode())
    def log_message(self, *about): pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = rg.Argilla(api_url=f"http://127.0.0.1:{server.server_port}", api_key="k")
settings = rg.Settings.from_json("settings.json")
settings.validate()
dataset = rg.Dataset(name="cases", settings=settings, client=client)
records = JsonIO._records_from_json("records.json")
users = {"ana": uuid.UUID(int=1), "bo": uuid.UUID(int=2), "cai": uuid.UUID(int=3)}
labels = [option for option in settings.questions["answer"].labels]
for number, record in enumerate(records):
    assert set(record.fields.to_dict()) == {field.name for field in settings.fields}
    choice = record.fields["choices"].split(":")[0]
    assert choice in labels
    record.responses.add(rg.Response("answer", [choice], user_id=users["ana"], status="submitted"))
    if number < len(records) - 1:
        record.responses.add(rg.Response("answer", [labels[-1]], user_id=users["bo"], status="discarded"))
        record.responses.add(rg.Response("note", "Not yet.", user_id=users["cai"], status="draft"))
JsonIO.to_json(records, "plain.json")
json.dump(GenericIO.to_list(records, flatten=True), open("flat.json", "w"))
json.dump(GenericIO.to_dict(records, flatten=True), open("columns.json", "w"))
HFDatasetsIO.to_datasets(records, dataset).to_json("dataset.jsonl")
"""


@pytest.fixture
def folder(tmp_path: Path, ana: User) -> Path:
    open_case()
    for tool in annotation_formats.TOOLS:
        call_command("export_cases", "--format", tool, "--out", str(tmp_path))
    return tmp_path


def run_tool(code: str, folder: Path) -> None:
    environment = {**os.environ, "HOME": str(folder), "HF_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([TOOLS, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]


def answers_in(tool: str, path: Path) -> tuple[list[tuple[str, str, tuple[str, ...]]], list[str]]:
    """(annotator, field, values) of each answer, and the reasons of refusals."""
    found = list(annotation_formats.annotations(tool, path.read_bytes()))
    answers = [(each.annotator, each.field, each.values) for each in found if isinstance(each, Annotation)]
    return answers, [each.reason for each in found if isinstance(each, RefusedAnnotation)]


@pytest.mark.parametrize("form", ["JSON", "JSON_MIN"])
def test_of_label_studio_the_last_answer_of_each_annotator_comes_back(folder: Path, form: str) -> None:
    run_tool(LABEL_STUDIO, folder)
    answers, refusals = answers_in("label-studio", folder / form / "result.json")
    tasks: list[dict[str, Any]] = [task["data"] for task in json.loads((folder / "tasks.json").read_text())]
    assert answers == [("ana", task["field"], (task["choices"][-1]["alias"],)) for task in tasks]
    assert refusals == []


def test_of_argilla_what_was_submitted_comes_back(folder: Path) -> None:
    run_tool(ARGILLA, folder)
    records = json.loads((folder / "records.json").read_text())
    submitted = [
        (
            "00000000-0000-0000-0000-000000000001",
            record["metadata"]["field"],
            (record["fields"]["choices"].split(":")[0],),
        )
        for record in records
    ]
    for name in ("flat.json", "columns.json", "dataset.jsonl"):
        assert answers_in("argilla", folder / name) == (submitted, []), name
    plain = json.loads((folder / "plain.json").read_text())
    assert "status" not in plain[0]["responses"]["answer"][0]
    answers, refusals = answers_in("argilla", folder / "plain.json")
    assert (answers, len(refusals)) == ([], len(records))
    assert "status is not completed" in refusals[0]
    completed = [{**record, "status": "completed"} for record in plain]
    (folder / "completed.json").write_text(json.dumps(completed))
    answers, refusals = answers_in("argilla", folder / "completed.json")
    assert (answers, len(refusals)) == (submitted[-1:], len(records) - 1)
    assert "3 users responded" in refusals[0]
