"""The embedded database: writers wait for one another, and errors are told by name."""

import sqlite3
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


def test_writers_take_turns_and_lose_nothing(run_concurrently: RunConcurrently) -> None:
    def add() -> None:
        for _ in range(20):
            with transaction.atomic():
                WorkerBeat.objects.create(name=str(WorkerBeat.objects.count()), seen_at=timezone.now())

    assert run_concurrently([add] * 6) == [None] * 6  # two equal names would raise an IntegrityError
    assert WorkerBeat.objects.count() == 120


def test_a_writer_that_waits_too_long_gets_an_error(run_concurrently: RunConcurrently) -> None:
    connections["default"].settings_dict["OPTIONS"]["timeout"] = 0.2
    try:
        with transaction.atomic():
            write()
            [outcome] = run_concurrently([commit])
    finally:
        connections["default"].settings_dict["OPTIONS"]["timeout"] = 30
    assert "database is locked" in str(outcome)


def test_an_error_of_the_file_has_sqlites_own_name(tmp_path: Path) -> None:
    (tmp_path / "no.sqlite3").write_bytes(b"This is no database." * 100)
    wrapper = base.DatabaseWrapper({**connection.settings_dict, "NAME": str(tmp_path / "no.sqlite3")})
    with pytest.raises(sqlite3.DatabaseError) as error:
        wrapper.connect()
    assert error.value.__notes__ == ["SQLite calls it SQLITE_NOTADB."]


def test_a_locked_database_at_first_use_does_not_cost_json_fields(transactional_db: None, tmp_path: Path) -> None:
    holder, late = connection.copy(), connection.copy()
    try:
        holder.ensure_connection()
        holder.cursor().execute("BEGIN IMMEDIATE")
        with late.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 1")
        assert late.features.supports_json_field, "asked while the database is locked"
        assert late.features.has_json_object_function
        assert late.features.can_introspect_json_field
    finally:
        holder.close()
        late.close()
