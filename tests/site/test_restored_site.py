"""A restored site makes no call and sends no message by itself, until somebody lets it go on."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from generation import tasks
from generation.batches.services import work_on_batch
from generation.jobs import lanes
from generation.jobs.kinds import kind_of
from generation.models import Batch, Call
from generation.notifications import sending
from mhb_site.backup import services
from mhb_site.observability import probes
from mhb_site.server.sweeping import sweep
from review.common import notifications
from review.models import Delivery, Occasion, PersonEvent, SitePause, User, Webhook
from tests.engine import conversations_file, endpoint, import_file, launch_batch, models, no_long_waits
from tests.processes import Site, running_site

__all__ = ["models", "no_long_waits"]

# A batch that no worker has begun, and messages that nobody has sent.
FILL = """
from pathlib import Path
from review.common import notifications
from review.models import Occasion, User, Webhook
from tests.engine import conversations_file, endpoint, import_file, launch_batch
source = import_file(conversations_file(Path({folder!r}) / "own.jsonl", 3))
launch_batch(source, endpoint({url!r}, "sim-generator"))
admin = User.objects.create_user("adela", "adela@example.org", role="admin")
Webhook.objects.create(name="hook", url={url!r}, secret_env="MHB_KEY_HOOK", occasions=["frozen"])
notifications.tell(Occasion.FROZEN, [admin], release="spring v1")
"""
WORK = """
import json
from generation import tasks
from mhb_site.server.sweeping import sweep
from review.models import Delivery
found = sweep()
tasks.run_lane()
tasks.send_messages()
waiting = Delivery.objects.filter(status="waiting", tries=0).count()
print(json.dumps({"batches": found["batches"], "waiting": waiting}))
"""


@contextmanager
def counting_server() -> Iterator[tuple[str, list[str]]]:
    """Another machine: its address, and the paths of the requests that it got."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        server.server_close()


def shell(site: Site, code: str) -> str:
    result = site.manage("shell", "-v0", "-c", code)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.processes
def test_a_copy_of_a_busy_site_calls_nobody_until_it_is_resumed(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "copy")]
    for folder in folders:
        folder.mkdir()
    environment = {"MHB_KEY_HOOK": "a-secret-of-tests", "MHB_EMAIL_URL": "smtp://127.0.0.1:9"}
    environment["MHB_EMAIL_FROM"] = "mhb@example.org"
    with (
        counting_server() as (url, requests),
        running_site("embedded", folders[0], **environment) as first,
        running_site("embedded", folders[1], **environment) as copy,
    ):
        shell(first, FILL.format(folder=str(tmp_path), url=url))
        first.json("backup", str(tmp_path / "backup"))
        restored = copy.manage("restore", str(tmp_path / "backup"), "--unsealed")
        assert restored.returncode == 0, restored.stderr
        assert "The site is paused" in restored.stdout
        for _ in range(2):
            assert json.loads(shell(copy, WORK)) == {"batches": 0, "waiting": 2}
        assert requests == []
        assert copy.number("SELECT count(*) FROM generation_call") == 0
        assert copy.json("control_site", "resume") == {"changed": True}
        assert json.loads(shell(copy, WORK)) == {"batches": 1, "waiting": 0}
        assert {"/v1", "/v1/chat/completions"} <= set(requests)
        assert copy.json("control_site", "resume") == {"changed": False}


@pytest.fixture
def busy(tmp_path: Path, models: str, adela: User, settings: Any) -> None:
    """A paused site with a batch and messages that wait."""
    settings.MHB_EMAILS = True
    User.objects.filter(pk=adela.pk).update(email="adela@example.org")
    adela.refresh_from_db()
    launch_batch(import_file(conversations_file(tmp_path / "own.jsonl", 2)), endpoint(models))
    Webhook.objects.create(name="hook", url=models, secret_env="MHB_KEY_HOOK", occasions=["frozen"])
    notifications.tell(Occasion.FROZEN, [adela], release="spring v1")
    SitePause.objects.create()


@pytest.mark.usefixtures("busy")
@pytest.mark.django_db
@pytest.mark.both
def test_nothing_takes_work_while_the_site_is_paused() -> None:
    assert sweep()["batches"] == 0
    assert (lanes.waiting_jobs(), lanes.reserve("worker"), sending.is_due(), sending.send_due()) == ([], None, False, 0)
    tasks.run_lane()
    assert not Call.objects.exists()
    call_command("control_site", "resume")
    assert sweep()["batches"] == 1
    tasks.run_lane()
    assert Call.objects.exists()
    assert sending.is_due()


@pytest.mark.usefixtures("busy")
@pytest.mark.django_db
def test_a_command_that_works_on_a_job_itself_waits_too() -> None:
    work_on_batch(Batch.objects.get().pk)
    assert not Call.objects.exists()


@pytest.mark.usefixtures("busy")
@pytest.mark.django_db
def test_pages_and_probes_say_it_and_a_button_ends_it(
    client: Client, adela: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "_in_time", lambda check: check())
    client.force_login(adela)
    ready = client.get("/ready").json()
    assert (ready["status"], "paused_since" in ready) == ("degraded", True)
    assert "Resume jobs and messages" in client.get(reverse("system")).content.decode()
    job = Batch.objects.get()
    page = kind_of(job).address("", job.pk)
    assert "restored from a backup" in client.get(page).content.decode()
    assert "Jobs and messages resumed." in client.post(reverse("system-resume"), follow=True).content.decode()
    assert "paused_since" not in client.get("/ready").json()
    assert "restored from a backup" not in client.get(page).content.decode()
    assert not SitePause.objects.exists()
    assert PersonEvent.objects.filter(actor=adela, kind="job").count() == 1
    assert Delivery.objects.filter(status="waiting").count() == 2


@pytest.mark.django_db
def test_a_site_can_be_paused_by_hand_once() -> None:
    """As after a recovery by PostgreSQL's own tools, which the site does not notice."""
    assert (services.pause_site(), services.pause_site()) == (True, False)
    assert (services.resume_site(), services.resume_site()) == (True, False)
    assert [event.data["what"] for event in PersonEvent.objects.filter(kind="job")] == ["paused", "resumed"]
