"""What needs a key is asked of a worker, by web processes and commands alike."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext
from kombu.exceptions import OperationalError

from generation.errors import NotCallable
from review.common import waking
from review.models import User
from tests.engine import endpoint

pytestmark = pytest.mark.django_db
TASK: Any = "celery.app.task.Task.apply_async"
Messages = list[tuple[str, tuple[Any, ...], dict[str, Any]]]


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> Messages:
    """The messages to a Redis that is set; a worker runs them at once."""
    sent: Messages = []

    def apply_async(task: Any, arguments: tuple[Any, ...], **options: Any) -> None:
        sent.append((task.name, arguments[2:], options))
        with translation.override("en"):  # as in a worker
            task.run(*arguments)

    monkeypatch.setattr(TASK, apply_async)
    monkeypatch.setattr(settings, "ENV", settings.ENV.model_copy(update={"redis_url": "redis://broker/0"}))
    return sent


def task(work: Callable[[], Any]) -> Any:
    """A task whose message a worker runs at once."""

    class Task:
        def run(self, key: str, language: str) -> None:
            waking.answer(key, language, work)

        def apply_async(self, arguments: tuple[Any, ...], expires: float) -> None:
            with translation.override("en"):
                self.run(*arguments)

    return Task()


@pytest.mark.usefixtures("messages")
def test_a_worker_answers_in_the_readers_language() -> None:
    with translation.override("zh-hans"):
        assert waking.ask_worker(task(lambda: [gettext("Yes")]), seconds=9) == ["是"]


@pytest.mark.usefixtures("messages")
def test_what_the_worker_refuses_is_raised_here() -> None:
    def refuse() -> None:
        raise NotCallable("big")

    with pytest.raises(NotCallable) as refused:
        waking.ask_worker(task(refuse), seconds=9)
    assert refused.value.detail == "big"


def test_the_test_of_an_endpoint_is_sent_by_a_worker(messages: Messages, client: Client, adela: User) -> None:
    target = endpoint("http://127.0.0.1:9/v1", "m")
    client.force_login(adela)
    answer = client.post(reverse("api:endpoint-test", args=[target.name]))
    assert (answer.status_code, answer.json()["answered"]) == (200, False)
    assert messages == [("generation.tasks.try_endpoint", (target.pk, False), {"expires": 180})]


@pytest.mark.parametrize("reached", [True, False])
def test_without_a_worker_the_reader_is_told(
    messages: Messages, monkeypatch: pytest.MonkeyPatch, client: Client, adela: User, reached: bool
) -> None:
    def send(_task: Any, _arguments: Any, **_options: Any) -> None:
        if not reached:
            raise OperationalError

    monkeypatch.setattr(TASK, send)
    pauses: list[float] = []
    monkeypatch.setattr(waking, "time", SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append))
    client.force_login(adela)
    answer = client.post(reverse("api:endpoint-test", args=[endpoint("http://127.0.0.1:9/v1", "m").name]))
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:mhb:no-worker")
