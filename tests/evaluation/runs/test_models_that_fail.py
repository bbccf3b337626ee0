"""A model that cannot be asked stops at once, and the others go on."""

import asyncio
import re
from pathlib import Path

import pytest
from aiohttp import web
from django.test import Client
from django.urls import reverse

from evaluation import errors
from evaluation.labels import failure_words
from evaluation.models import Judgment, Response, Run, Vote
from evaluation.runs import leaving, queries, services, work
from evaluation.runs.kind import RUNS
from evaluation.runs.rows import filling
from evaluation.runs.settings import RunSettings
from generation.errors import JobOver
from generation.jobs import services as jobs_services
from generation.llm.simulator.server import run_in_background
from generation.models import Endpoint, EndpointState, Release
from generation.models.work import Work
from review.models import User
from tests.engine import Manage, bare_release, endpoint
from tests.engine import manage as manage
from tests.generation.llm.helpers import app_of, completion
from tests.populations import population

pytestmark = pytest.mark.django_db
Status = Work.Status
MET = '{"explanation": "It does.", "criteria_met": true}'


@population
def release() -> Release:
    return bare_release(*(("dialogue", [["A1"]]) for _ in range(12)))


def statuses(run: Run, model: type[Response] | type[Judgment] = Response, **fields: object) -> set[str]:
    return set(model.objects.filter(run=run, **fields).values_list("status", flat=True))


async def agree(_request: web.Request) -> web.Response:
    return web.json_response(completion(MET))


@pytest.mark.both
@pytest.mark.parametrize(
    ("fields", "because", "words"),
    [
        ({"key_env": "MHB_KEY_GONE"}, "KeyMissing", "The environment variable MHB_KEY_GONE is not set."),
        (
            {"url": "http://no-such-host.invalid/v1"},
            "EndpointDown",
            "The host name no-such-host.invalid cannot be resolved.",
        ),
        ({"url": "http://127.0.0.1:9/v1"}, "EndpointDown", "127.0.0.1:9 refuses connections."),
    ],
)
def test_the_others_go_on_without_it(release: Release, fields: dict[str, str], because: str, words: str) -> None:
    with run_in_background(app_of(agree)) as url:
        good, judge, dead = endpoint(url, "good"), endpoint(url, "judge"), endpoint(url, "dead")
        Endpoint.objects.filter(pk=dead.pk).update(**fields)
        run = services.launch_run(
            RunSettings(release=release, endpoints=[Endpoint.objects.get(pk=dead.pk), good], judge=judge)
        )
        work.work_on_run(run.pk)
        run.refresh_from_db()
        assert statuses(run, endpoint=good) == {Status.DONE}
        assert statuses(run, Judgment) == {Status.DONE}
        assert statuses(run, endpoint=dead) == {Status.QUEUED}
        assert (run.status, run.paused_because) == (Run.Status.PAUSED, because)
        assert words in run.paused_detail
        assert "dead" in run.paused_detail
        assert EndpointState.objects.get(endpoint=dead).down_since
        Endpoint.objects.filter(pk=dead.pk).update(key_env="", url=url)
        jobs_services.resume(run.pk)
        work.work_on_run(run.pk)
    assert statuses(run) == {Status.DONE}


def test_a_model_that_hangs_takes_no_slot_of_another(release: Release) -> None:
    """Otherwise its rows would fill the lane, and nothing else would be taken."""
    release_slow = asyncio.Event()
    answered = dict.fromkeys(("quick", "judge"), 0)

    async def answer(request: web.Request) -> web.Response:
        model = (await request.json())["model"]
        if model == "slow":
            await release_slow.wait()
            return web.json_response(completion(MET))
        answered[model] += 1
        if answered == {"quick": 12, "judge": 12}:
            release_slow.set()
        return web.json_response(completion(MET))

    with run_in_background(app_of(answer)) as url:
        slow, quick, judge = (endpoint(url, name, concurrency=1) for name in ("slow", "quick", "judge"))
        Endpoint.objects.filter(pk=slow.pk).update(timeout=20)
        settings = RunSettings(release=release, endpoints=[Endpoint.objects.get(pk=slow.pk), quick], judge=judge)
        run = services.launch_run(settings)
        work.work_on_run(run.pk)
    assert release_slow.is_set()
    assert answered == {"quick": 12, "judge": 12}, "a judgment of the same answer is paid for once"
    assert statuses(run) == {Status.DONE}


def test_a_model_is_left_out_of_a_running_run_and_added_again(
    release: Release, client: Client, adela: User, manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MHB_KEY_GONE", raising=False)
    with run_in_background(app_of(agree)) as url:
        dead = endpoint(url, "dead", key_env="MHB_KEY_GONE")
        run = services.launch_run(
            RunSettings(release=release, endpoints=[dead, endpoint(url, "good")], judge=endpoint(url, "judge"))
        )
        work.work_on_run(run.pk)
        client.force_login(adela)
        page = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
        assert "The environment variable MHB_KEY_GONE is not set." in page
        [because] = re.findall('name="because" value="([^"]*)"', page)
        client.post(reverse("evaluation:run-leave-out", args=[run.pk, "dead"]), {"because": because})
        run.refresh_from_db()
        assert (run.status, run.paused_because) == (Run.Status.FINISHED, "")
        rows = Response.objects.filter(run=run, endpoint=dead)
        assert set(rows.values_list("status", "error", "detail")) == {(Status.DROPPED, "LeftOut", "KeyMissing")}
        assert RUNS.progress(run).percent == 100
        page = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
        assert "dead is left out" in page
        assert failure_words("KeyMissing") in page, "in the words of who reads it"
        report = client.get(reverse("evaluation:report-json", args=[run.pk])).json()
        assert [(each["endpoint"], each["because"]) for each in report["left_out"]] == [("dead", "KeyMissing")]
        document = client.get(reverse("evaluation:report-markdown", args=[run.pk])).content.decode()
        assert "`dead` was left out of the run" in document
        assert f"({failure_words('KeyMissing')})" in document
        assert queries.count_not_done(run) == 13
        with pytest.raises(JobOver):
            leaving.leave_out(run.pk, endpoint(url, "good"))
        monkeypatch.setenv("MHB_KEY_GONE", "it-is-there-now")
        assert manage.json("leave_out", run.pk, "dead", "--again")["left_out"] == []
        work.work_on_run(run.pk)
    run.refresh_from_db()
    assert statuses(run) == {Status.DONE}
    assert (run.status, run.responses_total, run.rubrics_total) == (Run.Status.FINISHED, 24, 24)
    assert RUNS.progress(run).percent == 100
    assert queries.count_not_done(run) == 0


def test_the_last_model_is_not_left_out_and_an_unfilled_one_gets_no_more_rows(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "CHUNK", 2)
    with run_in_background(app_of(agree)) as url:
        first, second = endpoint(url, "first"), endpoint(url, "second")
        run = services.launch_run(RunSettings(release=release, endpoints=[first, second], judge=endpoint(url, "judge")))
        leaving.leave_out(run.pk, first)
        with pytest.raises(errors.LastModel):
            leaving.leave_out(run.pk, second)
        run.refresh_from_db()
        assert (run.responses_total, run.rubrics_total) == (13, 12)
        work.work_on_run(run.pk)
        assert run.responses.filter(endpoint=first).count() == 1
        assert RUNS.progress(RUNS.get(run.pk)).percent == 100
        leaving.add_again(run.pk, first)
        work.work_on_run(run.pk)
    assert run.responses.filter(status=Status.DONE).count() == 24
    assert RUNS.progress(RUNS.get(run.pk)).percent == 100


@pytest.mark.parametrize("rule", list(Run.Panel))
def test_a_judge_of_a_panel_is_left_out_and_the_others_decide(
    rule: str, client: Client, adela: User, manage: Manage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MHB_KEY_GONE", raising=False)
    release = bare_release(*(("dialogue", [["A1"]]) for _ in range(3)))
    with run_in_background(app_of(agree)) as url:
        dead = endpoint(url, "x-dead", key_env="MHB_KEY_GONE")
        others = [endpoint(url, "y-1"), endpoint(url, "z-1")]
        settings = RunSettings(
            release=release,
            endpoints=[endpoint(url, "good")],
            judge=others[0],
            further_judges=[dead, others[1]],
            panel=rule,
        )
        run = services.launch_run(settings)
        work.work_on_run(run.pk)
        run.refresh_from_db()
        assert (run.status, run.paused_because) == (Run.Status.PAUSED, "KeyMissing")
        assert statuses(run) == {Status.DONE}
        assert statuses(run, Judgment) == {Status.QUEUED}
        client.force_login(adela)
        address = reverse("evaluation:run-leave-out", args=[run.pk, "x-dead"])
        client.post(address, {"because": "no account", "role": "judge"})
        work.work_on_run(run.pk)
        run.refresh_from_db()
        assert (run.status, statuses(run, Judgment)) == (Run.Status.FINISHED, {Status.DONE})
        votes = Vote.objects.filter(run=run)
        cast = votes.exclude(status=Status.DROPPED).values_list("judge__name", flat=True)
        assert sorted(cast) == ["y-1"] * 3 + ["z-1"] * 3
        assert set(votes.filter(judge=dead).values_list("status", "error")) == {(Status.DROPPED, "LeftOut")}
        with pytest.raises(JobOver):
            leaving.leave_out(run.pk, others[0])
        page = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
        assert "the other judges decide without it" in page
        document = client.get(reverse("evaluation:report-markdown", args=[run.pk])).content.decode()
        assert "`x-dead` was left out of the run" in document
        assert queries.count_not_done(run) == 1
        manage.json("export_run", run.pk, "--out", tmp_path / "bundle")
        assert manage.json("verify_run", tmp_path / "bundle")["faults"] == []

        monkeypatch.setenv("MHB_KEY_GONE", "it-is-there-now")
        assert manage.json("leave_out", run.pk, "x-dead", "--again")["left_out"] == []
        assert statuses(run, Judgment) == {Status.QUEUED}
        work.work_on_run(run.pk)
    run.refresh_from_db()
    assert (run.status, statuses(run, Judgment)) == (Run.Status.FINISHED, {Status.DONE})
    assert Vote.objects.filter(run=run, judge=dead, status=Status.DONE).count() == 3
    assert queries.count_not_done(run) == 0


def test_the_last_judge_is_not_left_out(release: Release) -> None:
    with run_in_background(app_of(agree)) as url:
        judge = endpoint(url, "judge")
        run = services.launch_run(RunSettings(release=release, endpoints=[endpoint(url, "good")], judge=judge))
        with pytest.raises(errors.LastModel):
            leaving.leave_out(run.pk, judge)
        with pytest.raises(errors.NotTested):
            leaving.leave_out(run.pk, judge, role="target")
