"""Databases that cannot be used: one sentence, and processes that wait."""

import errno
import logging
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection

import manage as manage_py
from bench.servers import free_port
from mhb_site.server import startup

ROOT = Path(__file__).resolve().parent.parent.parent


def _without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MHB_")}


def manage(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command with an environment of its own."""
    environment = {**_without_settings(), "MHB_DATA_DIR": str(folder), "MHB_SECRET_KEY": "k" * 40, "MHB_HTTPS": "false"}
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**environment, **variables}, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.plain
def test_an_unreachable_database_is_one_sentence(tmp_path: Path) -> None:
    url = f"postgresql://mhb:so-secret@127.0.0.1:{free_port()}/mhb"
    result = manage(tmp_path, "migrate", MHB_DATABASE_URL=url)
    assert result.returncode == 1
    assert "cannot be reached" in result.stderr
    assert "Traceback" not in result.stderr
    assert "so-secret" not in result.stderr


@pytest.mark.plain
def test_a_reader_that_wants_no_more_ends_a_command_without_words() -> None:
    """As in `manage.py report 1 | head -1`."""
    unread, output = os.pipe()
    os.close(unread)
    command = [sys.executable, "manage.py", "help", "--commands"]
    try:
        result = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.PIPE, check=False, timeout=300)
    finally:
        os.close(output)
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.plain
def test_a_connection_that_breaks_is_not_taken_for_a_reader_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(_arguments: list[str]) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("django.core.management.execute_from_command_line", broken)
    with (tmp_path / "output").open("w") as output:
        monkeypatch.setattr("sys.stdout", output)
        with pytest.raises(BrokenPipeError):
            manage_py.main()


@pytest.mark.plain
def test_an_interrupted_command_ends_without_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_arguments: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("django.core.management.execute_from_command_line", interrupt)
    with pytest.raises(SystemExit) as ended:
        manage_py.main()
    assert ended.value.code == 128 + signal.SIGINT


@pytest.mark.plain
def test_a_command_without_tables_says_what_is_missing(tmp_path: Path) -> None:
    result = manage(tmp_path, "verify_audit")
    assert (result.returncode, result.stderr.count("\n")) == (1, 1), result.stderr
    assert "run `manage.py migrate`" in result.stderr


@pytest.mark.django_db
def test_a_refused_connection_names_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite refuses nobody")
    monkeypatch.setitem(connection.settings_dict, "NAME", "there_is_none")
    assert 'database "there_is_none" does not exist (check MHB_DATABASE_URL)' in startup.problem()


@pytest.mark.plain
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """Not as missing migrations, which `migrate` was just running."""
    small = sqlite3.connect(tmp_path / "small.sqlite3", isolation_level=None)
    small.execute("PRAGMA max_page_count = 2")
    with pytest.raises(sqlite3.OperationalError) as full:
        small.execute("CREATE TABLE t AS SELECT randomblob(100000)")
    error = OperationalError(*full.value.args)
    error.__cause__ = full.value
    assert "disk of the database is full" in startup.explained(error)
    of_postgresql = OperationalError("could not extend file")
    of_postgresql.__cause__ = psycopg.errors.DiskFull()
    assert "disk of the database is full" in startup.explained(of_postgresql)
    assert "/data/queue" in startup.explained(OSError(errno.ENOSPC, "No space left on device", "/data/queue"))
    assert startup.explained(OSError(errno.EACCES, "Permission denied", "/data/queue")) == ""


@pytest.mark.plain
def test_migrate_on_a_full_disk_says_so(tmp_path: Path) -> None:
    """The disk is full in the middle: a trigger of the connection's own limit stands for it."""
    limited = tmp_path / "limited"
    limited.mkdir()
    (limited / "sitecustomize.py").write_text(LIMITED)
    result = manage(tmp_path / "data", "migrate", PYTHONPATH=str(limited))
    assert result.returncode == 1
    assert "The disk of the database is full." in result.stderr
    assert "Traceback" not in result.stderr


LIMITED = """
import sqlite3

real = sqlite3.connect


def connect(*arguments, **options):
    connection = real(*arguments, **options)
    connection.execute("PRAGMA max_page_count = 60")
    return connection


sqlite3.connect = sqlite3.dbapi2.connect = connect
"""


@pytest.mark.both
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("name", "old"), [("0002_append_only", True), ("9999_later", False)])
def test_databases_of_other_versions(name: str, old: bool) -> None:
    """One from before 0.1.0 is refused; one that is newer can be used, as in a rolling restart."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('review', %s, CURRENT_TIMESTAMP)", [name]
        )
    try:
        assert ("made before version 0.1.0" in startup.problem()) is old
        assert startup.problem() == "" or old
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM django_migrations WHERE name = %s", [name])


@pytest.mark.plain
def test_processes_say_once_why_they_wait(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    answers = iter(["It is away.", "It is away.", "It is old.", ""])
    monkeypatch.setattr(startup, "problem", lambda: next(answers))
    monkeypatch.setattr(startup, "EVERY", 0.0)
    monkeypatch.setattr(startup, "_READY", type(startup._READY)())
    with caplog.at_level(logging.WARNING):
        startup.wait()
    assert [record.getMessage() for record in caplog.records] == ["It is away. Waiting.", "It is old. Waiting."]


@pytest.mark.plain
def test_pages_wait_and_probes_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from mhb_site import wsgi

    monkeypatch.setattr(startup, "is_ready", lambda: False)
    monkeypatch.setattr(wsgi, "handler", lambda _environ, _start: [b"handled"])
    said: list[str] = []

    def start(status: str, *_: Any) -> Any:
        said.append(status)

    environ = {"PATH_INFO": "/", "REQUEST_METHOD": "GET"}
    assert b"not ready" in b"".join(wsgi.application(environ, start))
    assert said == ["503 Service Unavailable"]
    assert list(wsgi.application({**environ, "PATH_INFO": "/live"}, start)) == [b"handled"]


@pytest.mark.django_db
def test_a_connection_that_was_cut_is_one_sentence() -> None:
    cut = OperationalError("server closed the connection unexpectedly")
    cut.__cause__ = psycopg.OperationalError("server closed the connection unexpectedly")
    assert "was cut" in startup.explained(cut)
