"""Pages and API of imports, added models, comparisons, bundles and power; who may use them is in the tables of permissions."""

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
from tests.engine import bare_release, endpoint, evaluated, launched_run

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


def results(*lines: Any) -> SimpleUploadedFile:
    return SimpleUploadedFile("results.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())


def row(rubric: str = "R1", met: Any = True, **more: Any) -> dict[str, Any]:
    return {"sample": KEY, "rubric": rubric, "model": "<b>their</b> model", "met": met, **more}


def read(answer: Any) -> str:
    """The address of the import that an answer leads to, once a worker has read the file."""
    address = str(answer["Location"])
    assert answer.status_code == 302
    services.run_import(int(address.rstrip("/").rpartition("/")[2]))
    return address


def test_results_are_imported_on_a_page(admin: Client, release: Release) -> None:
    page = reverse("evaluation:run-import")
    assert "one object per line" in admin.get(page).content.decode()
    about = {"release": release.pk, "study": "<i>study</i>"}
    answer = admin.post(
        page, {**about, "file": results(row(explanation="Says so."), row("R2", False, explanation="Says so."))}
    )
    assert not Run.objects.exists(), "answered at once: a worker reads the file"
    progress = reverse("evaluation:results-import-progress", args=[ResultsImport.objects.get().pk])
    assert progress in admin.get(answer["Location"]).content.decode()
    assert "No worker is running" in admin.get(progress).content.decode()
    shown = admin.get(read(answer)).content.decode()
    assert progress not in shown
    assert admin.get(progress)["HX-Refresh"] == "true"
    run = Run.objects.get()
    assert reverse("evaluation:run", args=[run.pk]) in shown
    assert "results.jsonl" in admin.get(page).content.decode()
    shown = admin.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert "Imported results: &lt;i&gt;study&lt;/i&gt;" in shown
    assert "not stated" in shown
    assert "b-their-b-model" in shown
    assert "Retry failed" not in shown
    assert "Add a model" not in shown
    answers = admin.get(reverse("evaluation:judgments", args=[run.pk])).content.decode()
    assert "Explanation from the imported file" in answers
    assert "the verdict was read" not in answers, "nobody here read one"
    assert reverse("evaluation:calls", args=[run.pk, Judgment.objects.order_by("pk")[0].pk]) not in answers
    assert "Call log" not in answers, "nobody was called"
    assert "&lt;i&gt;study&lt;/i&gt; · imported" in admin.get(reverse("evaluation:runs")).content.decode()
    shown = admin.get(read(admin.post(page, {**about, "file": results(row(), row("<u>R9</u>"))}))).content.decode()
    assert "rubric &lt;u&gt;R9&lt;/u&gt;: not a rubric" in shown
    shown = admin.get(read(admin.post(page, {**about, "file": results("{")}))).content.decode()
    assert "line 1" in shown
    assert admin.post(page, {**about, "file": results()}).status_code == 422
    assert admin.post(page, {**about, "sha256": "1" * 64, "file": results(row())}).status_code == 422
    assert Judgment.objects.count() == 2


def test_a_file_that_is_refused_whole_says_why(admin: Client, release: Release) -> None:
    upload = SimpleUploadedFile("log.json", b'{"version": 2, "eval": {}}')
    about = {"release": release.pk, "study": "s", "file": upload}
    shown = admin.get(read(admin.post(reverse("evaluation:run-import"), about))).content.decode()
    assert "This file cannot be imported as results." in shown
    assert not Run.objects.exists()


def test_results_are_imported_by_the_api(admin: Client, release: Release) -> None:
    address = reverse("api:run-import")

    def imported(*lines: Any, **body: Any) -> Any:
        answer = admin.post(address, {"release": "bare@1", "study": "s", "file": results(*lines), **body})
        assert (answer.status_code, answer.json()["status"]) == (202, "queued")
        services.run_import(answer.json()["id"])
        return admin.get(reverse("api:results-import", args=[answer.json()["id"]])).json()

    said = imported(row(), {"sample": KEY})
    assert (said["status"], said["rows"], said["added"], said["refused"]) == ("done", 2, 1, 1)
    assert said["refusals"] == [{"where": "line 2", "reason": "rubric: missing or not text"}]
    assert (said["release"], said["without_verdict"], said["error"], said["reason"]) == ("bare v1", 1, "", "")
    run = admin.get(reverse("api:run", args=[said["run"]])).json()
    assert (run["origin"], run["study"], run["status"]) == ("imported", "s", "finished")
    assert imported("x")["refused"] == 1
    body = {"release": "bare@1", "study": "s"}
    assert admin.post(address, {**body, "sha256": "1" * 64, "file": results(row())}).status_code == 422
    assert admin.post(address, {**body, "release": "none", "file": results(row())}).status_code == 404
    assert admin.post(address, {**body, "study": " ", "file": results(row())}).status_code == 400


def test_a_model_is_added_on_a_page(admin: Client, release: Release, models: str) -> None:
    run = evaluated(release, models, "sim-careful")
    endpoint(models, "sim-reckless")
    Endpoint.objects.create(name="theirs", model="theirs", url="")
    page = reverse("evaluation:run-add-model", args=[run.pk])
    assert page in admin.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    offered = admin.get(page).context["form"]["endpoint"].field.queryset
    assert {one.name for one in offered} == {"sim-reckless", "sim-judge"}
    estimate = admin.post(page, {"endpoint": "sim-reckless"})
    assert "beyond what the run has cost so far" in estimate.content.decode()
    assert run.tested.count() == 1
    assert admin.post(page, {"endpoint": "theirs"}).status_code == 422
    answer = admin.post(page, {"endpoint": "sim-reckless", "confirmed": "1", "budget_calls": "9"})
    assert answer["Location"] == reverse("evaluation:run", args=[run.pk])
    run.refresh_from_db()
    assert (run.status, run.budget_calls, run.tested.count()) == (Run.Status.RUNNING, run.calls + 9, 2)
    assert admin.post(page, {"endpoint": "sim-judge"}).status_code == 422  # it is running


def test_a_model_is_added_by_the_api(admin: Client, release: Release, models: str) -> None:
    run = evaluated(release, models, "sim-careful")
    endpoint(models, "sim-reckless")
    address = reverse("api:run-models", args=[run.pk])

    def post(address: str, **body: Any) -> Any:
        return admin.post(address, json.dumps(body), content_type="application/json")

    assert post(address, endpoint="sim-reckless").status_code == 400  # neither a budget nor confirmed
    assert post(reverse("api:run-models-estimate", args=[run.pk]), endpoint="sim-reckless").json()["calls"] > 0
    said = post(address, endpoint="sim-reckless", confirmed=True)
    assert (said.status_code, said.json()["endpoints"]) == (202, ["sim-careful", "sim-reckless"])
    assert said.json()["progress"]["responses"]["queued"] == 2
    assert post(address, endpoint="sim-reckless", confirmed=True).status_code == 409


def test_two_runs_are_compared_on_a_page(admin: Client, release: Release, models: str) -> None:
    for study, met in (("a", True), ("b", False)):
        about = {"release": release.pk, "study": study, "file": results(row(met=met), row("R2"))}
        read(admin.post(reverse("evaluation:run-import"), about))
    second, first = Run.objects.order_by("-pk")
    page = reverse("evaluation:run-compare", args=[second.pk])
    assert page in admin.get(reverse("evaluation:run", args=[second.pk])).content.decode()
    assert f"Run {first.pk} · bare v1 · a" in admin.get(page).content.decode()
    shown = admin.get(page, {"run": first.pk}).content.decode()
    assert f"Run {second.pk} compared with run {first.pk}" in shown
    assert "+50.0%" in shown
    assert "0 / 2" in shown
    assert "1 / 2" in shown
    assert "select a valid choice" in admin.get(page, {"run": "999"}).content.decode().casefold()
    said = admin.get(reverse("api:run-compare", args=[first.pk, second.pk])).json()
    assert said["rows"][0]["difference"] == 0.5
    assert admin.get(reverse("api:run-compare", args=[first.pk, 999])).status_code == 404


def test_nothing_to_compare_with(admin: Client, release: Release, models: str) -> None:
    run = launched_run(release, models, "sim-careful")
    assert "no other run" in admin.get(reverse("evaluation:run-compare", args=[run.pk])).content.decode()


@pytest.mark.parametrize("name", ["evaluation:run-bundle", "api:run-bundle"])
def test_a_bundle_is_downloaded(
    client: Client, rui: User, release: Release, models: str, tmp_path: Path, name: str
) -> None:
    run = evaluated(release, models, "sim-careful")
    client.force_login(rui)
    answer: Any = client.get(reverse(name, args=[run.pk]))
    with zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content))) as archive:
        archive.extractall(tmp_path)
    assert verify_run.check(tmp_path / f"run-{run.pk}")["faults"] == []
    Run.objects.filter(pk=run.pk).update(status=Run.Status.RUNNING)
    assert client.get(reverse(name, args=[run.pk])).status_code == 409


def test_power_is_shown_before_a_launch(admin: Client, release: Release, models: str) -> None:
    for model in ("sim-careful", "sim-judge"):
        endpoint(models, model)
    body = {"release": release.pk, "endpoints": ["sim-careful"], "judge": "sim-judge", "judging": "per-rubric"}
    shown = admin.post(reverse("evaluation:run-new"), body).content.decode()
    assert "Expected precision" in shown
    assert "too few source records" in shown
    asked = {"release": "bare", "endpoints": ["sim-careful"], "judge": "sim-judge"}
    said = admin.post(reverse("api:run-estimate"), json.dumps(asked), content_type="application/json").json()
    assert [(cell["dataset"], cell["criteria"]) for cell in said["power"]] == [
        ("dialogue", 2),
        ("report", 1),
        ("combined", 3),
    ]
    address = reverse("api:release-power", args=["bare", 1])
    cells = admin.get(address, {"models": 3}).json()
    assert {cell["facet"] for cell in cells} == {"", "cluster", "subtype"}
    assert admin.get(address).status_code == 400
    assert admin.get(address, {"models": 3, "rate": 2}).status_code == 400
