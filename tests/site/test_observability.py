"""Probes, metrics, request ids and logs without patients' texts."""

import json
import logging
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery
from django.conf import settings
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from generation.engine.worker_beats import record_beat
from generation.jobs import services as jobs_services
from generation.jobs.live_status import live_workers
from generation.models import WorkerBeat
from mhb_site.observability import logs, probes
from mhb_site.observability.hooks import without_texts
from mhb_site.observability.metrics import SiteCollector
from review.models import User
from tests.engine import drafts

SECRET = "Frau Beispiel, geboren 1950, hustet seit drei Wochen und nimmt Ramipril ein"


@pytest.fixture
def own_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes in this thread: others do not see the rows of a test."""
    monkeypatch.setattr(probes, "_in_time", lambda check: check())


@pytest.fixture
def written() -> Iterator[list[str]]:
    """Every line that the site's formatter and filter would write."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Keep()
    handler.setFormatter(logs.StructuredFormatter(as_json=True))
    handler.addFilter(logs.WithoutTexts())
    root = logging.getLogger()
    root.addHandler(handler)
    yield lines
    root.removeHandler(handler)


def test_live_needs_neither_host_nor_https_nor_database(client: Client) -> None:
    assert client.get("/live", headers={"host": "10.0.0.7:8000"}).status_code == 200


@pytest.mark.usefixtures("own_connection")
@pytest.mark.django_db
def test_ready_names_ages_and_degrades(client: Client) -> None:
    answer = client.get("/ready", headers={"host": "10.0.0.7:8000"})
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert answer.json()["sweeper_age_s"] == answer.json()["lanes_age_s"] == "none"
    record_beat("celery@one", runs_lanes=False)
    record_beat(WorkerBeat.SWEEPER)
    assert client.get("/ready").json()["status"] == "degraded", "no process runs lanes"
    record_beat("celery@two", runs_tasks=False)
    ages = {"lanes_age_s": 0, "tasks_age_s": 0, "sweeper_age_s": 0}
    assert client.get("/ready").json() | ages == {
        "status": "ready", "database": "ok", "redis": "not used", "migrations": "ok",
        "processes": "ok", "workers": 2, "workers_lost": 0, **ages,
    }  # fmt: skip


@pytest.mark.usefixtures("own_connection")
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "seconds", "away"),
    [
        ("celery@lanes", 25, "away: lanes"),
        ("celery@tasks", 25, "away: tasks"),
        (WorkerBeat.SWEEPER, 65, "away: sweeper"),
    ],
)
def test_ready_names_the_process_that_was_killed(client: Client, name: str, seconds: int, away: str) -> None:
    """Soon, and though others live: `/ready`, the metrics, jobs and the page agree."""
    record_beat("celery@lanes", runs_tasks=False)
    record_beat("celery@tasks", runs_lanes=False)
    record_beat(WorkerBeat.SWEEPER)
    WorkerBeat.objects.filter(name=name).update(seen_at=timezone.now() - timedelta(seconds=seconds))
    answer = client.get("/ready").json()
    assert (answer["status"], answer["processes"]) == ("degraded", away)
    workers = 2 - (name != WorkerBeat.SWEEPER)
    assert (answer["workers"], answer["workers_lost"]) == (workers, 2 - workers)
    (family,) = [family for family in SiteCollector().collect() if family.name == "mhb_workers"]
    assert sum(sample.value for sample in family.samples) == live_workers().count() == workers


@pytest.mark.usefixtures("own_connection")
@pytest.mark.django_db
def test_many_workers_and_a_lost_one_beside_living_ones_are_ready(client: Client) -> None:
    for number in range(70):
        record_beat(f"celery@{number}")
    record_beat(WorkerBeat.SWEEPER)
    WorkerBeat.objects.filter(name="celery@3").update(seen_at=timezone.now() - timedelta(seconds=25))
    answer = client.get("/ready").json()
    assert (answer["status"], answer["workers"], answer["workers_lost"]) == ("ready", 69, 1)


@pytest.mark.usefixtures("own_connection")
@pytest.mark.django_db
def test_ready_refuses_old_tables(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'mhb_site' AND name LIKE '0002%%'")
    answer = client.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["migrations"] == "1 to apply: run migrate"


def test_ready_gives_up_on_a_silent_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "DATABASE_SECONDS", 0.05)
    monkeypatch.setattr(probes, "_database", lambda: time.sleep(0.3))
    monkeypatch.setattr(probes, "_closing", lambda check: check())
    answer = client.get("/ready")
    assert (answer.status_code, answer.json()["database"]) == (503, "no answer within 0.05 s")


def test_metrics_tell_what_they_know_without_the_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.ENV, "metrics_token", "scrape-me")
    monkeypatch.setattr(probes, "_in_time", lambda _check: "OperationalError")
    answer = client.get("/metrics", headers={"authorization": "Bearer scrape-me"})
    assert "mhb_database_up 0.0" in answer.text
    assert "mhb_disk_free_bytes" in answer.text
    assert "mhb_work_rows" not in answer.text


@pytest.mark.django_db
def test_rows_of_cancelled_jobs_do_not_wait() -> None:
    batch = drafts(3)
    depth = {tuple(sample.labels.values()): sample.value for sample in _samples("mhb_work_rows")}
    assert depth["batch", "drafts", "queued"] == 3
    jobs_services.cancel(batch.pk)
    depth = {tuple(sample.labels.values()): sample.value for sample in _samples("mhb_work_rows")}
    assert depth["batch", "drafts", "queued"] == 0


def _samples(name: str) -> list[Any]:
    return [sample for family in SiteCollector().collect() if family.name == name for sample in family.samples]


@pytest.mark.django_db
def test_a_sweeper_is_no_worker() -> None:
    record_beat(WorkerBeat.SWEEPER)
    assert not live_workers().exists()


def test_metrics_say_that_redis_is_away_and_count_no_messages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not 0: nobody knows."""
    monkeypatch.setattr(settings.ENV, "metrics_token", "scrape-me")
    monkeypatch.setattr(settings.ENV, "redis_url", "redis://127.0.0.1:9/0")
    monkeypatch.setattr(probes, "_in_time", lambda _check: "OperationalError")
    answer = client.get("/metrics", headers={"authorization": "Bearer scrape-me"})
    assert "mhb_redis_up 0.0" in answer.text
    assert "mhb_queue_messages" not in answer.text


@pytest.mark.usefixtures("own_connection")
@pytest.mark.django_db
def test_metrics_need_their_token(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/metrics").status_code == 404
    monkeypatch.setattr(settings.ENV, "metrics_token", "scrape-me")
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"authorization": "Bearer other"}).status_code == 401
    record_beat(WorkerBeat.SWEEPER)
    client.get("/accounts/login/")
    answer = client.get("/metrics", headers={"authorization": "Bearer scrape-me"})
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert {"mhb_info", "mhb_work_rows", "mhb_calls", "mhb_reviews", "mhb_lanes", "mhb_audit_entries"} <= set(families)
    (age,) = families["mhb_beat_age_seconds"].samples
    assert age.labels == {"process": "sweeper", "name": "sweeper"}
    assert 0 <= age.value < 60
    workers = {sample.labels["runs"]: sample.value for sample in families["mhb_workers"].samples}
    assert workers == {"lanes": 0, "tasks": 0}
    routes = {
        (sample.labels["route"], sample.labels["status"]) for sample in families["mhb_http_request_seconds"].samples
    }
    assert ("/accounts/login/", "200") in routes
    assert families["mhb_redis_up"].samples[0].value == 1
    assert {"mhb_database_up", "mhb_disk_free_bytes", "mhb_queue_messages", "mhb_jobs_without_lane"} <= set(families)
    kinds = {(sample.labels["job"], sample.labels["status"]) for sample in families["mhb_work_rows"].samples}
    assert {("batch", "queued"), ("run", "running")} <= kinds


@pytest.mark.django_db
def test_a_request_is_logged_under_its_id(client: Client, written: list[str]) -> None:
    answer = client.get(f"/accounts/login/?next={SECRET}", headers={"x-request-id": "proxy-12345678"})
    assert answer["X-Request-ID"] == "proxy-12345678"
    (line,) = [line for line in written if "mhb.access" in line]
    assert "proxy-12345678" in line
    fields = json.loads(line)
    assert (fields["method"], fields["route"], fields["status"]) == ("GET", "/accounts/login/", 200)
    assert fields["ms"] >= 0
    assert "Beispiel" not in line
    assert client.get("/accounts/login/", headers={"x-request-id": "a b\u00e4"})["X-Request-ID"] != "a b\u00e4"


@pytest.mark.both
@pytest.mark.django_db
def test_errors_of_the_database_quote_no_row(written: list[str], django_user_model: type[User]) -> None:
    django_user_model.objects.create(username=SECRET[:40])
    log = logging.getLogger("any")
    try:
        with transaction.atomic():
            django_user_model.objects.create(username=SECRET[:40])
    except IntegrityError as error:
        log.exception("a part failed")
        log.warning("postponed: %s", error)
        log.error(f"Task failed: {error!r}")  # as Celery writes it
    if connection.vendor == "postgresql":
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT CAST(%s AS integer)", [SECRET])
        except DatabaseError as error:
            log.exception("a part failed: %s", error)
            log.error(f"Task failed: {error!r}")
    assert len(written) >= 3
    assert "IntegrityError" in written[0]
    assert not [line for line in written if "Beispiel" in line]


def test_long_quotations_are_cut(written: list[str]) -> None:
    try:
        int(SECRET)
    except ValueError:
        logging.getLogger("any").exception("cannot read")
    assert "characters)" in written[0]
    assert "Beispiel" not in written[0]


def test_a_failed_task_is_logged_without_what_its_error_quotes(written: list[str]) -> None:
    def read() -> None:
        int(SECRET)

    Celery(set_as_current=False).task(read).apply()
    assert "raised unexpected" in written[0]
    assert "Beispiel" not in "".join(written)


def test_sentry_gets_no_texts() -> None:
    try:
        int(SECRET)
    except ValueError as error:
        hint: dict[str, Any] = {"exc_info": (type(error), error, error.__traceback__)}
        event = {
            "request": {"data": SECRET},
            "exception": {"values": [{"value": str(error)}, {"value": SECRET}]},
            "extra": {"x": SECRET},
        }
    assert "Beispiel" not in str(without_texts(event, hint))
