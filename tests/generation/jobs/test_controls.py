"""Controls of a batch by page, API and shell, and the estimate that is shown before a launch."""

from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from generation import errors
from generation.batches import estimate as batches_estimate
from generation.batches import launch as batches_launch
from generation.batches import services
from generation.batches.launch import BatchSettings
from generation.jobs import estimate as jobs_estimate
from generation.jobs import life_cycle
from generation.jobs.estimate import TOKENS_IN, TOKENS_OUT
from generation.models import Batch, Call, Endpoint, EndpointState, Source
from generation.models.work import Work
from review.models import User
from tests.api.conftest import Api, api
from tests.conftest import RunConcurrently
from tests.engine import (
    Manage,
    drafts,
    endpoint,
    import_file,
    launch_batch,
    makers,
    reports_file,
    run_batch,
    simulator,
)
from tests.review.pages import text_of

__all__ = ["api"]
pytestmark = pytest.mark.usefixtures("sent_tasks")

Page = Any
Status = Batch.Status


def url_of(batch: Batch, suffix: str = "") -> str:
    return reverse(f"generation:batch{suffix}", args=[batch.pk])


# ----------------------------------------------------------------------------------------- controls


def test_pause_and_resume_on_the_page_may_be_repeated(
    admin: Client, source: Source, models: str, sent_tasks: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    batch = launch_batch(source, endpoint(models))
    page = text_of(admin.get(url_of(batch)))
    assert url_of(batch, "-pause") in page
    assert url_of(batch, "-resume") not in page
    for _ in range(2):
        assert admin.post(url_of(batch, "-pause")).status_code == 302
    batch.refresh_from_db()
    assert batch.status == Status.PAUSED
    assert services.work_on_batch(batch.pk) == 0
    page = text_of(admin.get(url_of(batch)))
    assert "Resume to continue where it stopped." in page
    assert url_of(batch, "-cancel") in page, "a paused one can be cancelled"
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(2):
            assert admin.post(url_of(batch, "-resume")).status_code == 302
    assert set(sent_tasks) == {("check_models", batch.pk), ("run_lane",)}
    services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert batch.status == Status.FINISHED
    refused = admin.post(url_of(batch, "-pause"), follow=True)
    assert (refused.status_code, refused.redirect_chain[0][0]) == (200, url_of(batch)), "it stays on the page"
    assert "has already ended" in text_of(refused)
    assert "-pause" not in text_of(admin.get(url_of(batch)))


def test_a_spent_budget_is_raised_on_the_page(admin: Client, source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models), budget_calls=2)
    services.work_on_batch(batch.pk)
    page = text_of(admin.get(url_of(batch)))
    assert "Raise the budget" in page
    assert url_of(batch, "-resume") not in page, "without a budget it cannot continue"
    assert 'id="budget" open' in page
    assert "Cost budget (USD)" in page
    assert "2 of 2 calls" in page
    assert admin.post(url_of(batch, "-resume")).status_code == 302
    refused: Page = admin.post(url_of(batch, "-budget"), {"budget_calls": "many"}, follow=True)
    assert "Call budget" in " ".join(str(message) for message in refused.context["messages"])
    for _ in range(2):
        limits = {"budget_calls": "6", "budget_money": "1.5", "priority": "high", "most_lanes": "2"}
        assert admin.post(url_of(batch, "-budget"), limits).status_code == 302
    batch.refresh_from_db()
    assert (batch.priority, batch.most_lanes) == ("high", 2)
    assert (batch.status, batch.budget_calls, batch.budget_money) == (Status.RUNNING, 6, Decimal("1.5"))
    services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert (batch.status, batch.calls) == (Status.FINISHED, 6)


def test_a_missing_key_is_named_on_the_page(
    admin: Client, source: Source, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = launch_batch(source, endpoint(models, key_env="OWN_KEY"))
    services.work_on_batch(batch.pk)
    page = text_of(admin.get(url_of(batch)))
    assert "<code>OWN_KEY</code>" in page
    assert reverse("generation:endpoint", args=["sim-generator"]) in page
    monkeypatch.setenv("OWN_KEY", "k")
    admin.post(url_of(batch, "-resume"))
    services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert batch.status == Status.FINISHED


def test_the_page_links_to_the_endpoint_that_is_down(admin: Client, source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models))
    unrelated = endpoint(models, "sim-judge")
    now = timezone.now()
    for target in (Endpoint.objects.get(name="sim-generator"), unrelated):
        EndpointState.objects.create(endpoint=target, down_since=now, error="ServerError")
    life_cycle.pause(batch.pk, because="EndpointDown", detail="sim-generator (ServerError)")
    paused = text_of(admin.get(url_of(batch))).partition('id="paused"')[2].partition("</div>")[0]
    assert reverse("generation:endpoint", args=["sim-generator"]) in paused
    assert "sim-judge" not in paused, "this batch does not use it"


def test_a_resting_batch_can_be_resumed_at_once(admin: Client, source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models))
    target = Endpoint.objects.get(name="sim-generator")
    until = timezone.now() + timedelta(hours=20)
    EndpointState.objects.create(endpoint=target, blocked_until=until, error="RateLimited")
    resume = reverse("generation:batch-resume", args=[batch.pk])
    assert resume not in text_of(admin.get(url_of(batch)))
    life_cycle.rest(batch.pk, until)
    assert resume in text_of(admin.get(url_of(batch)))
    assert services.work_on_batch(batch.pk) == 0
    admin.post(resume)
    assert resume not in text_of(admin.get(url_of(batch)))
    assert services.work_on_batch(batch.pk) == 6


def test_the_page_of_a_batch_makes_as_many_queries_however_large_it_is(admin: Client) -> None:
    def query_count(batch: Batch) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert admin.get(url_of(batch)).status_code == 200
        return len(queries)

    small, large = drafts(1, "small"), drafts(60, "large")
    query_count(small)
    assert query_count(small) == query_count(large)
    life_cycle.pause(small.pk)
    life_cycle.pause(large.pk)
    assert query_count(small) == query_count(large)


def test_a_batch_is_controlled_over_the_api(api: Api, adela: User, source: Source, models: str) -> None:
    batch, client = launch_batch(source, endpoint(models), budget_calls=2), api(adela)

    def post(action: str, body: Any = None, status: int = 200) -> dict[str, Any]:
        response = client.post(reverse(f"api:batch-{action}", args=[batch.pk]), body)
        assert response.status_code == status, response.content
        content: dict[str, Any] = response.json()
        return content

    for _ in range(2):
        assert post("pause")["status"] == "paused"
    assert post("resume", status=202)["status"] == "running"
    services.work_on_batch(batch.pk)
    spent = client.get(reverse("api:batch", args=[batch.pk])).json()
    assert (spent["paused_because"], spent["advice"]) == ("BudgetSpent", "Raise the budget to continue.")
    assert post("resume", status=409)["type"] == "urn:mhb:budget-too-small"
    post("budget", {}, status=400)
    post("budget", {"budget_calls": -1}, status=400)
    post("budget", {"budget_calls": 2**31}, status=400)
    raised = post("budget", {"budget_money": "2"}, status=202)
    assert (raised["budget_calls"], raised["budget_money"], raised["status"]) == (2, "2.0000", "paused")
    raised = post("budget", {"budget_calls": None}, status=202)
    assert (raised["budget_calls"], raised["status"], raised["advice"]) == (None, "running", "")
    post("budget", {"priority": "urgent"}, status=400)
    post("budget", {"most_lanes": 0}, status=400)
    paced = post("budget", {"priority": "low", "most_lanes": 4}, status=202)
    assert (paced["priority"], paced["most_lanes"], paced["budget_money"]) == ("low", 4, "2.0000")
    for _ in range(2):
        assert post("cancel")["status"] == "cancelled"
    assert post("budget", {"budget_calls": 9}, status=409)["status"] == 409


def test_a_batch_is_controlled_from_the_shell(manage: Manage, source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models), budget_calls=2)
    name = f"batch:{batch.pk}"
    for _ in range(2):
        assert manage.json("control_job", "pause", name)["status"] == "paused"
    assert manage.json("control_job", "resume", name)["status"] == "running"
    services.work_on_batch(batch.pk)
    assert "no more calls" in manage.refusal("control_job", "resume", name)
    printed = manage.json("control_job", "budget", name, "--budget", "3.5")
    assert (printed["status"], printed["budget"], printed["budget_calls"]) == ("paused", "3.5000", 2)
    assert "Raise the budget" in printed["advice"]
    assert manage.json("control_job", "budget", name, "--budget-calls", "none")["status"] == "running"
    paced = manage.json("control_job", "pace", name, "--priority", "high", "--most-lanes", 3)
    assert (paced["priority"], paced["most_lanes"]) == ("high", 3)
    assert manage.json("control_job", "pace", name, "--most-lanes", "none")["most_lanes"] is None
    batch.drafts.filter(status=Work.Status.QUEUED).update(status=Work.Status.FAILED, error="TimedOut")
    assert manage.json("control_job", "retry", name)["again"] == 4
    for _ in range(2):
        assert manage.json("control_job", "cancel", name)["status"] == "cancelled"
    assert "already ended" in manage.refusal("control_job", "retry", name)
    assert "no batch with this number" in manage.refusal("control_job", "pause", "batch:4711")
    assert "--budget" in manage.refusal("control_job", "budget", name)
    for wrong in ("batch", "sample:1", f"batch:{'9' * 30}"):
        code, out, err = manage("control_job", "pause", wrong)
        assert (bool(code), out) == (True, "")
        assert "neither batch:N nor run:N" in err


# ---------------------------------------------------------------------------------------- estimates


def test_an_estimate_makes_assumptions_about_prompts_without_calls(tmp_path: Path, source: Source, models: str) -> None:
    reports = import_file(reports_file(tmp_path / "own.json", 3), "reports", "pmc-patients")
    generator = endpoint(models, price_in="1", price_out="10")
    roles = {"generator": generator, "examiner": generator}
    choices: dict[str, Any] = {"benchmark": "mhb", "roles": roles, "one_model": True}
    estimate = batches_estimate.estimate_batch(BatchSettings(source=reports, **choices))
    lines = [(line.role, line.prompt.partition("@")[0], line.calls, line.measured) for line in estimate.lines]
    assert lines == [
        ("generator", "mhb/question_report", 3, 0),
        ("checker", "mhb/answerable_report", 3, 0),
        ("examiner", "mhb/examine_blind", 3, 0),
        ("examiner", "mhb/examine", 3, 0),
        ("examiner", "mhb/answer_plainly", 3, 0),
        ("examiner", "mhb/judge_all", 3, 0),
    ]
    assert (estimate.calls, estimate.tokens_in, estimate.tokens_out) == (18, 18 * TOKENS_IN, 18 * TOKENS_OUT)
    assert estimate.cost == (estimate.tokens_in + 10 * estimate.tokens_out) / Decimal(10**6)
    assert estimate.budget_calls == 23, "a quarter more, rounded up"
    assert estimate.budget_money == Decimal("0.30"), "0.2925, rounded up to whole cents"
    unchecked = batches_estimate.estimate_batch(BatchSettings(source=reports, checks=("leak",), limit=2, **choices))
    assert [(line.role, line.calls) for line in unchecked.lines] == [("generator", 2)]
    pair = batches_estimate.estimate_batch(
        BatchSettings(source=reports, checks=(), prompts="", compare="v1", **choices)
    )
    assert sorted(line.prompt.rpartition("@")[0] for line in pair.lines) == [
        "mhb/question_report",
        "mhb/v1/question_report",
    ]
    assert (pair.calls, pair.jobs, pair.budget_calls) == (6, 2, 4)


def test_an_estimate_uses_earlier_calls_including_their_retries(source: Source) -> None:
    with simulator("500@0.3") as url:
        generator = endpoint(url, price_in="2", price_out="4")
        batch = run_batch(source, generator, 4)
    calls = Call.objects.filter(job=batch)
    estimate = batches_estimate.estimate_batch(
        BatchSettings(benchmark="mhb", source=source, roles={"generator": generator}, checks=())
    )
    [line] = estimate.lines
    assert line.requests == 2
    assert line.measured == calls.count() > 4, "some calls were retried"
    assert line.calls == -(-2 * calls.count() // 4)
    assert line.tokens_in >= line.calls * batch.tokens_in // calls.count()
    assert line.cost > 0
    same_model = endpoint(url, name="second-name")
    other_model = endpoint(url, "sim-careful")
    measured = [
        batches_estimate.estimate_batch(
            BatchSettings(benchmark="mhb", source=source, roles={"generator": generator}, checks=())
        )
        .lines[0]
        .measured
        for generator in (same_model, other_model)
    ]
    assert measured == [line.measured, 0]


def test_an_estimate_averages_the_latest_calls_and_finds_them_by_index(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simulator() as url:
        generator = endpoint(url)
        batch = run_batch(source, generator, 4)
    lines = Call.objects.filter(job=batch).order_by("-pk")
    last = list(lines.values_list("pk", flat=True)[:3])
    lines.exclude(pk__in=last).update(tokens_in=10**6)
    lines.filter(pk__in=last).update(tokens_in=50)
    monkeypatch.setattr(jobs_estimate, "MAX_MEASURED", 3)
    [line] = batches_estimate.estimate_batch(
        BatchSettings(benchmark="mhb", source=source, roles={"generator": generator}, checks=())
    ).lines
    assert (line.measured, line.calls, line.tokens_in) == (3, 2, 100)
    if connection.vendor == "sqlite":  # PostgreSQL scans the whole of such a small table
        with CaptureQueriesContext(connection) as queries:
            jobs_estimate._recent_calls(generator.model, line.prompt)
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN QUERY PLAN " + queries.captured_queries[-1]["sql"])
            assert "USING INDEX call_prompt" in str(cursor.fetchall())


def test_an_estimate_refuses_what_a_launch_would(source: Source, models: str) -> None:
    choices: dict[str, Any] = {"benchmark": "mhb", "source": source, "roles": makers(models)}
    for wrong, error in (
        ({"roles": {}}, errors.RolesUnbound),
        ({"limit": 0}, errors.InvalidSettings),
        ({"prompts": "v1", "compare": "v1"}, errors.SamePrompts),
        ({"prompts": "v9"}, errors.UnknownPrompts),
    ):
        with pytest.raises(error):
            batches_estimate.estimate_batch(BatchSettings(**{**choices, **wrong}))


def test_the_page_asks_before_it_launches(admin: Client, source: Source, models: str) -> None:
    endpoint(models, price_in="1", price_out="2")
    url = reverse("generation:batch-new")
    data = {"benchmark": "mhb", "source": source.name, "role-generator": "sim-generator", "fresh": "on", "limit": "4"}
    data |= {"role-examiner": "sim-generator", "one_model": "on"}
    confirmation: Page = admin.post(url, data)
    assert confirmation.status_code == 200
    assert not Batch.objects.exists()
    page = text_of(confirmation)
    assert "assumed: 3,000 input and 1,000 output tokens" in page
    assert confirmation.context["form"].initial == {"budget_money": Decimal("0.13"), "budget_calls": 25}
    sent = {**dict(confirmation.context["carried"]), "budget_money": "0.03", "budget_calls": "", "confirmed": "1"}
    wrong: Page = admin.post(url, {**sent, "budget_money": "-1"})
    assert (wrong.status_code, list(wrong.context["form"].errors)) == (422, ["budget_money"])
    assert 'value="-1"' in text_of(wrong), "the page of the estimate asks again"
    answer = admin.post(url, sent)
    batch = Batch.objects.get()
    assert answer["Location"] == url_of(batch)
    assert admin.post(url, sent)["Location"] == url_of(batch), "a second press does not launch the next records"
    assert Batch.objects.count() == 1
    assert (batch.budget_money, batch.budget_calls, batch.fresh) == (Decimal("0.03"), None, True)
    assert batch.drafts.count() == 4


def test_simultaneous_launches_with_the_same_key_make_one_batch(
    source: Source, adela: User, run_concurrently: RunConcurrently, models: str
) -> None:
    """Without a key, the second launch would wait, and then take other records or none."""
    choices: dict[str, Any] = {
        "benchmark": "mhb",
        "source": source,
        "roles": makers(models),
    }
    for key, limit in (("some", 1), ("rest", None)):
        settings = BatchSettings(**choices, limit=limit)
        first, second = run_concurrently([partial(batches_launch.launch_batch, settings, actor=adela, key=key)] * 2)
        assert isinstance(first, Batch)
        assert first == second
    assert Batch.objects.count() == 2


def test_launches_with_the_same_key_make_one_comparison(source: Source, adela: User, models: str) -> None:
    choices: dict[str, Any] = {
        "benchmark": "mhb",
        "source": source,
        "roles": makers(models),
        "limit": 1,
    }
    settings = BatchSettings(**choices, compare="v1")
    comparisons = [batches_launch.launch_comparison(settings, actor=adela, key="a") for _ in range(2)]
    assert comparisons[0] == comparisons[1]
    assert batches_launch.launch_batch(BatchSettings(**choices), actor=adela, key="a").comparison is None


def test_launching_by_service_wakes_workers_for_each_batch(
    source: Source, models: str, sent_tasks: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    settings = BatchSettings(benchmark="mhb", source=source, roles=makers(models), limit=1)
    with django_capture_on_commit_callbacks(execute=True):
        batch = batches_launch.launch_batch(settings)
    assert sent_tasks == [("check_models", batch.pk), ("run_lane",)]
    sent_tasks.clear()
    with django_capture_on_commit_callbacks(execute=True):
        comparison = batches_launch.launch_comparison(settings.model_copy(update={"compare": "v1"}))
    arms = comparison.batches.order_by("arm").values_list("pk", flat=True)
    assert sent_tasks == [message for pk in arms for message in (("check_models", pk), ("run_lane",))]


def test_the_shell_asks_before_it_launches(manage: Manage, source: Source, models: str) -> None:
    endpoint(models)
    roles = ("--generator", "sim-generator", "--role", "examiner=sim-generator", "--one-model")
    launch = ("generate", "--benchmark", "mhb", "--source", "own", *roles, "--limit", 2)
    code, out, err = manage(*launch, "--json")
    assert code == 1
    assert "--budget" in err
    assert '"budget_calls": 13' in out
    assert not Batch.objects.exists()
    printed = manage.json(*launch, "--budget-calls", 1, "--fresh")
    batch = Batch.objects.get(pk=printed["batch"])
    assert (batch.budget_calls, batch.budget_money, batch.fresh) == (1, None, True)
    manage.json(*launch, "--budget", "2.50")
    assert Batch.objects.latest("pk").budget_money == Decimal("2.5")
    manage.json(*launch, "--yes")
    assert Batch.objects.latest("pk").budget_calls is None
    for option in ("--budget", "--budget-calls"):
        for wrong in ("-1", "much", "1e99"):
            code, out, err = manage(*launch, f"{option}={wrong}")
            assert (bool(code), out, "Traceback" in err) == (True, "", False)
    assert Batch.objects.count() == 3


def test_the_api_asks_before_it_launches(api: Api, adela: User, source: Source, models: str) -> None:
    endpoint(models)
    roles = {"generator": "sim-generator", "examiner": "sim-generator"}
    body = {"benchmark": "mhb", "source": source.name, "roles": roles, "one_model": True}
    client = api(adela)
    for kind, more in (("batch", {}), ("comparison", {"compare": "v1"})):
        estimate = client.post(reverse(f"api:{kind}-estimate"), {**body, **more})
        assert (estimate.status_code, estimate.json()["calls"]) == (200, 60 if more else 30)
        launch = reverse("api:batches" if kind == "batch" else "api:comparisons")
        refused = client.post(launch, {**body, **more})
        assert refused.status_code == 400
        assert "confirmed" in str(refused.json())
    assert not Batch.objects.exists()
    batch = client.post(reverse("api:batches"), {**body, "budget_money": "4", "fresh": True}).json()
    assert (batch["budget_money"], batch["budget_calls"], batch["fresh"]) == ("4.0000", None, True)


# ---------------------------------------------------------------------------------------- endpoints


def test_rate_limits_of_an_endpoint_are_set_by_page_and_api(admin: Client, api: Api, adela: User) -> None:
    fields = {"name": "new", "url": "https://models.example/v1", "model": "m", "price_in": 0, "price_out": 0}
    fields |= {"concurrency": 4, "timeout": 60}
    assert admin.post(reverse("generation:endpoint-new"), {**fields, "rpm": 60, "tpm": 9000}).status_code == 302
    target = Endpoint.objects.get()
    assert (target.rpm, target.tpm) == (60, 9000)
    page = reverse("generation:endpoint", args=["new"])
    assert admin.post(page, {**fields, "rpm": "", "tpm": "0"}).status_code == 422
    assert admin.post(page, {**fields, "rpm": "", "tpm": "8000"}).status_code == 302
    changed = api(adela).patch(reverse("api:endpoint", args=["new"]), {"rpm": 30}).json()
    assert (changed["rpm"], changed["tpm"]) == (30, 8000)
    assert api(adela).patch(reverse("api:endpoint", args=["new"]), {"tpm": 0}).status_code in (400, 422)
