"""Each model is tried once with what a run will send, before the first row is taken."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation import registry
from evaluation.models import Response, Run
from evaluation.runs import leaving, queries, services
from evaluation.runs.settings import RunSettings
from generation import tasks
from generation.endpoints import testing
from generation.jobs import services as jobs_services
from generation.llm.errors import BadRequest, LLMError, StreamsOnly, UnknownEnding
from generation.llm.simulator.server import run_in_background
from generation.llm.types import Attempt, Message, ModelSettings, Reply, Request, Usage
from generation.models import Batch, Call, Endpoint, EndpointDay, Release, ReleasedSample
from generation.models.work import Work
from generation.trials import checking
from generation.trials.findings import findings
from generation.trials.sending import Sent
from review.models import User
from tests.engine import Manage, bare_release, endpoint
from tests.engine import manage as manage
from tests.generation.llm.helpers import app_of, completion, error_body
from tests.populations import population

Status = Work.Status
MET = '{"explanation": "It does.", "criteria_met": true}'


@population
def release() -> Release:
    return bare_release(*(("dialogue", [["A1"]]) for _ in range(3)))


async def strict(request: web.Request) -> web.Response:
    """A server of which one model takes no temperature."""
    body = await request.json()
    if body["model"] == "o-1" and "temperature" in body:
        message = "Unsupported value: 'temperature' does not support 0.7 with this model."
        return web.json_response(error_body(message, param="temperature", code="unsupported_value"), status=400)
    return web.json_response(completion(MET))


def work(pk: int) -> None:
    """What the workers of both queues do, with no other job beside this one."""
    Batch.objects.update(status=Batch.Status.FINISHED)
    tasks.check_models(pk)
    tasks.run_lane()


@pytest.mark.django_db
def test_a_trial_sends_a_public_sample_where_there_is_one(release: Release) -> None:
    """A server may quote what it was sent, and readers of results see what it says."""
    made = release.samples.order_by("position")[0]
    for position, split in ((10, "held-out"), (11, "secret"), (12, "public")):
        fields = {"version": made.version, "exported": made.exported, "task": "report", "key": split}
        ReleasedSample.objects.create(release=release, position=position, split=split, **fields)
    reports = [data for data in registry.protocol("mhb").datasets if data.task == "report"]
    assert [sample.split for sample in queries.first_samples(release, reports)] == ["public"]


@pytest.mark.django_db
def test_a_run_whose_model_refuses_what_it_sends_pauses_before_anything_is_asked(release: Release) -> None:
    with run_in_background(app_of(strict)) as url:
        tested = [endpoint(url, "o-1", temperature=0.7, price_in=1_000), endpoint(url, "other")]
        run = services.launch_run(RunSettings(release=release, endpoints=tested, judge=endpoint(url, "judge")))
        work(run.pk)
        run.refresh_from_db()
        assert (run.status, run.paused_because, run.calls) == (Run.Status.PAUSED, "ModelCheck", 0)
        assert "o-1: It refuses the temperature" in run.paused_detail
        assert set(run.responses.values_list("status", "tries")) == {(Status.QUEUED, 0)}
        tries = Call.objects.filter(job=None, subject=f"check:{run.pk}")
        assert set(tries.values_list("endpoint__name", "error")) == {
            ("o-1", "BadRequest"),
            ("other", ""),
            ("judge", ""),
        }
        assert sum(EndpointDay.objects.values_list("calls", flat=True)) == 3
        jobs_services.resume(run.pk)
        work(run.pk)  # nothing has changed: it is tried again, the others are not
        assert tries.count() == 4
        assert Run.objects.get(pk=run.pk).paused_because == "ModelCheck"
        leaving.leave_out(run.pk, tested[0])
        work(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.FINISHED
    assert Response.objects.filter(run=run, status=Status.DONE).count() == 3
    assert not Response.objects.filter(run=run, call__in=tries).exists(), "a try is no result"
    assert tries.count() == 4


@pytest.mark.django_db
def test_one_click_sends_a_model_what_it_accepts_and_goes_on(
    release: Release, client: Client, adela: User, manage: Manage
) -> None:
    client.force_login(adela)
    with run_in_background(app_of(strict)) as url:
        tested = [endpoint(url, "o-1", temperature=0.7), endpoint(url, "other")]
        run = services.launch_run(RunSettings(release=release, endpoints=tested, judge=endpoint(url, "judge")))
        work(run.pk)
        page = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
        assert "Adapt endpoints and resume" in page
        assert "default_sampling=true" in page
        client.post(reverse("evaluation:run-adapt", args=[run.pk]))
        work(run.pk)
    run.refresh_from_db()
    assert (run.status, run.endpoint_settings[str(tested[0].pk)]["default_sampling"]) == (Run.Status.FINISHED, True)
    answer = client.post(reverse("api:run-adapt", args=[run.pk]))
    assert answer.status_code == 409
    assert "No setting of an endpoint" in answer.content.decode()
    assert "No setting of an endpoint" in manage.refusal("control_job", "adapt", f"run:{run.pk}")


async def gemma(request: web.Request) -> web.Response:
    """A server whose template has no system role, as that of Gemma 2."""
    body = await request.json()
    if body["model"] == "gemma" and body["messages"][0]["role"] == "system":
        message = "Error: Jinja Exception: System role not supported"
        return web.json_response({"error": {"code": 500, "message": message, "type": "server_error"}}, status=500)
    return web.json_response(completion(MET))


@pytest.mark.django_db
def test_a_judge_without_a_system_role_is_found_out_and_one_click_sends_it_what_it_takes(release: Release) -> None:
    with run_in_background(app_of(gemma)) as url:
        judge = endpoint(url, "gemma")
        result = testing.test_endpoint(judge, images=False)
        assert (result.answered, result.findings[0]["code"]) == (True, "no_system_role")
        run = services.launch_run(RunSettings(release=release, endpoints=[endpoint(url, "other")], judge=judge))
        work(run.pk)
        run.refresh_from_db()
        assert (run.status, run.paused_because) == (Run.Status.PAUSED, "ModelCheck")
        assert "gemma: It takes no system role" in run.paused_detail
        checking.adapt(run.pk)
        work(run.pk)
    run.refresh_from_db()
    judge.refresh_from_db()
    assert (run.status, judge.no_system_role) == (Run.Status.FINISHED, True)
    roles = [[turn["role"] for turn in call.sent["messages"]] for call in Call.objects.filter(job=run, endpoint=judge)]
    assert roles == [["user"]] * 3


@pytest.mark.django_db
def test_a_model_without_provider_batches_is_found_out_before_a_batch_is_filled(release: Release) -> None:
    with run_in_background(app_of(strict)) as url:
        tested = endpoint(url, "other", batches=True)
        run = services.launch_run(
            RunSettings(
                release=release, endpoints=[tested], judge=endpoint(url, "judge"), transport=Run.Transport.BATCH
            )
        )
        work(run.pk)
        run.refresh_from_db()
        assert (run.status, run.paused_because) == (Run.Status.PAUSED, "ModelCheck")
        assert "other: It takes no provider batches" in run.paused_detail
        checking.adapt(run.pk)
        work(run.pk)
    tested.refresh_from_db()
    run.refresh_from_db()
    assert (run.status, tested.batches) == (Run.Status.FINISHED, False)


@pytest.mark.django_db
def test_the_length_of_a_context_is_learnt_before_the_first_row_and_limits_replies(release: Release) -> None:
    limits = []

    async def answer(request: web.Request) -> web.Response:
        limits.append((await request.json())["max_tokens"])
        return web.json_response(completion(MET))

    async def models(_request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "other", "max_model_len": 3_000}, {"id": "judge"}]})

    app = app_of(answer)
    app.router.add_get("/v1/models", models)
    with run_in_background(app) as url:
        run = services.launch_run(
            RunSettings(release=release, endpoints=[endpoint(url, "other")], judge=endpoint(url, "judge"))
        )
        work(run.pk)
    assert dict(Endpoint.objects.values_list("name", "context_found")) == {"other": 3_000, "judge": None}
    assert [limit for limit in limits[2:] if limit < 3_000], "but for the two tries"
    assert 16_384 in limits, "where nothing is known"


@pytest.mark.django_db
def test_a_run_that_asked_nothing_takes_over_settings_that_were_put_right(release: Release) -> None:
    with run_in_background(app_of(strict)) as url:
        tested = endpoint(url, "o-1", temperature=0.7)
        run = services.launch_run(RunSettings(release=release, endpoints=[tested], judge=endpoint(url, "judge")))
        work(run.pk)
        assert Run.objects.get(pk=run.pk).paused_because == "ModelCheck"
        Endpoint.objects.filter(pk=tested.pk).update(temperature=None)
        jobs_services.resume(run.pk)
        work(run.pk)
    assert Run.objects.get(pk=run.pk).status == Run.Status.FINISHED


@pytest.mark.django_db
def test_a_model_that_does_not_answer_the_try_holds_up_no_other(release: Release) -> None:
    with run_in_background(app_of(strict)) as url:
        dead = endpoint(url, "dead")
        Endpoint.objects.filter(pk=dead.pk).update(url="http://no-such-host.invalid/v1")
        run = services.launch_run(
            RunSettings(release=release, endpoints=[dead, endpoint(url, "good")], judge=endpoint(url, "judge"))
        )
        work(run.pk)
    run.refresh_from_db()
    assert (run.status, run.paused_because) == (Run.Status.PAUSED, "EndpointDown")
    assert run.responses.filter(endpoint__name="good", status=Status.DONE).count() == 3
    (tried,) = run.model_checks[str(dead.pk)]["tried"]
    assert [finding["code"] for finding in tried["findings"]] == ["silent"]
    assert "no-such-host.invalid cannot be resolved" in tried["findings"][0]["detail"]


@pytest.mark.django_db
def test_a_slow_model_is_waited_for_no_longer_than_the_try_and_then_by_its_own_timeout(
    release: Release, client: Client, admin_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[str] = set()

    async def slow_at_first(request: web.Request) -> web.Response:
        model = (await request.json())["model"]
        if model == "slow" and model not in asked:
            asked.add(model)
            await asyncio.sleep(2)
        return web.json_response(completion(MET))

    monkeypatch.setattr(checking, "SECONDS", 1.0)
    with run_in_background(app_of(slow_at_first)) as url:
        slow, judge = endpoint(url, "slow", timeout=30), endpoint(url, "judge")
        run = services.launch_run(RunSettings(release=release, endpoints=[slow], judge=judge))
        work(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.FINISHED
    (tried,) = run.model_checks[str(slow.pk)]["tried"]
    assert ([finding["code"] for finding in tried["findings"]], tried["blocks"]) == (["slow"], False)
    client.force_login(admin_user)
    page = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert "no answer yet" in page
    assert "not usable" not in page


def sent(text: str, body: dict[str, Any], error: LLMError | None = None, **usage: int) -> Sent:
    settings, request = ModelSettings("m", "http://m.example/v1", "m"), Request((Message("user", text),))
    reply = None if error else Reply("Yes.", usage=Usage(**dict[str, Any](usage)))
    fields: dict[str, Any] = {"error": error.kind, "detail": error.detail} if error else {}
    attempt = Attempt(settings, request, body, 1, timezone.now(), 1.0, reply=reply, **fields)
    return Sent(request, (attempt,), reply, None, error, ())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (
            BadRequest("'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
            "max_tokens",
        ),
        (BadRequest("Invalid value for temperature: only 1 is supported."), "temperature"),
        (BadRequest("This model only supports streaming: set stream=true"), "stream"),
        (StreamsOnly("It only streams its replies."), "stream"),
        (UnknownEnding("The endpoint says: halted."), "ending"),
        (BadRequest("This account is not allowed to do so."), "refused"),
    ],
)
def test_a_refusal_is_told_by_the_field_that_it_names(error: LLMError, code: str) -> None:
    (found,) = findings(sent("?", {"temperature": 0.5, "max_tokens": 10}, error))
    assert (found.code, found.blocks) == (code, True)


@pytest.mark.parametrize(("counted", "codes"), [(40, ["truncated"]), (900, []), (0, [])])
def test_a_prompt_of_which_few_tokens_were_counted_is_warned_of(counted: int, codes: list[str]) -> None:
    found = findings(sent("A patient with cough. " * 200, {}, tokens_in=counted))
    assert [finding.code for finding in found] == codes
    assert not any(finding.blocks for finding in found)


@pytest.mark.django_db
def test_a_run_with_one_record_first_pauses_when_its_first_sample_is_judged(
    release: Release, client: Client, adela: User
) -> None:
    with run_in_background(app_of(strict)) as url:
        tested = [endpoint(url, "other"), endpoint(url, "third")]
        run = services.launch_run(
            RunSettings(release=release, endpoints=tested, judge=endpoint(url, "judge"), first_only=True)
        )
        work(run.pk)
        run.refresh_from_db()
        assert (run.status, run.paused_because) == (Run.Status.PAUSED, "FirstRecord")
        done = run.responses.filter(status=Status.DONE)
        assert (done.count(), set(done.values_list("sample__position", flat=True))) == (2, {0})
        assert run.judgments.filter(status=Status.DONE).count() == run.judgments.count() == 2
        client.force_login(adela)
        page = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
        assert reverse("evaluation:sample", args=[run.pk, done[0].sample.key]) in page
        jobs_services.resume(run.pk)
        work(run.pk)
    run.refresh_from_db()
    assert (run.status, run.first_only) == (Run.Status.FINISHED, False)
    assert run.responses.filter(status=Status.DONE).count() == 6
