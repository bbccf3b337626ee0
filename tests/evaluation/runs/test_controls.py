"""Controls of a run, and the estimate before a launch, on pages, API and shell."""

import json
from datetime import UTC, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation import errors
from evaluation.models import Run
from evaluation.runs import estimate as runs_estimate
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from generation.jobs.estimate import TOKENS_IN, TOKENS_OUT
from generation.models import Batch, Call, EndpointDay, Release
from review.models import User
from tests.api.conftest import Api, api
from tests.conftest import RunConcurrently
from tests.engine import Manage, bare_release, endpoint, evaluate_release, launch_run, make_release
from tests.review.pages import text_of

__all__ = ["api"]

Page = Any
Status = Run.Status

pytestmark = pytest.mark.usefixtures("sent_tasks")


@pytest.fixture
def release(db: None) -> Release:
    """Three samples of two tasks, with four rubrics in total."""
    return bare_release(("dialogue", [["A1"], ["A1"]]), ("dialogue", [["A1"]]), ("report", [["A1"]]))


def address(run: Run, suffix: str = "") -> str:
    return reverse(f"evaluation:run{suffix}", args=[run.pk])


# ----------------------------------------------------------------------------------------- controls


def test_a_run_is_paused_resumed_and_given_budget_on_the_page(
    admin: Client,
    rui: User,
    release: Release,
    models: str,
    sent_tasks: list[Any],
    django_capture_on_commit_callbacks: Any,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        run = launch_run(release, models, "sim-careful", budget_calls=2)
    assert sent_tasks == [("check_models", run.pk), ("run_lane",)]
    sent_tasks.clear()
    for _ in range(2):
        assert admin.post(address(run, "-pause")).status_code == 302
    page = text_of(admin.get(address(run)))
    assert "Paused" in page
    assert address(run, "-cancel") in page
    reader = Client()
    reader.force_login(rui)
    for control in ("-pause", "-resume", "-budget", "-cancel"):
        assert address(run, control) not in text_of(reader.get(address(run)))
    with django_capture_on_commit_callbacks(execute=True):
        assert admin.post(address(run, "-resume")).status_code == 302
    assert sent_tasks == [("check_models", run.pk), ("run_lane",)]
    work.work_on_run(run.pk)
    assert "2 of 2 calls" in text_of(admin.get(address(run)))
    assert admin.post(address(run, "-resume")).status_code == 302
    admin.post(address(run, "-budget"), {"budget_calls": "11", "budget_money": ""})
    work.work_on_run(run.pk)
    run.refresh_from_db()
    assert (run.status, run.calls) == (Status.FINISHED, 11), "3 answers, 4 judgments and their repairs"
    assert admin.post(address(run, "-pause")).status_code == 302


def test_cancelling_asks_for_confirmation(admin: Client, release: Release, models: str) -> None:
    run = launch_run(release, models, "sim-careful")
    assert "cannot be undone" in text_of(admin.get(address(run, "-cancel")))
    assert Run.objects.get().status == Status.RUNNING
    for _ in range(2):
        assert admin.post(address(run, "-cancel")).status_code == 302
    assert Run.objects.get().status == Status.CANCELLED
    assert 'id="budget"' not in text_of(admin.get(address(run)))


def test_a_run_is_controlled_over_the_api(api: Api, adela: User, release: Release, models: str) -> None:
    run, client = launch_run(release, models, "sim-careful", budget_calls=1), api(adela)

    def post(action: str, body: Any = None, status: int = 200) -> dict[str, Any]:
        response = client.post(reverse(f"api:run-{action}", args=[run.pk]), body)
        assert response.status_code == status, response.content
        data: dict[str, Any] = response.json()
        return data

    for _ in range(2):
        assert post("pause")["status"] == "paused"
    assert post("resume", status=202)["status"] == "running"
    work.work_on_run(run.pk)
    assert post("resume", status=409)["type"] == "urn:mhb:budget-too-small"
    raised = post("budget", {"budget_calls": 100, "budget_money": "3"}, status=202)
    assert (raised["status"], raised["budget_calls"], raised["budget_money"]) == ("running", 100, "3.0000")
    for _ in range(2):
        assert post("cancel")["status"] == "cancelled"


def test_a_run_is_controlled_in_the_shell(manage: Manage, release: Release, models: str) -> None:
    run = launch_run(release, models, "sim-careful", budget_calls=1)
    name = f"run:{run.pk}"
    for _ in range(2):
        assert manage.json("control_job", "pause", name)["status"] == "paused"
    assert manage.json("control_job", "resume", name)["status"] == "running"
    work.work_on_run(run.pk)
    output = manage.json("control_job", "budget", name, "--budget-calls", 11)
    assert (output["job"], output["status"], output["budget_calls"], output["calls"]) == (name, "running", 11, 1)
    work.work_on_run(run.pk)
    assert "already ended" in manage.refusal("control_job", "cancel", name)
    retried = manage.json("control_job", "retry", name)
    assert (retried["again"], retried["status"]) == (4, "running"), "the simulated judge knows none of these criteria"
    assert manage.json("control_job", "cancel", name)["status"] == "cancelled"
    assert "already ended" in manage.refusal("control_job", "retry", name)
    assert "no run with this number" in manage.refusal("control_job", "pause", "run:4711")


def test_the_api_can_show_very_high_costs(api: Api, adela: User, release: Release, models: str) -> None:
    """In yen, a run of a few thousand calls costs millions."""
    run, client = launch_run(release, models, "sim-careful"), api(adela)
    cost = Decimal("9999999999.50000000")
    Run.objects.update(cost=cost)
    Batch.objects.update(cost=cost)
    today = timezone.now().astimezone(UTC).date()
    EndpointDay.objects.bulk_create(
        EndpointDay(endpoint=run.judge, day=today - timedelta(days=ago), calls=1, cost=cost) for ago in (1, 2)
    )
    for name, number in (("run", run.pk), ("run-report", run.pk), ("batch", Batch.objects.get().pk)):
        response = client.get(reverse(f"api:{name}", args=[number]))
        assert response.status_code == 200
        assert str(cost) in response.content.decode()
    for name in ("runs", "batches", "endpoints"):
        assert client.get(reverse(f"api:{name}")).status_code == 200
    usage = client.get(reverse("api:endpoint-usage", args=["sim-judge"]))
    assert Decimal(usage.json()["total"]["cost"]) == 2 * cost


# ---------------------------------------------------------------------------------------- estimates


def test_an_estimate_counts_calls_by_role_endpoint_and_prompt(release: Release, models: str) -> None:
    targets = [endpoint(models, name, price_in="1") for name in ("sim-careful", "sim-reckless")]
    judge = endpoint(models, "sim-judge", price_out="10")
    per_rubric = runs_estimate.estimate_run(RunSettings(release=release, endpoints=[*targets, targets[0]], judge=judge))
    assert [(line.role, line.endpoint, line.calls, line.measured) for line in per_rubric.lines] == [
        ("target", "sim-careful", 2, 0), ("target", "sim-careful", 1, 0),
        ("target", "sim-reckless", 2, 0), ("target", "sim-reckless", 1, 0), ("judge", "sim-judge", 8, 0),
    ]  # fmt: skip
    assert per_rubric.cost == (6 * TOKENS_IN + 10 * 8 * TOKENS_OUT) / Decimal(10**6)
    per_sample = runs_estimate.estimate_run(
        RunSettings(release=release, endpoints=targets, judge=judge, judging="per-sample")
    )
    assert [(line.prompt.partition("@")[0], line.calls) for line in per_sample.lines][4:] == [("mhb/judge_all", 6)]
    with pytest.raises(errors.NoEndpoints):
        runs_estimate.estimate_run(RunSettings(release=release, endpoints=[], judge=judge))


def test_a_run_makes_the_estimated_calls(tmp_path: Path, models: str, ana: User, bo: User) -> None:
    release = make_release(tmp_path, models, [ana, bo], conversations=2)
    for judging in Run.Judging.values:
        target, judge = endpoint(models, "sim-careful"), endpoint(models, "sim-judge")
        estimate = runs_estimate.estimate_run(
            RunSettings(release=release, endpoints=[target], judge=judge, judging=judging, fresh=True)
        )
        run = evaluate_release(release, models, "sim-careful", judging=judging, fresh=True)
        assert run.calls == estimate.calls
        prompts = set(Call.objects.filter(job=run).values_list("prompt", flat=True))
        assert prompts == {line.prompt for line in estimate.lines}
    measured = runs_estimate.estimate_run(RunSettings(release=release, endpoints=[target], judge=judge, fresh=True))
    assert all(line.measured and line.tokens_out != line.calls * TOKENS_OUT for line in measured.lines)


def test_an_estimate_leaves_out_paid_replies_unless_the_run_is_fresh(release: Release, models: str) -> None:
    """The judge does not know these criteria, so each of its replies was repaired once.

    The estimate expects the same for the next run.
    """
    evaluate_release(release, models, "sim-careful")
    target, judge = endpoint(models, "sim-careful"), endpoint(models, "sim-judge")
    repeated = runs_estimate.estimate_run(RunSettings(release=release, endpoints=[target], judge=judge)).lines
    assert [(line.requests, line.cached, line.calls) for line in repeated] == [(2, 1.0, 0), (1, 1.0, 0), (4, None, 8)]
    fresh = runs_estimate.estimate_run(RunSettings(release=release, endpoints=[target], judge=judge, fresh=True)).lines
    assert [(line.cached, line.calls) for line in fresh] == [(None, 2), (None, 1), (None, 8)]
    other_model = runs_estimate.estimate_run(
        RunSettings(release=release, endpoints=[endpoint(models, "sim-reckless")], judge=judge)
    ).lines
    assert [(line.cached, line.calls) for line in other_model] == [(0.0, 2), (0.0, 1), (None, 8)]


def test_calls_in_batches_are_estimated_and_labelled_at_the_batch_price(
    admin: Client, manage: Manage, api: Api, adela: User, release: Release, models: str
) -> None:
    target = endpoint(models, "sim-careful", price_in="2", price_out="4")
    judge = endpoint(models, "sim-judge", price_out="10", batches=True, batch_discount="0.25")
    live = runs_estimate.estimate_run(RunSettings(release=release, endpoints=[target], judge=judge))
    with pytest.raises(errors.NoBatches):
        runs_estimate.estimate_run(RunSettings(release=release, endpoints=[target], judge=target, transport="batch"))
    batched = runs_estimate.estimate_run(
        RunSettings(release=release, endpoints=[target], judge=judge, transport="batch")
    )
    assert [line.batched for line in batched.lines] == [False, False, True]
    assert batched.lines[:2] == live.lines[:2]
    assert (batched.lines[2].calls, batched.lines[2].cost) == (4, live.lines[2].cost / 4)
    # The judge does not know these criteria: each of its replies is repaired once, live.
    evaluate_release(release, models, "sim-careful")
    live, batched = (
        runs_estimate.estimate_run(RunSettings(release=release, endpoints=[target], judge=judge, transport=transport))
        for transport in Run.Transport.values
    )
    assert (batched.lines[2].requests, batched.lines[2].calls) == (4, 8)
    assert batched.lines[2].cost == pytest.approx(live.lines[2].cost * Decimal("0.625"), rel=Decimal("0.001"))

    data = {"release": release.pk, "endpoints": ["sim-careful"], "judge": "sim-judge", "judging": "per-rubric"}
    page: Page = admin.post(reverse("evaluation:run-new"), {**data, "transport": "batch"})
    assert page.context["estimate"] == batched
    assert text_of(page).count("at the provider batch price") == 1
    body = {"release": "bare", "endpoints": ["sim-careful"], "judge": "sim-judge", "transport": "batch"}
    estimate = api(adela).post(reverse("api:run-estimate"), body).json()
    assert [line["batched"] for line in estimate["lines"]] == [False, False, True]
    launch = ("evaluate", "--release", "bare", "--endpoint", "sim-careful", "--judge", "sim-judge")
    _code, out, _err = manage(*launch, "--transport", "batch", "--json")
    assert [line["batched"] for line in json.loads(out)["lines"]] == [False, False, True]


def test_the_page_asks_for_confirmation_before_a_launch(admin: Client, release: Release, models: str) -> None:
    for name in ("sim-careful", "sim-judge"):
        endpoint(models, name, price_in="1")
    url = reverse("evaluation:run-new")
    data = {"release": release.pk, "endpoints": ["sim-careful"], "judge": "sim-judge", "judging": "per-sample"}
    page: Page = admin.post(url, {**data, "judge_temperature": "0.25", "fresh": "on"})
    assert page.status_code == 200
    assert not Run.objects.exists()
    assert page.context["form"].initial["budget_calls"] == 8
    confirmed = {**dict(page.context["carried"]), "budget_calls": "8", "confirmed": "1"}
    assert admin.post(url, confirmed).status_code == 302
    run = Run.objects.get()
    assert admin.post(url, confirmed)["Location"] == address(run), "sending the form twice launches one run"
    assert Run.objects.count() == 1
    assert (run.judging, run.judge_temperature, run.fresh) == ("per-sample", 0.25, True)
    assert (run.budget_calls, run.budget_money) == (8, None)


def test_shell_and_api_need_a_confirmation_or_budget_to_launch(
    manage: Manage, api: Api, adela: User, release: Release, models: str
) -> None:
    for name in ("sim-careful", "sim-judge"):
        endpoint(models, name)
    launch = ("evaluate", "--release", "bare", "--endpoint", "sim-careful", "--judge", "sim-judge")
    code, out, err = manage(*launch, "--json")
    assert (code, '"calls": 7' in out, "--yes" in err) == (1, True, True)
    body = {"release": "bare", "endpoints": ["sim-careful"], "judge": "sim-judge", "judging": "per-sample"}
    client = api(adela)
    estimate = client.post(reverse("api:run-estimate"), body).json()
    assert (estimate["calls"], estimate["budget_calls"], estimate["budget_money"]) == (6, 8, None)
    assert client.post(reverse("api:runs"), body).status_code == 400
    assert not Run.objects.exists()
    run = client.post(reverse("api:runs"), {**body, "budget_calls": 8}).json()
    assert (run["judging"], run["budget_calls"], run["status"]) == ("per-sample", 8, "running")
    assert manage.json(*launch, "--budget", "1")["status"] == "running"


def test_the_api_launches_once_per_idempotency_key(
    api: Api, adela: User, bo: User, run_concurrently: RunConcurrently, release: Release, models: str
) -> None:
    targets, judge = [endpoint(models, "sim-careful")], endpoint(models, "sim-judge")
    body = {"release": "bare", "endpoints": ["sim-careful"], "judge": "sim-judge", "confirmed": True}
    client = api(adela)
    responses = [client.post(reverse("api:runs"), body, headers={"Idempotency-Key": key}) for key in ("a", "a", "b")]
    assert [response.status_code for response in responses] == [202] * 3
    first, repeated, other = (response.json()["id"] for response in responses)
    assert first == repeated != other
    assert services.launch_run(
        RunSettings(release=release, endpoints=targets, judge=judge), actor=bo, key="a"
    ).pk not in (first, other)
    assert (
        services.launch_run(
            RunSettings(release=release, endpoints=targets, judge=judge), actor=adela, key=""
        ).launch_key
        is None
    )
    at_once = run_concurrently(
        [
            lambda: (
                services.launch_run(
                    RunSettings(release=release, endpoints=targets, judge=judge), actor=adela, key="c"
                ).pk
            )
        ]
        * 2
    )
    assert at_once[0] == at_once[1]
