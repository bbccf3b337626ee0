"""What is forgotten after the time that is set, and what an admin sees of the system."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from axes.models import AccessLog
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from generation.engine.worker_beats import record_beat
from generation.models import Call, Job, SentText, WorkerBeat
from generation.models.sent_texts import pack_request, store_requests
from mhb_site.server.retention import forget
from review.models import User
from tests.engine import endpoint
from tests.review.factories import PASSWORD

pytestmark = pytest.mark.django_db


def test_old_sign_ins_and_ended_sessions_go(ana: User, settings: Any) -> None:
    settings.MHB_KEEP_SIGN_INS_DAYS = 30
    for _ in range(2):
        Client().post(reverse("account_login"), {"login": "ana", "password": PASSWORD})
    old = AccessLog.objects.order_by("pk")[0]
    AccessLog.objects.filter(pk=old.pk).update(attempt_time=timezone.now() - timedelta(days=31))
    first = Session.objects.order_by("expire_date").values_list("pk", flat=True)[0]
    Session.objects.filter(pk=first).update(expire_date=timezone.now() - timedelta(seconds=1))
    assert forget() == {"sign_ins": 1, "sessions": 1, "messages": 0, "call_texts": 0, "uploads": 0}
    assert (AccessLog.objects.count(), Session.objects.count(), UserSession.objects.count()) == (1, 1, 1)


def test_old_texts_of_the_ledger_go_and_costs_stay(settings: Any) -> None:
    job = Job.objects.create(kind="batch", created_at=timezone.now())

    def call(days: int, of: Job | None) -> Call:
        started = timezone.now() - timedelta(days=days)
        return Call.objects.create(
            job=of, subject="row:1", endpoint=model, model="m", request=pack_request({"messages": ["Frau Beispiel"]}),
            text="hustet", reasoning="hm", tokens_in=7, cost=2, seconds=1, attempt=1, identity="f" * 64, started_at=started,
        )  # fmt: skip

    model = endpoint("http://localhost:1/v1")
    calls = [call(40, job), call(40, None), call(1, None)]
    settings.MHB_KEEP_CALL_TEXTS_DAYS = 30
    assert forget()["call_texts"] == 1  # the job runs
    Job.objects.filter(pk=job.pk).update(status=Job.Status.FINISHED)
    assert forget()["call_texts"] == 1
    assert forget()["call_texts"] == 0
    for old, kept in zip(calls, (False, False, True), strict=True):
        old.refresh_from_db()
        assert (old.text, bool(old.sent), bool(old.identity)) == (
            ("hustet", True, True) if kept else ("", False, False)
        )
        assert (old.tokens_in, float(old.cost)) == (7, 2.0)
    call_command("forget")


def test_texts_that_no_request_contains_any_more_go(settings: Any) -> None:
    now = timezone.now()
    prompt = {"role": "system", "content": "You judge answers. " * 20}
    model = endpoint("http://localhost:1/v1")
    settings.MHB_KEEP_CALL_TEXTS_DAYS = 30
    for days, name in ((40, "Frau Beispiel"), (1, "Herr Muster")):
        at = now - timedelta(days=days)
        [request] = store_requests([{"messages": [prompt, {"role": "user", "content": f"{name} hustet. " * 30}]}])
        SentText.objects.filter(used_on=now.date()).update(used_on=at.date())
        Call.objects.create(
            subject="row:1", endpoint=model, model="m", request=request, seconds=1, attempt=1, started_at=at
        )
    assert SentText.objects.count() == 3
    assert forget()["call_texts"] == 1
    assert SentText.objects.count() == 2
    [kept] = [call.sent for call in Call.objects.all() if call.sent]
    assert kept["messages"][0] == prompt
    assert kept["messages"][1]["content"].startswith("Herr Muster")


def test_an_admin_sees_what_runs(adela: User, client: Client, settings: Any, tmp_path: Path) -> None:
    settings.MHB_IMAGES = tmp_path
    client.force_login(adela)
    record_beat(WorkerBeat.SWEEPER)
    page = client.get(reverse("system")).content.decode()
    assert "none recorded" in page
    assert "no heartbeat" not in page
    WorkerBeat.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    (tmp_path / "last_backup.json").write_text(json.dumps({"at": "2026-11-02T03:04:05+00:00"}))
    page = client.get(reverse("system")).content.decode()
    assert "Nov" in page
    assert "no heartbeat" in page, "a process that went away is not listed as one that runs"
    assert "none recorded" not in page
    assert "SQLite" in page or "PostgreSQL" in page
