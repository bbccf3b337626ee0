"""The start of the demo: a partly loaded one is removed, a complete one is kept; real models."""

import re
import signal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from evaluation.models import Response, Run
from generation.models import Endpoint
from mhb_site.demo import progress, real, steps
from mhb_site.demo.load import HERE, _import_source
from mhb_site.management.commands import demo
from mhb_site.management.commands.demo import remove_partial_demo
from mhb_site.server import children
from review.models import Assignment, Case, Review, User
from tests.review.factories import claim, open_case

pytestmark = pytest.mark.plain


@pytest.mark.parametrize("partial", [True, False])
def test_only_a_partial_demo_is_removed(tmp_path: Path, partial: bool) -> None:
    kept = {"secret_key", "other.sqlite3"}
    database = {"mhb.sqlite3", "mhb.sqlite3-wal", "mhb.sqlite3-shm"}
    for name in kept | database | ({progress.FILE} if partial else set()):
        (tmp_path / name).touch()
    assert remove_partial_demo(tmp_path) is partial
    assert {path.name for path in tmp_path.iterdir()} == (kept if partial else kept | database)
    assert remove_partial_demo(tmp_path) is False


def test_a_demo_stopped_while_its_tables_are_made_ends_without_a_traceback(
    settings: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop_by_key(*_arguments: Any, **_options: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    settings.MHB_EMBEDDED = False
    settings.MHB_ENDPOINT_ACCESS = settings.MHB_ENDPOINT_ACCESS
    monkeypatch.setenv("MHB_PORT", "")
    monkeypatch.setattr(children, "port_is_free", lambda _host, _port: True)
    monkeypatch.setattr(demo, "call_command", stop_by_key)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        call_command("demo", "--port", "8931", "--models-port", "8941")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert capsys.readouterr().out == "mhb: stopping\n"


@pytest.fixture
def data_folder(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.MHB_EMBEDDED = True
    monkeypatch.setattr(progress, "file", lambda: tmp_path / progress.FILE)
    return tmp_path


def asks(client: Client) -> str:
    """What the banner of a page gets when it asks again."""
    answer = client.get("/demo/loading/", headers={"HX-Request": "true"})
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.django_db
@pytest.mark.usefixtures("data_folder")
def test_pages_say_how_far_the_demo_has_loaded(client: Client) -> None:
    assert "demo-loading" not in client.get("/accounts/login/").content.decode()
    for number, label in enumerate(progress.STEPS):
        progress.write(label)
        page = client.get("/accounts/login/").content.decode()
        assert label in page
        assert f"{number} of {len(progress.STEPS)}" in page
        assert label in asks(client)
    progress.file().unlink()
    assert "demo-loading" not in client.get("/accounts/login/").content.decode()
    assert "The demo has loaded." in asks(client)


def test_every_step_that_the_demo_tells_is_listed() -> None:
    """A label that is not in STEPS would be printed, and never reach a page."""
    folder = Path(progress.__file__).parent
    sources = [file.read_text() for file in folder.glob("*.py") if file.name != "progress.py"]
    for label in progress.STEPS:
        assert any(f'"{label}"' in source for source in sources), label
    told = re.findall(r'\btell\("([^"]+)"\)', "\n".join(sources))
    assert [label for label in told if label not in progress.STEPS and "no trace was kept" not in label] == []


def test_real_models_are_asked_for_only_where_they_are_installed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(real, "PYTHON", tmp_path / "python")
    with pytest.raises(CommandError, match="No real model is installed"):
        call_command("demo", "--real")


@pytest.mark.django_db
def test_a_case_that_a_visitor_took_while_the_demo_loads_stays_theirs(physicians: list[User], client: Client) -> None:
    """Accounts of the demo are simulated physicians until somebody signs in to them."""
    User.objects.update(simulated=True)
    for number in range(4):
        Case.objects.filter(pk=open_case(number).pk).update(simulated=True)
    bo = User.objects.get(username="bo")
    client.force_login(bo)
    taken = claim(bo)
    steps.review_all_but(0, taken.case.benchmark, max_reviews=20)
    taken.refresh_from_db()
    assert (taken.hold, taken.physician) == (Assignment.Hold.HELD, bo)
    assert Review.objects.exists()
    assert not Review.objects.filter(physician=bo).exists()


@pytest.mark.django_db
def test_installed_models_are_asked_once_and_the_largest_judges() -> None:
    _import_source("demo-conversations", "healthbench", HERE / "conversations.jsonl")
    real.ask({"small-1b": "http://127.0.0.1:9/v1", "large-1.5b": "http://127.0.0.1:10/v1"})
    run = Run.objects.get()
    assert (run.status, run.judge and run.judge.name) == ("running", "large-1-5b")
    asked = Response.objects.filter(run=run).values_list("endpoint__name", flat=True)
    assert sorted(asked) == ["large-1-5b"] * 3 + ["small-1b"] * 3
    real.ask({"small-1b": "http://127.0.0.1:11/v1", "large-1.5b": "http://127.0.0.1:10/v1"})
    assert Run.objects.count() == 1
    assert Endpoint.objects.get(name="small-1b").url == "http://127.0.0.1:11/v1"
