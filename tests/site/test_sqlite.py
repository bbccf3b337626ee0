"""The embedded database: every writer, in whatever way it ended, leaves the turn to the next."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from generation.models import WorkerBeat
from mhb_site.sqlite import base
from tests.conftest import RunConcurrently

pytestmark = pytest.mark.sqlite_only


def write(name: str = "w") -> None:
    WorkerBeat.objects.update_or_create(name=name, defaults={"seen_at": timezone.now()})


def commit() -> None:
    with transaction.atomic():
        write()


def roll_back() -> None:
    with contextlib.suppress(ZeroDivisionError), transaction.atomic():
        write()
        raise ZeroDivisionError


def lose_the_connection() -> None:
    with contextlib.suppress(Exception), transaction.atomic():
        write()
        connection.close()
    connection.close()


def fail_to_begin() -> None:
    connection.ensure_connection()
    connection.connection.close()
    with contextlib.suppress(Exception), transaction.atomic():
        write()
    connection.close()


@pytest.mark.parametrize("end", [commit, roll_back, lose_the_connection, fail_to_begin])
def test_the_turn_is_given_on(end: Callable[[], None], run_concurrently: RunConcurrently) -> None:
    turn = base._write_locks[str(connection.settings_dict["NAME"])]
    assert run_concurrently([end]) == [None]
    assert not turn.locked()
    assert run_concurrently([commit]) == [None]


def test_one_at_a_time_and_nothing_is_lost(run_concurrently: RunConcurrently) -> None:
    def add() -> None:
        for _ in range(20):
            with transaction.atomic():
                assert base._write_locks[str(connection.settings_dict["NAME"])].locked()
                WorkerBeat.objects.create(name=str(WorkerBeat.objects.count()), seen_at=timezone.now())

    assert run_concurrently([add] * 6) == [None] * 6  # a name given twice would be an IntegrityError
    assert WorkerBeat.objects.count() == 120


def test_who_waits_too_long_is_told(run_concurrently: RunConcurrently) -> None:
    connections["default"].settings_dict["OPTIONS"]["timeout"] = 0.2
    try:
        with transaction.atomic():
            write()
            [outcome] = run_concurrently([commit])
    finally:
        connections["default"].settings_dict["OPTIONS"]["timeout"] = 30
    assert "database is locked" in str(outcome)


def test_a_fault_of_the_file_is_told_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "no.sqlite3").write_bytes(b"This is no database." * 100)
    wrapper = base.DatabaseWrapper({**connection.settings_dict, "NAME": str(tmp_path / "no.sqlite3")})
    with pytest.raises(sqlite3.DatabaseError) as fault:
        wrapper.connect()
    assert fault.value.__notes__ == ["SQLite calls it SQLITE_NOTADB."]
