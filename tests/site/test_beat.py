"""A worker keeps recording its beat after the database was unreachable."""

from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from mhb_site import celery


def test_beats_continue_when_the_database_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    failures = iter([OperationalError("server closed the connection"), InterfaceError("connection already closed")])

    def record_beat(_name: str, **_runs: bool) -> None:
        if error := next(failures, None):
            raise error
        calls.append("recorded")

    class StopAfterFirstBeat:
        def wait(self, _seconds: float) -> bool:
            return bool(calls)

    def remove_beat(_name: str) -> Any:
        calls.append("removed")

    monkeypatch.setattr("generation.engine.worker_beats.record_beat", record_beat)
    monkeypatch.setattr("generation.engine.worker_beats.remove_beat", remove_beat)
    monkeypatch.setattr(celery, "_stopping", StopAfterFirstBeat())
    monkeypatch.setattr("django.db.connection.close", lambda: None)
    celery._record_beats()
    assert calls == ["recorded", "removed"]
