"""Pages and API of imports, added models, comparisons, bundles and power.

The tables of permissions test who may use them.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from evaluation.interchange import services
from evaluation.interchange.programs import verify_run
from evaluation.models import Judgment, ResultsImport, Run
from generation.models import Endpoint, Release
from review.models import User
from tests.engine import bare_release, endpoint, evaluate_release, launch_run

pytestmark = pytest.mark.django_db
KEY = "mhb-dialogue-000000"


@pytest.fixture
def admin(adela: User, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr("celery.app.task.Task.delay", lambda *arguments: None)
    client = Client()
    client.force_login(adela)
    return client


@pytest.fixture
def release(db: None) -> Release:
    return bare_release(("dialogue", [["A1"], ["C2"]]), ("report", [["A1"]]))


def results_file(*lines: Any) -> SimpleUploadedFile:
    return SimpleUploadedFile("results.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())


def row(rubric: str = "R1", met: Any = True, **fields: Any) -> dict[str, Any]:
    return {"sample": KEY, "rubric": rubric, "model": "<b>their</b> model", "met": met, **fields}


def finish_import(response: Any) -> str:
    """Do the work of the import to which a response redirects, and return its address."""
    address = str(response["Location"])
    assert response.status_code == 302
    services.run_import(int(address.rstrip("/").rpartition("/")[2]))
    return address


def test_results_are_imported_on_a_page(admin: Client, release: Release) -> None:
    page = reverse("evaluation:run-import")
    assert "one object per line" in admin.get(page).content.decode()
    fields = {"release": release.pk, "study": "<i>study</i>"}
    response = admin.post(
        page, {**fields, "file": results_file(row(explanation="Says so."), row("R2", False, explanation="Says so."))}
    )
    assert not Run.objects.exists(), "the page responds at once: a worker reads the file"
    progress = reverse("evaluation:results-import-progress", args=[ResultsImport.objects.get().pk])
    assert progress in admin.get(response["Location"]).content.decode()
    assert "No worker is running" in admin.get(progress).content.decode()
    html = admin.get(finish_import(response)).content.decode()
    assert progress not in html
    assert admin.get(progress)["HX-Refresh"] == "true"
    run = Run.objects.get()
    assert reverse("evaluation:run", args=[run.pk]) in html
    assert "results.jsonl" in admin.get(page).content.decode()
    html = admin.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert "Imported results: &lt;i&gt;study&lt;/i&gt;" in html
    assert "not stated" in html
    assert "b-their-b-model" in html
    assert "Retry failed" not in html
    assert "Add a model" not in html
    answers_page = admin.get(reverse("evaluation:judgments", args=[run.pk])).content.decode()
    assert "Explanation from the imported file" in answers_page
    assert "the verdict was read" not in answers_page, "no model reply was read here"
    assert reverse("evaluation:calls", args=[run.pk, Judgment.objects.order_by("pk")[0].pk]) not in answers_page
    assert "Call log" not in answers_page, "no model was called"
    assert "&lt;i&gt;study&lt;/i&gt; · imported" in admin.get(reverse("evaluation:runs")).content.decode()
    html = admin.get(
        finish_import(admin.post(page, {**fields, "file": results_file(row(), row("<u>R9</u>"))}))
    ).content.decode()
    assert "rubric &lt;u&gt;R9&lt;/u&gt;: not a rubric" in html
    html = admin.get(finish_import(admin.post(page, {**fields, "file": results_file("{")}))).content.decode()
    assert "line 1" in html
    assert admin.post(page, {**fields, "file": results_file()}).status_code == 422
    assert admin.post(page, {**fields, "sha256": "1" * 64, "file": results_file(row())}).status_code == 422
    assert Judgment.objects.count() == 2


def test_a_refused_file_shows_the_reason(admin: Client, release: Release) -> None:
    upload = SimpleUploadedFile("log.json", b'{"version": 2, "eval": {}}')
    fields = {"release": release.pk, "study": "s", "file": upload}
    html = admin.get(finish_import(admin.post(reverse("evaluation:run-import"), fields))).content.decode()
    assert "This file cannot be imported as results." in html
    assert not Run.objects.exists()


def test_results_are_imported_by_the_api(admin: Client, release: Release) -> None:
    address = reverse("api:run-import")

    def import_results(*lines: Any, **body: Any) -> Any:
        response = admin.post(address, {"release": "bare@1", "study": "s", "file": results_file(*lines), **body})
        assert (response.status_code, response.json()["status"]) == (202, "queued")
        services.run_import(response.json()["id"])
        return admin.get(reverse("api:results-import", args=[response.json()["id"]])).json()

    result = import_results(row(), {"sample": KEY})
    assert (result["status"], result["rows"], result["added"], result["refused"]) == ("done", 2, 1, 1)
    assert result["refusals"] == [{"where": "line 2", "reason": "rubric: missing or not text"}]
    assert (result["release"], result["without_verdict"], result["error"], result["reason"]) == ("bare v1", 1, "", "")
    run = admin.get(reverse("api:run", args=[result["run"]])).json()
    assert (run["origin"], run["study"], run["status"]) == ("imported", "s", "finished")
    assert import_results("x")["refused"] == 1
    body = {"release": "bare@1", "study": "s"}
    assert admin.post(address, {**body, "sha256": "1" * 64, "file": results_file(row())}).status_code == 422
    assert admin.post(address, {**body, "release": "none", "file": results_file(row())}).status_code == 404
    assert admin.post(address, {**body, "study": " ", "file": results_file(row())}).status_code == 400


def test_a_model_is_added_on_a_page(admin: Client, release: Release, models: str) -> None:
    run = evaluate_release(release, models, "sim-careful")
    endpoint(models, "sim-reckless")
    Endpoint.objects.create(name="theirs", model="theirs", url="")
    page = reverse("evaluation:run-add-model", args=[run.pk])
    assert page in admin.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    offered = admin.get(page).context["form"]["endpoint"].field.queryset
    assert {model.name for model in offered} == {"sim-reckless", "sim-judge"}
    estimate = admin.post(page, {"endpoint": "sim-reckless"})
    assert "beyond what the run has cost so far" in estimate.content.decode()
    assert run.tested.count() == 1
    assert admin.post(page, {"endpoint": "theirs"}).status_code == 422
    response = admin.post(page, {"endpoint": "sim-reckless", "confirmed": "1", "budget_calls": "9"})
    assert response["Location"] == reverse("evaluation:run", args=[run.pk])
    run.refresh_from_db()
    assert (run.status, run.budget_calls, run.tested.count()) == (Run.Status.RUNNING, run.calls + 9, 2)
    assert admin.post(page, {"endpoint": "sim-judge"}).status_code == 422  # it is running


def test_a_model_is_added_by_the_api(admin: Client, release: Release, models: str) -> None:
    run = evaluate_release(release, models, "sim-careful")
    endpoint(models, "sim-reckless")
    address = reverse("api:run-models", args=[run.pk])

    def post(address: str, **body: Any) -> Any:
        return admin.post(address, json.dumps(body), content_type="application/json")

    assert post(address, endpoint="sim-reckless").status_code == 400  # neither a budget nor confirmed
    assert post(reverse("api:run-models-estimate", args=[run.pk]), endpoint="sim-reckless").json()["calls"] > 0
    response = post(address, endpoint="sim-reckless", confirmed=True)
    assert (response.status_code, response.json()["endpoints"]) == (202, ["sim-careful", "sim-reckless"])
    assert response.json()["progress"]["responses"]["queued"] == 2
    assert post(address, endpoint="sim-reckless", confirmed=True).status_code == 409


def test_two_runs_are_compared_on_a_page(admin: Client, release: Release, models: str) -> None:
    for study, met in (("a", True), ("b", False)):
        fields = {"release": release.pk, "study": study, "file": results_file(row(met=met), row("R2"))}
        finish_import(admin.post(reverse("evaluation:run-import"), fields))
    second, first = Run.objects.order_by("-pk")
    page = reverse("evaluation:run-compare", args=[second.pk])
    assert page in admin.get(reverse("evaluation:run", args=[second.pk])).content.decode()
    assert f"Run {first.pk} · bare v1 · a" in admin.get(page).content.decode()
    Run.objects.filter(pk=first.pk).update(title="Short prompt")
    assert f"Run {first.pk} · bare v1 · Short prompt · a" in admin.get(page).content.decode()
    html = admin.get(page, {"run": first.pk}).content.decode()
    assert f"Run {second.pk} compared with run {first.pk}" in html
    assert "+50.0 pp" in html
    assert "0 / 2" in html
    assert "1 / 2" in html
    assert "cannot be compared" in admin.get(page, {"run": "999"}).content.decode().casefold()
    comparison = admin.get(reverse("api:run-compare", args=[first.pk, second.pk])).json()
    assert comparison["rows"][0]["difference"] == 0.5
    assert admin.get(reverse("api:run-compare", args=[first.pk, 999])).status_code == 404


def test_the_comparison_page_says_when_there_is_no_other_run(admin: Client, release: Release, models: str) -> None:
    run = launch_run(release, models, "sim-careful")
    assert "no other run" in admin.get(reverse("evaluation:run-compare", args=[run.pk])).content.decode()


@pytest.mark.parametrize("name", ["evaluation:run-bundle", "api:run-bundle"])
def test_a_bundle_is_downloaded(
    client: Client, rui: User, release: Release, models: str, tmp_path: Path, name: str
) -> None:
    run = evaluate_release(release, models, "sim-careful")
    client.force_login(rui)
    download: Any = client.get(reverse(name, args=[run.pk]))
    with zipfile.ZipFile(io.BytesIO(b"".join(download.streaming_content))) as archive:
        archive.extractall(tmp_path)
    assert verify_run.check(tmp_path / f"run-{run.pk}")["faults"] == []
    Run.objects.filter(pk=run.pk).update(status=Run.Status.RUNNING)
    assert client.get(reverse(name, args=[run.pk])).status_code == 409


def test_power_is_shown_before_a_launch(admin: Client, release: Release, models: str) -> None:
    for model in ("sim-careful", "sim-judge"):
        endpoint(models, model)
    body = {"release": release.pk, "endpoints": ["sim-careful"], "judge": "sim-judge", "judging": "per-rubric"}
    html = admin.post(reverse("evaluation:run-new"), body).content.decode()
    assert "Expected precision" in html
    assert "too few source records" in html
    settings = {"release": "bare", "endpoints": ["sim-careful"], "judge": "sim-judge"}
    estimate = admin.post(reverse("api:run-estimate"), json.dumps(settings), content_type="application/json").json()
    assert [(cell["dataset"], cell["criteria"]) for cell in estimate["power"]] == [
        ("dialogue", 2),
        ("report", 1),
        ("combined", 3),
    ]
    address = reverse("api:release-power", args=["bare", 1])
    cells = admin.get(address, {"models": 3}).json()
    assert {cell["facet"] for cell in cells} == {"", "cluster", "subtype"}
    assert admin.get(address).status_code == 400
    assert admin.get(address, {"models": 3, "rate": 2}).status_code == 400
