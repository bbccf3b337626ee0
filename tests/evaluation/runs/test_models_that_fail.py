"""A model that cannot be asked stops at once, and the others go on."""

import asyncio

import pytest
from aiohttp import web

from evaluation.models import Judgment, Response, Run
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from generation.jobs import services as jobs_services
from generation.llm.simulator.server import run_in_background
from generation.models import Endpoint, EndpointState, Release
from generation.models.work import Work
from tests.engine import bare_release, endpoint
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
    ],
)
def test_the_others_go_on_without_it(release: Release, fields: dict[str, str], because: str, words: str) -> None:
    with run_in_background(app_of(agree)) as url:
        good, judge, dead = endpoint(url, "good"), endpoint(url, "judge"), endpoint(url, "dead")
        Endpoint.objects.filter(pk=dead.pk).update(**fields)
        run = services.launch_run(RunSettings(release, [Endpoint.objects.get(pk=dead.pk), good], judge))
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
        settings = RunSettings(release, [Endpoint.objects.get(pk=slow.pk), quick], judge)
        run = services.launch_run(settings)
        work.work_on_run(run.pk)
    assert release_slow.is_set()
    assert answered == {"quick": 12, "judge": 12}, "a judgment of the same answer is paid for once"
    assert statuses(run) == {Status.DONE}
