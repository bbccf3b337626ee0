"""The whole workflow over the API alone: import, batch, reviews, release, run and report."""

import hashlib
import io
import json
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from evaluation.runs import work as runs_work
from generation.batches import services as batches_services
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import SourceRecord
from generation.outcomes import services as outcomes_services
from generation.recipes import registry
from generation.releases import services as releases_services
from generation.sources import services as sources_services
from review.models import Case, User
from review.models.public_ids import AssignmentId
from tests.api.conftest import Api, Client

CANARY = "canary GUID never-to-be-shown"
RECORDS = 4


@pytest.fixture
def models() -> Iterator[str]:
    """The URL of a server with the simulated models."""
    scripts = [registry.module(name, "simulate").SCRIPT for name in registry.names()]
    with run_in_background(make_app(scripts, seed=3)) as url:
        yield url


def conversations() -> bytes:
    """A HealthBench file with RECORDS good lines and a broken one."""
    turns = [
        {"role": "user", "content": "I have had a headache since Monday. What could it be?"},
        {"role": "assistant", "content": "Most headaches are harmless. Is there fever, a stiff neck or weakness?"},
        {"role": "user", "content": "No, none of that. What should I do?"},
    ]
    rows = [
        {
            "prompt_id": str(uuid.UUID(int=number)),
            "prompt": [{**turns[0], "content": f"Case {number}. {turns[0]['content']}"}, *turns[1:]],
            "rubrics": [],
            "example_tags": [],
            "ideal_completions_data": None,
            "canary": CANARY,
        }
        for number in range(1, RECORDS + 1)
    ]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows) + b'{"prompt_id": 7}\n'


def json_of(answer: Any, status: int = 200) -> Any:
    """The JSON body of an answer that must have this status."""
    assert answer.status_code == status, answer.content
    return answer.json()


def all_rows(client: Client, name: str, *args: Any, **query: Any) -> list[dict[str, Any]]:
    """All rows of a list, read page by page."""
    address: str | None = reverse(f"api:{name}", args=args)
    rows: list[dict[str, Any]] = []
    query["page_size"] = 3
    while address:
        page = json_of(client.get(address, query))
        rows += page["results"]
        address, query = page["next"], {}
    return rows


CITATION = {
    "kind": "doi",
    "reference": "https://doi.org/10.1000/XYZ",
    "passage": "No such drug is registered.",
    "read_on": "2020-01-15",
}


def answers_to(form: dict[str, Any], *, approve: bool) -> dict[str, Any]:
    """Complete answers to a review form, whatever it asks."""
    values, evidence = {}, False
    for question in form["questions"]:
        chosen = next(choice for choice in reversed(question["choices"]) if not choice["blocks"])
        values[question["key"]] = {"value": chosen["value"]}
        evidence |= chosen["evidence"]
    severity = form["severities"][-1]["value"] if form["severities"] else ""
    return {
        "questions": values,
        "rubrics": {rubric["key"]: {"value": "adequate", "severity": severity} for rubric in form["rubrics"]},
        "verdict": "approve" if approve else "reject",
        "reason": "" if approve else "Nobody would ask this.",
        "reason_code": "" if approve or not form["reasons"] else form["reasons"][0]["code"],
        "citations": [CITATION | {"trap": term["code"], "level": "study"} for term in form["terms"]]
        if evidence
        else [],
    }


def lineage_of(work: dict[str, Any]) -> str:
    """The sample behind an assignment, from the database: physicians do not see it."""
    return Case.objects.get(assignments=AssignmentId().to_python(work["id"])).lineage


def review(client: Client, work: dict[str, Any], *, approve: bool) -> None:
    """Answer the first look if there is one, then submit."""
    if not work["revealed"]:
        first_look = {"token": work["token"], "answers": answers_to(work["case"]["form"], approve=True)}
        work = json_of(client.post(reverse("api:assignment-reveal", args=[work["id"]]), first_look))
    body = {"token": work["token"], "answers": answers_to(work["case"]["form"], approve=approve)}
    json_of(client.post(reverse("api:assignment-submit", args=[work["id"]]), body), 201)


def review_all(physicians: dict[str, Client], *, doubter: str, doubted: str) -> None:
    """Let everybody claim and submit until nothing is left.

    `doubter` rejects the sample `doubted` in every phase; everything else is approved.
    """
    busy = True
    while busy:
        busy = False
        for name, client in physicians.items():
            answer = client.post(reverse("api:assignment-next"))
            if answer.status_code == 204:
                continue
            busy, work = True, json_of(answer)
            approve = not (name == doubter and lineage_of(work) == doubted)
            review(client, work, approve=approve)


def test_the_whole_workflow(
    api: Api,
    adela: User,
    rui: User,
    physicians: list[User],
    models: str,
    sent_tasks: list[tuple[Any, ...]],
    uploads: Path,
    django_capture_on_commit_callbacks: Any,
) -> None:
    admin, researcher = api(adela), api(rui)

    for model in ("sim-generator", "sim-careful", "sim-reckless", "sim-judge"):
        created = json_of(admin.post(reverse("api:endpoints"), {"name": model, "url": models, "model": model}), 201)
        assert created["simulated"]
    updated = json_of(admin.patch(reverse("api:endpoint", args=["sim-judge"]), {"price_in": "0.5", "concurrency": 2}))
    assert (updated["price_in"], updated["concurrency"], updated["url"]) == ("0.500000", 2, models)

    # Import
    upload = {"file": SimpleUploadedFile("own.jsonl", conversations()), "format": "healthbench", "name": "own"}
    with django_capture_on_commit_callbacks(execute=True):
        queued = json_of(admin.post(reverse("api:imports"), upload, format="multipart"), 202)
    assert (queued["status"], queued["source"], queued["file_name"]) == ("queued", "own", "own.jsonl")
    assert sent_tasks.pop() == ("run_import", queued["id"])
    sources_services.run_import(queued["id"])
    done = json_of(admin.get(reverse("api:import", args=[queued["id"]])))
    assert (done["status"], done["rows"], done["added"], done["refused"]) == ("done", RECORDS + 1, RECORDS, 1)
    [refusal] = all_rows(admin, "import-refusals", queued["id"])
    assert refusal["where"] == f"line {RECORDS + 1}"
    assert list(uploads.iterdir()) == [], "an imported file is deleted"
    assert json_of(admin.get(reverse("api:source", args=["own"])))["records_count"] == RECORDS
    assert SourceRecord.objects.filter(private__icontains="never-to-be-shown").count() == RECORDS
    record_list = admin.get(reverse("api:source-records", args=["own"])).content.decode()
    assert "headache" in record_list
    assert "never-to-be-shown" not in record_list
    assert len(all_rows(admin, "source-records", "own")) == RECORDS

    # Generate
    launch = {
        "benchmark": "mhb",
        "source": "own",
        "roles": {"generator": "sim-generator", "examiner": "sim-generator"},
        "one_model": True,
    }
    estimate = json_of(admin.post(reverse("api:batch-estimate"), launch))
    lines = [line["role"] for line in estimate["lines"]]
    assert (estimate["calls"], lines) == (5 * RECORDS, ["generator", *4 * ["examiner"]])
    assert admin.post(reverse("api:batches"), launch).status_code == 400, (
        "neither a budget nor a confirmation that none is needed"
    )
    with_budget = {**launch, "budget_calls": 100}
    with django_capture_on_commit_callbacks(execute=True):
        batch = json_of(admin.post(reverse("api:batches"), with_budget), 202)
    assert sent_tasks.pop() == ("run_lane",)
    assert (batch["status"], batch["progress"]["queued"]) == ("running", RECORDS)
    again = admin.post(reverse("api:batches"), with_budget)
    assert (again.status_code, again.json()["type"]) == (409, "urn:mhb:nothing-to-do")
    batches_services.work_on_batch(batch["id"])
    batch = json_of(admin.get(reverse("api:batch", args=[batch["id"]])))
    assert (batch["status"], batch["progress"]["done"], batch["progress"]["percent"]) == ("finished", RECORDS, 100)
    drafts = all_rows(admin, "batch-drafts", batch["id"], status="done")
    assert len(drafts) == RECORDS
    calls = all_rows(admin, "draft-calls", drafts[0]["id"])
    assert calls[-1]["endpoint"] == "sim-generator"
    assert calls[-1]["sent"]["messages"]
    for action in ("batch-cancel", "batch-retry"):
        status = admin.post(reverse(f"api:{action}", args=[batch["id"]])).status_code
        assert status == (409 if action == "batch-cancel" else 202)

    # Review: both adjudicators reject one sample, which comes back as version 2
    doctors = {person.username: api(person) for person in physicians}
    doubted = Case.objects.order_by("pk")[0].lineage
    reviewers = {name: doctors[name] for name in ("ana", "bo")}
    review_all(reviewers, doubter="bo", doubted=doubted)
    for name in ("chen", "dina"):
        work = json_of(doctors[name].post(reverse("api:assignment-next")))
        assert work["role"].startswith("adjudicator")
        assert (work["revealed"], work["reviews"]) == (False, []), "the two reviews name the traps"
        review(doctors[name], work, approve=False)
    outcomes_services.apply_outcomes()
    assert [sample["status"] for sample in all_rows(admin, "samples", status="regenerating")] == ["regenerating"]
    batches_services.work_on_batch(batch["id"])
    review_all({name: doctors[name] for name in ("emil", "dina")}, doubter="", doubted="")

    # Release
    with django_capture_on_commit_callbacks(execute=True):
        row = json_of(admin.post(reverse("api:releases"), {"name": "spring", "benchmark": "mhb"}), 202)
    assert releases_services.run_freeze(row["id"]).status == "done"
    release = json_of(admin.get(reverse("api:release", args=("spring", 1))))
    assert (release["version"], release["samples_count"], release["simulated"]) == (1, RECORDS, True)
    unchanged = json_of(admin.post(reverse("api:releases"), {"name": "spring", "benchmark": "mhb"}), 202)
    releases_services.run_freeze(unchanged["id"])
    assert json_of(admin.get(reverse("api:freeze", args=[unchanged["id"]])))["error"] == "NothingNew"
    regenerated = [sample for sample in all_rows(admin, "samples") if sample["versions_count"] == 2]
    detail = json_of(admin.get(reverse("api:sample", args=[regenerated[0]["id"]])))
    assert (detail["key"], [version["status"] for version in detail["versions"]]) == (doubted, ["rejected", "approved"])
    assert detail["versions"][0]["reasons"] == ["Ambiguous wording: Nobody would ask this."]
    assert detail["versions"][1]["rubrics"][0]["approved"]
    assert detail["versions"][1]["rubrics"][0]["severity"] == "death"
    assert detail["versions"][1]["citations"][0]["reference"] == "10.1000/xyz"
    release_key = ("spring", 1)
    assert json_of(researcher.get(reverse("api:release", args=release_key)))["sha256"] == release["sha256"]
    exported = researcher.get(reverse("api:release-export", args=release_key), {"format": "jsonl"})
    text = exported.getvalue()
    assert exported["Content-Type"] == "application/jsonl"
    assert hashlib.sha256(text).hexdigest() == release["sha256"]
    assert [json.loads(line)["sample_id"] for line in text.splitlines()] == [
        sample["key"] for sample in all_rows(researcher, "release-samples", *release_key)
    ]
    for format_name, inside in (("csv", "samples.csv"), ("parquet", "samples.parquet")):
        zipped = [
            researcher.get(reverse("api:release-export", args=release_key), {"format": format_name}).getvalue()
            for _ in range(2)
        ]
        assert zipped[0] == zipped[1], "the same release gives the same bytes"
        names = zipfile.ZipFile(io.BytesIO(zipped[0])).namelist()
        assert {f"spring-v1/{inside}", "spring-v1/DATACARD.md", "spring-v1/SHA256SUMS"} <= set(names)
    assert researcher.get(reverse("api:release-export", args=release_key), {"format": "pickle"}).status_code == 400
    card = researcher.get(reverse("api:release-card", args=release_key))
    assert release["sha256"] in card.content.decode()

    # Evaluate and report
    launch = {"release": "spring", "endpoints": ["sim-careful", "sim-reckless"], "judge": "sim-judge"}
    assert json_of(admin.post(reverse("api:run-estimate"), launch))["calls"] > 0
    assert admin.post(reverse("api:runs"), launch).status_code == 400
    assert researcher.post(reverse("api:runs"), launch).status_code == 403
    with django_capture_on_commit_callbacks(execute=True):
        run = json_of(admin.post(reverse("api:runs"), {**launch, "confirmed": True}), 202)
    assert sent_tasks.pop() == ("run_lane",)
    assert run["progress"]["responses"]["queued"] == 2 * RECORDS
    runs_work.work_on_run(run["id"])
    run = json_of(researcher.get(reverse("api:run", args=[run["id"]])))
    assert (run["status"], run["progress"]["percent"], run["simulated"]) == ("finished", 100, True)
    assert run["endpoints"] == ["sim-careful", "sim-reckless"]
    report = json_of(researcher.get(reverse("api:run-report", args=[run["id"]])))
    assert report["notice"] == "Simulated models: not evidence."
    totals = {row["endpoint"]: row for row in report["overall"]}
    judged = all_rows(researcher, "run-judgments", run["id"], endpoint="sim-reckless")
    assert (
        len(judged) == release["rubrics_count"] == sum(totals["sim-reckless"][k] for k in ("denominator", "unjudged"))
    )
    harm = {row["endpoint"]: row for row in report["facets"]["severity"]}
    assert harm["sim-reckless"]["value"] == "death"
    assert harm["sim-reckless"]["denominator"] == totals["sim-reckless"]["denominator"]
    subtype = report["facets"]["subtype"][0]
    judgments = all_rows(
        researcher,
        "run-judgments",
        run["id"],
        endpoint=subtype["endpoint"],
        dataset=subtype["dataset"],
        facet="subtype",
        value=subtype["value"],
    )
    assert len(judgments) == subtype["denominator"] + subtype["unjudged"]
    assert len(all_rows(researcher, "run-responses", run["id"], endpoint="sim-careful")) == RECORDS
    text = researcher.get(reverse("api:run-report-md", args=[run["id"]])).content.decode()
    assert "| sim-reckless |" in text
    assert admin.post(reverse("api:run-cancel", args=[run["id"]])).status_code == 409
    change = admin.patch(reverse("api:endpoint", args=["sim-judge"]), {"model": "another", "concurrency": 9})
    assert (change.status_code, [error["field"] for error in change.json()["errors"]]) == (400, ["model"])
    judge = json_of(admin.get(reverse("api:endpoint", args=["sim-judge"])))
    assert (judge["model"], judge["concurrency"]) == ("sim-judge", 2), "the change is refused as a whole"


def test_no_secret_is_shown(api: Api, adela: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "sk-the-key-itself")
    endpoint = {"name": "paid", "url": "https://models.example/v1", "model": "m", "key_env": "HOUSE_KEY"}
    client = api(adela)
    json_of(client.post(reverse("api:endpoints"), endpoint), 201)
    text = client.get(reverse("api:endpoints")).content.decode()
    assert "HOUSE_KEY" in text
    assert "sk-the-key-itself" not in text
    pasted = client.post(reverse("api:endpoints"), {**endpoint, "name": "other", "key_env": "sk-the-key-itself"})
    assert pasted.status_code == 400, "a key in the place of a variable's name is refused, not stored"
