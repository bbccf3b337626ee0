"""A new kind of job: one class gives it pages, addresses, commands and tasks."""

from collections.abc import Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any, cast

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, models
from django.db.models import QuerySet
from django.test import Client
from django.test.utils import isolate_apps
from django.urls import clear_url_caches, include, path, reverse
from django.utils import timezone

import generation.urls
import mhb_site.api
import mhb_site.urls
from generation import tasks
from generation.engine import worker_lane
from generation.engine.task_queue import finish, take
from generation.engine.worker_lane import RunningLane
from generation.jobs import api as jobs_api
from generation.jobs import kinds, life_cycle, services
from generation.jobs import views as jobs_views
from generation.jobs.kinds import JobKind
from generation.llm.errors import LLMError
from generation.llm.types import Message, Request
from generation.models import Call, Endpoint, Job
from generation.models.work import Work, work_constraints
from mhb_site.server.sweeping import sweep
from review.common import waking
from review.models import User
from tests.api.conftest import Api, api
from tests.engine import Manage, calls, endpoint

__all__ = ["api"]

pytestmark = [pytest.mark.both, pytest.mark.usefixtures("sent_tasks")]
Status = Work.Status

with isolate_apps("generation"):

    class Brew(Job):
        """Many cups of tea."""

        class Meta:
            app_label = "generation"
            verbose_name = "brew"

    class Cup(Work):
        """A cup, and what a model says of it."""

        brew = models.ForeignKey(Brew, on_delete=models.PROTECT, related_name="cups")
        text = models.TextField(blank=True)

        class Meta:
            app_label = "generation"
            verbose_name_plural = "cups"
            constraints = work_constraints("cup")


# All that a new kind needs besides its tables:


class Brewing(JobKind[Brew]):
    model = Brew
    rows: Mapping[str, Any] = {"cups": Cup}
    titles = ("Brew %(n)s", "Brews")

    def endpoints(self, job: Brew) -> QuerySet[Endpoint]:
        return Endpoint.objects.filter(name="kettle")

    def work(self, pk: int) -> int:
        brew, kettle, cups = self.get(pk), Endpoint.objects.get(name="kettle"), Cup._default_manager.filter(brew=pk)

        def take_rows(lane: RunningLane, count: int) -> worker_lane.Rows:
            rows = take(cups.order_by("pk"), count, lane.claim)
            return [(row, partial(self.pour, row, lane, kettle)) for row in rows]

        done = worker_lane.work_in_lane(brew, [kettle], take_rows, cups.filter(status=Status.QUEUED).exists)
        life_cycle.pause_if_spent(pk)
        services.settle(pk)
        return done

    async def pour(self, row: Cup, lane: RunningLane, kettle: Endpoint) -> None:
        question = Request((Message("user", f"How is cup {row.pk}?"),), prompt="brew")
        try:
            reply = await lane.bind_models({"kettle": kettle}, row).ask("kettle", question)
        except worker_lane.REQUEUE_ERRORS:
            raise
        except LLMError as error:
            await sync_to_async(finish)(row, Status.FAILED, error=error.kind, detail=str(error))
        else:
            await sync_to_async(finish)(row, Status.DONE, text=reply.text)


@pytest.fixture
def brewing(transactional_db: None, settings: Any) -> Iterator[Brewing]:
    """Register the kind as an app would, and add its addresses to the site."""
    with connection.schema_editor() as editor:
        for model in (Brew, Cup):
            editor.create_model(model)
    kind = Brewing()
    kinds.register(kind)
    urls = ModuleType("urls_with_brews")
    generation_urls: list[Any] = [*generation.urls.urlpatterns, *jobs_views.routes("generation")]
    docs: Any = mhb_site.api.urlpatterns[1]
    rest: list[Any] = mhb_site.urls.urlpatterns
    urls.urlpatterns = [  # type: ignore[attr-defined]
        path("generation/", include((generation_urls, "generation"))),
        path("api/", include([path("v1/", include((jobs_api.routes(), "api"))), docs])),
        *(pattern for pattern in rest if str(pattern.pattern) not in ("generation/", "api/")),
    ]
    settings.ROOT_URLCONF = urls
    clear_url_caches()
    yield kind
    kinds._kinds.pop(kind.name)
    clear_url_caches()
    Call.objects.filter(job__kind="brew").delete()
    with connection.schema_editor() as editor:
        for model in (Cup, Brew):
            editor.delete_model(model)


def create_brew(cups: int, **fields: Any) -> Brew:
    brew = cast(Brew, Brew._default_manager.create(created_at=timezone.now(), **fields))
    Cup._default_manager.bulk_create(Cup(brew=brew) for _ in range(cups))
    return brew


def test_a_new_job_kind_is_worked_on_swept_and_shown(
    brewing: Brewing,
    models: str,
    adela: User,
    ana: User,
    client: Client,
    sent_tasks: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mhb_site.server.sweeping.wake", waking.wake)
    kettle = endpoint(models, "sim-average", name="kettle")
    brew = create_brew(3)
    assert (brew.kind, brew.name) == ("brew", f"brew:{brew.pk}")
    assert sweep()["brews"] == len(sent_tasks) > 0, "the sweep wakes workers"
    assert set(sent_tasks) == {("run_lane",)}
    tasks.run_lane()
    brew.refresh_from_db()
    assert (brew.status, brew.calls) == (Job.Status.FINISHED, 3)
    assert {call.endpoint for call in calls(brew)} == {kettle}
    assert sweep()["brews"] == 0

    page = reverse("generation:brew", args=[brew.pk])
    client.force_login(ana)
    assert client.get(page).status_code == 403
    client.force_login(adela)
    text = client.get(page).content.decode()
    assert f"Brew {brew.pk}" in text
    assert "3 of 3" in text
    assert client.get(reverse("generation:brew", args=[brew.pk + 1])).status_code == 404


def test_a_new_job_kind_is_controlled_from_its_page(
    brewing: Brewing, models: str, adela: User, client: Client, sent_tasks: list[Any]
) -> None:
    endpoint(models, "sim-average", name="kettle")
    brew = create_brew(4, budget_calls=1)
    client.force_login(adela)

    def url_of(action: str) -> str:
        return reverse(f"generation:brew-{action}", args=[brew.pk])

    assert client.get(url_of("progress")).status_code == 200
    client.post(url_of("pause"))
    brew.refresh_from_db()
    assert (brew.status, brewing.work(brew.pk)) == (Job.Status.PAUSED, 0)
    client.post(url_of("resume"))
    tasks.run_lane()
    brew.refresh_from_db()
    assert (brew.status, brew.paused_because, brew.calls) == (Job.Status.PAUSED, "BudgetSpent", 1)
    page = client.get(reverse("generation:brew", args=[brew.pk])).content.decode()
    assert "Raise the budget" in page
    assert "1 of 1 calls" in page
    client.post(url_of("budget"), {"budget_calls": "2", "budget_money": ""})
    tasks.run_lane()
    Cup._default_manager.filter(status=Status.QUEUED).update(status=Status.FAILED, error="TimedOut")
    services.settle(brew.pk)
    assert url_of("retry") in client.get(reverse("generation:brew", args=[brew.pk])).content.decode()
    client.post(url_of("retry"))
    assert set(sent_tasks) == {("check_models", brew.pk), ("run_lane",)}
    assert Cup._default_manager.filter(brew=brew, status=Status.QUEUED).count() == 2
    assert "cannot be undone" in client.get(url_of("cancel")).content.decode()
    client.post(url_of("cancel"))
    brew.refresh_from_db()
    assert brew.status == Job.Status.CANCELLED
    assert client.get(url_of("failures")).status_code == 200


def test_a_new_job_kind_is_controlled_by_api_and_shell(
    brewing: Brewing, adela: User, api: Api, manage: Manage, models: str
) -> None:
    endpoint(models, "sim-average", name="kettle")
    brew = create_brew(2)
    client = api(adela)

    def post(action: str, body: Any = None) -> dict[str, Any]:
        response = client.post(reverse(f"api:brew-{action}", args=[brew.pk]), body)
        assert response.status_code in (200, 202), response.content
        content: dict[str, Any] = response.json()
        return content

    assert post("pause")["status"] == "paused"
    assert post("budget", {"budget_calls": 9})["budget_calls"] == 9
    assert post("resume")["status"] == "running"
    assert post("retry")["progress"]["queued"] == 2
    detail = client.get(reverse("api:brew", args=[brew.pk])).json()
    assert (detail["id"], detail["progress"]["total"], detail["live"]["endpoints"]) == (brew.pk, 2, [])
    assert client.get(reverse("api:brew-failures", args=[brew.pk])).json()["results"] == []
    assert manage.json("control_job", "pause", brew.name)["status"] == "paused"
    assert manage.json("control_job", "resume", brew.name)["status"] == "running"
    assert post("cancel")["status"] == "cancelled"
    assert "already ended" in manage.refusal("control_job", "retry", brew.name)
    assert "no job" in manage.refusal("control_job", "pause", "brew:4711")
    assert "neither batch:N nor brew:N nor run:N" in manage("control_job", "pause", "cup:1")[2]
