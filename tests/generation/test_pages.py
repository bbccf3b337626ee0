"""The pages of generation: access, the effects of forms, and text that never becomes markup."""

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from generation.batches import launch
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.endpoints import services as endpoints_services
from generation.models import (
    Batch,
    BatchRole,
    Call,
    Draft,
    Endpoint,
    Freeze,
    Import,
    ImportRefusal,
    Release,
    Rubric,
    Sample,
    SampleVersion,
    Source,
    SourceRecord,
)
from generation.models.sent_texts import pack_request
from generation.models.work import Work
from generation.recipes import registry
from generation.releases import services as releases_services
from generation.sources import queries
from generation.sources import services as sources_services
from review.models import User
from tests.engine import (
    CANARY,
    bare_release,
    conversation,
    conversations_file,
    drafts,
    endpoint,
    import_file,
    make_release,
    makers,
    reports_file,
    run_batch,
)
from tests.populations import population
from tests.review.pages import text_of

pytestmark = pytest.mark.django_db
Status = Work.Status
Page = Any  # a response of the test client, which has more attributes than HttpResponse
HOSTILE = "<script>alert('model')</script>"


@pytest.fixture
def uploads(settings: Any, tmp_path: Path) -> Path:
    """The folder of uploaded files during a test."""
    folder = tmp_path / "uploads"
    settings.MEDIA_ROOT = folder
    return folder


@population
def sample(folder: Path, models: str) -> Sample:
    """One sample whose first version is in review."""
    run_batch(import_file(conversations_file(folder / "own.jsonl", 1)), endpoint(models))
    return Sample.objects.get()


def query_count(client: Client, url: str) -> int:
    """How many database queries a page needs when nothing is cached."""
    cache.clear()
    with CaptureQueriesContext(connection) as queries:
        assert client.get(url).status_code == 200
    return len(queries)


def fail_draft(batch: Batch) -> Draft:
    """Let the first draft of a batch fail with a broken reply, and return it."""
    draft = batch.drafts.order_by("pk")[0]
    Draft.objects.filter(pk=draft.pk).update(status=Status.FAILED, error="BrokenReply", detail=f"Not JSON: {HOSTILE}")
    Call.objects.create(
        job=batch,
        subject=f"draft:{draft.pk}",
        endpoint=Endpoint.objects.get_or_create(name="odd", url="http://odd.example/v1", model="odd-1")[0],
        model="odd-1",
        prompt="mhb/inject_dialogue@1",
        request=pack_request(
            {"model": "odd-1", "temperature": 0.3, "messages": [{"role": "user", "content": f"Say {HOSTILE}"}]}
        ),
        text=f"I would rather not. {HOSTILE}",
        tokens_in=41,
        tokens_out=7,
        seconds=1.5,
        attempt=1,
        error="BrokenReply",
        started_at=timezone.now(),
    )
    return draft


# -------------------------------------------------------------------------------------- who gets in


ADMIN_PAGES = ["sources", "endpoints", "batches", "batch-new", "samples"]


@pytest.mark.parametrize("name", [*ADMIN_PAGES, "releases"])
def test_visitors_must_sign_in_first(name: str):
    response: Page = Client().get(reverse(f"generation:{name}"))
    assert response.status_code == 302
    assert response["Location"].startswith(reverse("account_login"))


@pytest.mark.parametrize("name", ADMIN_PAGES)
def test_only_admins_see_the_pages_that_produce_samples(name: str, ana: User, rui: User, admin: Client):
    for user in (ana, rui):
        client = Client()
        client.force_login(user)
        assert client.get(reverse(f"generation:{name}")).status_code == 403
    assert admin.get(reverse(f"generation:{name}")).status_code == 200


def test_researchers_read_releases_but_cannot_freeze_one(ana: User, rui: User):
    release = bare_release(("dialogue", [["A1"]]))
    researcher, physician = Client(), Client()
    researcher.force_login(rui)
    physician.force_login(ana)
    pages = [
        reverse("generation:releases"),
        reverse("generation:release", args=[release.name, release.version]),
        reverse("generation:release-samples", args=[release.name, release.version]),
    ]
    for page in pages:
        assert researcher.get(page).status_code == 200
        assert physician.get(page).status_code == 403
    assert physician.get(reverse("generation:release-export", args=["bare", 1, "jsonl"])).status_code == 403
    form = reverse("generation:release-new")
    assert form not in text_of(researcher.get(pages[0]))
    assert researcher.get(form).status_code == 403
    assert researcher.post(form, {"name": "mine", "benchmark": "mhb"}).status_code == 403
    assert Release.objects.count() == 1


@pytest.mark.parametrize("name", [*ADMIN_PAGES, "releases"])
def test_an_empty_page_says_what_to_do(name: str, admin: Client):
    page = admin.get(reverse(f"generation:{name}"))
    assert 'class="empty"' in text_of(page)


# ------------------------------------------------------------------------------------------ sources


def upload(client: Client, path: Path, format_name: str = "healthbench", name: str = "own") -> Page:
    file = SimpleUploadedFile(path.name, path.read_bytes())
    return client.post(reverse("generation:sources"), {"format": format_name, "name": name, "file": file})


def test_an_upload_is_stored_queued_and_imported(
    admin: Client,
    adela: User,
    tmp_path: Path,
    uploads: Path,
    sent_tasks: list[Any],
    django_capture_on_commit_callbacks: Any,
):
    with django_capture_on_commit_callbacks(execute=True):
        response = upload(admin, conversations_file(tmp_path / "own.jsonl", 3))
    run = Import.objects.get()
    assert response["Location"] == reverse("generation:source", args=["own"])
    assert sent_tasks == [("run_import", run.pk)]
    assert (run.file_name, run.created_by, run.status) == ("own.jsonl", adela, Status.QUEUED)
    assert [path.resolve() for path in uploads.iterdir()] == [Path(run.path)]

    fragment = reverse("generation:source-imports", args=["own"])
    polled = text_of(admin.get(fragment, headers={"HX-Request": "true"}))
    assert f'hx-get="{fragment}"' in polled
    assert "No worker is running" in polled

    sources_services.run_import(run.pk)
    assert admin.get(fragment, headers={"HX-Request": "true"})["HX-Refresh"] == "true"
    page = text_of(admin.get(response["Location"]))
    assert "hx-get" not in page.partition('id="imports"')[2].partition(">")[0]
    assert "This is case 3." in page
    assert not list(uploads.iterdir())


def test_a_file_of_the_wrong_format_is_refused_with_its_name_and_the_reason(
    admin: Client, tmp_path: Path, uploads: Path, sent_tasks: list[Any]
):
    response = upload(admin, reports_file(tmp_path / "patients.json", 2))
    assert response.status_code == 422
    [error] = response.context["form"].errors["file"]
    assert "patients.json" in error
    assert "It is a JSON array" in error
    assert not list(uploads.iterdir())
    assert not Source.objects.exists()
    assert not sent_tasks


def test_a_source_keeps_its_format(admin: Client, tmp_path: Path, uploads: Path):
    import_file(conversations_file(tmp_path / "own.jsonl", 1))
    response = upload(admin, reports_file(tmp_path / "own.json", 1), "pmc-patients")
    assert response.status_code == 422
    assert "own is healthbench" in response.context["form"].errors["name"][0]
    assert not list(uploads.iterdir())


def test_refused_rows_are_listed_with_file_line_and_reason(admin: Client, tmp_path: Path):
    import_file(conversations_file(tmp_path / "mixed.jsonl", conversation(1), {"prompt_id": "x", "prompt": []}))
    page = text_of(admin.get(reverse("generation:source", args=["own"])))
    refusals = page.partition('id="refusals"')[2]
    for part in ("mixed.jsonl", "line 2", "&#x27;prompt&#x27; is empty."):
        assert part in refusals


def test_no_page_shows_private_data(admin: Client, tmp_path: Path):
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    record = SourceRecord.objects.get()
    assert record.private == {"canary": CANARY}
    for url in (
        reverse("generation:source", args=[source.name]),
        reverse("generation:record", args=[source.name, record.pk]),
    ):
        with CaptureQueriesContext(connection) as seen:
            page = text_of(admin.get(url))
        assert "This is case 1." in page
        assert CANARY not in page
        assert not any('"private"' in query["sql"] for query in seen)


def test_the_page_of_a_record_shows_its_report(admin: Client, tmp_path: Path):
    source = import_file(reports_file(tmp_path / "own.json", 1), format_name="pmc-patients")
    page = text_of(admin.get(reverse("generation:record", args=[source.name, SourceRecord.objects.get().pk])))
    assert "This is the report of patient 1." in page
    assert "60.0 year" in page


def test_paging_forward_and_back_shows_each_record_once(admin: Client):
    batch = drafts(60)
    url = reverse("generation:source", args=[batch.source.name])

    def walk(start: str, direction: str) -> list[list[int]]:
        pages, query = [], start
        while True:
            page = admin.get(url + query).context["records"]
            pages.append([record.pk for record in page.rows])
            query = getattr(page, direction)
            if not query:
                return pages

    pages = walk("", "older")
    assert [pk for rows in pages for pk in rows] == list(queries.records(batch.source).values_list("pk", flat=True))
    assert [len(rows) for rows in pages] == [25, 25, 10]
    reversed_pages = walk(f"?cursor=after-{pages[1][-1]}", "newer")
    assert list(reversed(reversed_pages)) == pages
    assert admin.get(url + "?cursor=nonsense").context["records"].rows[0].pk == pages[0][0]


# ---------------------------------------------------------------------------------------- endpoints


FIELDS: dict[str, Any] = {
    "name": "new",
    "url": "https://models.example/v1",
    "model": "m-1",
    "price_in": 0,
    "price_out": 0,
}
SETTINGS: dict[str, Any] = {**FIELDS, "concurrency": 4, "timeout": 60}


def test_an_endpoint_page_says_whether_its_key_is_set_and_never_shows_it(
    admin: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OWN_KEY", "s3cret-value")
    assert admin.post(reverse("generation:endpoint-new"), {**SETTINGS, "key_env": "OWN_KEY"}).status_code == 302
    page = text_of(admin.get(reverse("generation:endpoints")))
    assert "OWN_KEY" in page
    assert "not set on this server" not in page
    monkeypatch.delenv("OWN_KEY")
    assert "not set on this server" in text_of(admin.get(reverse("generation:endpoints")))
    assert "s3cret-value" not in page
    monkeypatch.setattr(settings, "ENV", settings.ENV.model_copy(update={"redis_url": "redis://broker/0"}))
    assert "of the workers" in text_of(admin.get(reverse("generation:endpoints")))


def test_a_key_pasted_in_place_of_its_variables_name_is_not_stored(admin: Client):
    response = admin.post(reverse("generation:endpoint-new"), {**SETTINGS, "key_env": "sk-abcdef123"})
    assert response.status_code == 422
    assert "key_env" in response.context["form"].errors
    assert not Endpoint.objects.exists()


def test_extra_fields_and_endings_of_an_endpoint_are_rows(admin: Client):
    page = reverse("generation:endpoint-new")
    rows = {
        "extra_body.field": ["seed", "top", ""],
        "extra_body.value": ["1", "high", ""],
        "endings.ending": ["halted", ""],
        "endings.meaning": ["cut_off", ""],
    }
    grown = admin.post(page, {**SETTINGS, **rows, "add-row": "endings"})
    assert text_of(grown).count('name="endings.ending"') == 2
    assert not Endpoint.objects.exists()
    twice = admin.post(page, {**SETTINGS, "extra_body.field": ["seed", "seed"], "extra_body.value": ["1", "2"]})
    assert twice.context["form"].errors == {"extra_body": ["Row 2 repeats an earlier one."]}
    admin.post(page, {**SETTINGS, **rows})
    added = Endpoint.objects.get()
    assert (added.extra_body, added.endings) == ({"seed": 1, "top": "high"}, {"halted": "cut_off"})
    page = reverse("generation:endpoint", args=[added.name])
    assert 'value="halted"' in text_of(admin.get(page))
    admin.post(page, {**SETTINGS, **{name: [""] for name in rows}})
    added.refresh_from_db()
    assert (added.extra_body, added.endings) == ({}, {})


def test_an_endpoint_that_was_called_keeps_its_address_and_model(admin: Client):
    added = endpoints_services.add_endpoint(**SETTINGS)
    page = reverse("generation:endpoint", args=[added.name])
    admin.post(page, {**SETTINGS, "name": "other", "model": "sim-2"})
    added.refresh_from_db()
    assert (added.name, added.model, added.simulated) == ("new", "sim-2", True)
    Call.objects.create(
        job=drafts(1, "own"),
        subject="draft:1",
        endpoint=added,
        model="x",
        seconds=1,
        attempt=1,
        started_at=timezone.now(),
    )
    admin.post(page, {**SETTINGS, "url": "https://elsewhere.example/v1", "model": "m-3", "concurrency": 2})
    added.refresh_from_db()
    assert (added.url, added.model, added.concurrency, added.simulated) == (SETTINGS["url"], "sim-2", 2, True)


# ------------------------------------------------------------------------------------------ batches


def test_a_batch_is_launched_over_the_remaining_records(
    admin: Client, tmp_path: Path, models: str, sent_tasks: list[Any], django_capture_on_commit_callbacks: Any
):
    source = import_file(conversations_file(tmp_path / "own.jsonl", 5))
    endpoint(models)
    url = reverse("generation:batch-new")
    assert admin.get(url).context["left"] == 5
    refused = admin.post(url, {"benchmark": "mhb", "source": source.name, "limit": 2})
    assert refused.status_code == 422
    assert "role-generator" in refused.context["form"].errors
    data = {"benchmark": "mhb", "source": source.name, "limit": 2, "role-generator": "sim-generator", "confirmed": "1"}
    assert "examiner" in admin.post(url, data).content.decode(), "the checks need one"
    data |= {"role-examiner": "sim-generator", "one_model": "on"}
    with django_capture_on_commit_callbacks(execute=True):
        response: Page = admin.post(url, data)
    batch = Batch.objects.get()
    assert response["Location"] == reverse("generation:batch", args=[batch.pk])
    assert sent_tasks == [("check_models", batch.pk), ("run_lane",)]
    assert batch.drafts.count() == 2
    assert batch.plan["name"] == "paper"
    assert batch.checks == list(registry.check_names("mhb"))
    assert admin.get(url).context["left"] == 3
    admin.post(url, {**data, "limit": ""})
    nothing = admin.post(url, data)
    assert nothing.status_code == 422
    assert "No records are left" in nothing.context["form"].non_field_errors()[0]


def test_a_batch_page_polls_until_the_batch_ends(admin: Client, tmp_path: Path, models: str):
    source = import_file(conversations_file(tmp_path / "own.jsonl", 2))
    batch = launch.launch_batch(BatchSettings(benchmark="mhb", source=source, roles=makers(models)))
    page, fragment = (reverse(f"generation:batch{part}", args=[batch.pk]) for part in ("", "-progress"))
    assert f'hx-get="{fragment}"' in text_of(admin.get(page))
    assert "0 of 2" in text_of(admin.get(fragment))
    batches_services.work_on_batch(batch.pk)
    assert "mhb:changed" in admin.get(fragment)["HX-Trigger"]
    ended = admin.get(page)
    assert "hx-get" not in text_of(ended)
    assert ended.context["counts"]["task"] == {"dialogue": {"samples": 2, "rubrics": Rubric.objects.count()}}
    assert sum(planted.rubrics for planted in ended.context["planted"]) >= Rubric.objects.count()
    for sample in Sample.objects.all():
        assert sample.key in text_of(ended)
    assert "not evidence" in text_of(ended)


def test_a_batch_page_names_the_roles_of_its_models_in_words(admin: Client) -> None:
    batch = drafts(1)
    BatchRole.objects.create(batch=batch, role="generator", endpoint=endpoint("http://models.example/v1", "one"))
    page = text_of(admin.get(reverse("generation:batch", args=[batch.pk])))
    roles = page.partition('id="models-asked"')[2].partition("</table>")[0]
    assert "<td>Generator</td>" in roles


def test_failures_show_the_models_reply_escaped(admin: Client):
    batch = drafts(2)
    draft = fail_draft(batch)
    page = text_of(admin.get(reverse("generation:batch", args=[batch.pk])))
    calls_page = text_of(admin.get(reverse("generation:calls", args=[draft.pk])))
    assert "I would rather not." in page
    for part in ("mhb/inject_dialogue@1", "odd-1", "0.3", "41 in, 7 out", "1.50 s", "Say &lt;script&gt;"):
        assert part in calls_page
    for content in (page, calls_page):
        assert HOSTILE not in content
        assert "&lt;script&gt;" in content


def test_cancel_and_retry_need_a_post_and_refuse_a_batch_that_has_ended(
    admin: Client, sent_tasks: list[Any], django_capture_on_commit_callbacks: Any
):
    batch = drafts(2)
    fail_draft(batch)
    retry, cancel = (reverse(f"generation:batch-{action}", args=[batch.pk]) for action in ("retry", "cancel"))
    assert "cannot be undone" in text_of(admin.get(cancel))
    assert Batch.objects.get(pk=batch.pk).status == Batch.Status.RUNNING
    with django_capture_on_commit_callbacks(execute=True):
        assert admin.post(retry).status_code == 302
    assert sent_tasks == [("run_lane",)]
    assert not batch.drafts.filter(status=Status.FAILED).exists()
    assert admin.post(cancel).status_code == 302
    assert admin.post(cancel).status_code == 302, "cancelling twice does no harm"
    assert admin.post(retry).status_code == 302
    assert admin.post(reverse("generation:batch-cancel", args=[batch.pk + 1])).status_code == 404


# ------------------------------------------------------------------------------------------ samples


def test_a_corrected_wording_is_shown_with_its_changes_marked(admin: Client, sample: Sample):
    rubric = Rubric.objects.filter(version__sample=sample).order_by("pk")[0]
    Rubric.objects.filter(pk=rubric.pk).update(criterion="Names a dose.", approved="Names no dose.")
    page = text_of(admin.get(reverse("generation:sample", args=[sample.pk])))
    assert "<ins>" in page
    assert "Names a dose." not in page
    version = sample.versions.get()
    for url in (
        reverse("review:history", args=[version.case_id]),
        reverse("generation:calls", args=[version.draft_id]),
    ):
        assert f'href="{url}"' in page


def test_two_versions_are_shown_side_by_side(admin: Client, sample: Sample):
    first = sample.versions.get()
    batch = sample.batch
    draft = Draft.objects.create(batch=batch, record=sample.record, sample=sample, version=2)
    SampleVersion.objects.filter(pk=first.pk).update(status="rejected", reasons=[f"Too plain {HOSTILE}"])
    Sample.objects.update(status=Sample.Status.REGENERATING)
    Draft.objects.filter(pk=draft.pk).update(status=Status.QUEUED)
    Batch.objects.filter(pk=batch.pk).update(status=Batch.Status.RUNNING)
    batches_services.work_on_batch(batch.pk)
    url = reverse("generation:sample", args=[sample.pk])
    assert [version.number for version, *_more in admin.get(url).context["shown"]] == [2]
    both = admin.get(url + "?version=2&beside=1")
    assert [version.number for version, *_more in both.context["shown"]] == [1, 2]
    assert "Too plain &lt;script&gt;" in text_of(both)


@pytest.mark.parametrize(
    ("query", "listed"),
    [
        ("", True),
        ("?task=dialogue&status=in-review&benchmark=mhb", True),
        ("?status=approved", False),
        ("?task=none-of-them", True),  # an unknown task is ignored, as the filter form shows
        ("?text=this+is+CASE", True),
        ("?text=nowhere", False),
    ],
)
def test_samples_are_filtered_by_the_address(query: str, listed: bool, admin: Client, sample: Sample):
    page = admin.get(reverse("generation:samples") + query)
    assert page.status_code == 200
    assert page.context["page"].rows == ([sample] if listed else [])


def test_a_sample_is_found_by_its_key(admin: Client, sample: Sample):
    assert admin.get(reverse("generation:samples"), {"text": sample.key}).context["page"].rows == [sample]


# ----------------------------------------------------------------------------------------- releases


def test_without_a_benchmark_in_the_address_the_active_one_is_chosen(admin: Client, tmp_path: Path, models: str):
    run_batch(import_file(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models))
    assert admin.get(reverse("generation:release-new")).context["form"]["benchmark"].value() == "mhb"
    assert admin.get(reverse("generation:attempts")).context["filters"]["benchmark"].value() == "mhb"


def test_freezing_without_approved_samples_is_refused(admin: Client):
    response = admin.post(reverse("generation:release-new"), {"name": "first", "benchmark": "mhb"})
    assert response.status_code == 422
    assert "No samples of this benchmark have been approved yet." in response.context["form"].non_field_errors()[0]


def test_a_release_is_frozen_read_and_downloaded(
    admin: Client, adela: User, rui: User, tmp_path: Path, models: str, physicians: Sequence[User]
):
    researcher = Client()
    researcher.force_login(rui)
    first = make_release(tmp_path, models, physicians, conversations=1)
    confirmation = {"benchmark": "mhb", "seen": f"{first.samples_count}+0"}
    response: Page = admin.post(reverse("generation:release-new"), {"name": "second", **confirmation})
    assert response["Location"] == reverse("generation:releases")
    assert "0 of 1 samples" in text_of(admin.get(response["Location"]))
    release = releases_services.release_of(releases_services.run_freeze(Freeze.objects.get(name="second").pk))
    assert release.created_by == adela
    page = text_of(admin.get(reverse("generation:release", args=["second", 1])))
    for part in (release.sha256, release.sources[0]["citation"], "sim-generator", "not evidence", "export/parquet/"):
        assert part in page
    samples_page = text_of(researcher.get(reverse("generation:release-samples", args=["second", 1])))
    assert Rubric.objects.exclude(approved="").order_by("pk")[0].approved.split("'")[0] in samples_page

    export = reverse("generation:release-export", args=["second", 1, "jsonl"])
    first_download, second_download = (
        b"".join(researcher.get(export).streaming_content)  # type: ignore[attr-defined]
        for _ in range(2)
    )
    assert first_download == second_download
    archive = zipfile.ZipFile(io.BytesIO(first_download))
    assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    names = sorted(name.removeprefix("second-v1/") for name in archive.namelist())
    assert {"DATACARD.md", "SHA256SUMS", "manifest.json"} < set(names)
    assert release.sha256 in archive.read("second-v1/SHA256SUMS").decode()
    assert admin.get(reverse("generation:release-export", args=["second", 1, "xlsx"])).status_code == 422


# ------------------------------------------------------------------------------------------ queries


def batch_with_records() -> str:
    batch = drafts(2)
    return reverse("generation:source", args=[batch.source.name])


def add_records() -> None:
    source = Source.objects.get()
    run = Import.objects.create(source=source, file_name="f", path="/f", created_at=timezone.now())
    ImportRefusal.objects.bulk_create(ImportRefusal(run=run, where=f"line {n}", reason="bad") for n in range(20))
    SourceRecord.objects.bulk_create(
        SourceRecord(source=source, external_id=f"more-{n}", title="x", content={"kind": "dialogue"}) for n in range(20)
    )
    batch = Batch.objects.get()
    fresh = SourceRecord.objects.filter(external_id__startswith="more-").order_by("pk")
    rows = Draft.objects.bulk_create(
        Draft(batch=batch, record=record, status=status, error="Broken")
        for record, status in zip(fresh, [Status.FAILED, Status.DROPPED] * 10, strict=True)
    )
    Sample.objects.bulk_create(
        Sample(benchmark="mhb", task="dialogue", batch=batch, record=row.record, created_at=timezone.now())
        for row in rows
    )


@pytest.mark.parametrize("name", ["sources", "source", "endpoints", "batches", "batch", "samples", "batch-new"])
def test_no_page_needs_more_queries_for_more_rows(name: str, admin: Client):
    source_url = batch_with_records()
    batch = Batch.objects.get()
    endpoints_services.add_endpoint(**SETTINGS)
    fail_draft(batch)
    Draft.objects.filter(pk=batch.drafts.order_by("pk")[1].pk).update(status=Status.DROPPED)
    run = Import.objects.create(source=batch.source, file_name="e", path="/e", created_at=timezone.now())
    ImportRefusal.objects.create(run=run, where="line 1", reason="bad")
    Sample.objects.create(
        benchmark="mhb",
        task="dialogue",
        batch=batch,
        record=batch.drafts.order_by("pk")[0].record,
        created_at=timezone.now(),
    )
    url = {"source": source_url, "batch": reverse("generation:batch", args=[batch.pk])}.get(name) or reverse(
        f"generation:{name}"
    )
    few = query_count(admin, url)
    add_records()
    for number in range(5):
        drafts(1, f"bare-{number}")
        endpoints_services.add_endpoint(**{**SETTINGS, "name": f"new-{number}"})
    assert query_count(admin, url) == few


@pytest.mark.parametrize("name", ["releases", "release", "release-samples"])
def test_no_page_of_a_release_needs_more_queries_for_more_rows(name: str, admin: Client):
    release = bare_release(("dialogue", [["A1"]]))

    def args(shown: Release) -> list[Any]:
        return [shown.name, shown.version] if name != "releases" else []

    few = query_count(admin, reverse(f"generation:{name}", args=args(release)))
    version = release.samples.get().version
    for number in range(2, 8):
        Release.objects.create(
            name="bare",
            version=number,
            benchmark="mhb",
            samples_count=1,
            rubrics_count=1,
            counts=release.counts,
            generators=[],
            sources=[],
            simulated=False,
            sha256=f"{number}" * 64,
            created_at=timezone.now(),
        )
    big = Release.objects.get(version=7)
    big.samples.bulk_create(
        type(release.samples.get())(
            release=big,
            position=n,
            version=version,
            key=f"k{n}",
            task="dialogue",
            exported=release.samples.get().exported,
        )
        for n in range(12)
    )
    assert query_count(admin, reverse(f"generation:{name}", args=args(big))) == few


def test_the_page_of_an_automatically_paused_batch_says_why(admin: Client):
    batch = drafts(2)
    Batch.objects.filter(pk=batch.pk).update(
        status=Batch.Status.PAUSED, paused_because="KeyMissing", paused_detail="Variable: OWN_KEY."
    )
    page = text_of(admin.get(reverse("generation:batch", args=[batch.pk])))
    assert "Variable: OWN_KEY." in page
    assert "paused" in page
