"""The id of a request is kept with the job that it launched, and its lanes work under it."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
import structlog
from django.utils import timezone

from generation import tasks
from generation.models import Call, Job, Lane
from generation.models.request_ids import current_request_id

pytestmark = pytest.mark.django_db


def test_a_lane_works_under_the_id_of_the_request_that_launched_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    with structlog.contextvars.bound_contextvars(request_id="of-the-launch"):
        job = Job.objects.create(kind="batch", created_at=timezone.now())
    seen: list[str] = []
    kind = SimpleNamespace(work=lambda _job: seen.extend([current_request_id(), Call().request_id]))
    lane = Lane.objects.create(job=job, worker="here:1", until=timezone.now() + timedelta(minutes=1))
    monkeypatch.setattr(tasks, "kind_of", lambda _job: kind)
    monkeypatch.setattr("generation.jobs.lanes.reserve", lambda _worker, without: lane)
    monkeypatch.setattr("generation.trials.checking.is_unchecked", lambda _job: False)
    with structlog.contextvars.bound_contextvars(request_id="of-whoever-woke-it"):
        tasks.run_lane()
    assert seen == ["of-the-launch"] * 2
