"""A worker's sign of life outlives the database's absence."""

from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from mhb_site import celery


def test_the_beat_goes_on_when_the_database_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    away = iter([OperationalError("server closed the connection"), InterfaceError("connection already closed")])

    def alive(_name: str) -> None:
        if error := next(away, None):
            raise error
        said.append("alive")

    class Stopping:
        def wait(self, _seconds: float) -> bool:
            return bool(said)

    def gone(_name: str) -> Any:
        said.append("gone")

    monkeypatch.setattr("generation.engine.worker_beats.record_beat", alive)
    monkeypatch.setattr("generation.engine.worker_beats.remove_beat", gone)
    monkeypatch.setattr(celery, "_stopping", Stopping())
    monkeypatch.setattr("django.db.connection.close", lambda: None)
    celery._record_beats("one@here")
    assert said == ["alive", "gone"]
