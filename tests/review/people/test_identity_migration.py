"""Accounts from before names had one form: they get it, with a first event, and two that become one stop the migration."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.review.audit.test_audit_migration import ROOT, ROWS

pytestmark = [pytest.mark.processes, pytest.mark.plain]
BEFORE = ("review", "0009_approved_on_a_ground")
Manage = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def manage(tmp_path: Path) -> Manage:
    env = {**os.environ, "MHB_DATA_DIR": str(tmp_path), "MHB_DATABASE_URL": ""}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

    return run


def test_names_from_before(manage: Manage, tmp_path: Path) -> None:
    assert manage("migrate", *BEFORE, "-v0").returncode == 0
    with closing(sqlite3.connect(tmp_path / "mhb.sqlite3", isolation_level=None)) as database:
        _table, row = ROWS[0]
        places = ", ".join("?" * len(row))
        for pk, name in ((1, "Sec1"), (2, "ＳＥＣ１"), (3, "bo")):
            values = {**row, "id": pk, "username": name, "is_superuser": pk == 3}
            database.execute(f"INSERT INTO review_user ({', '.join(row)}) VALUES ({places})", tuple(values.values()))
        refused = manage("migrate", "-v0")
        assert refused.returncode == 1
        assert "'Sec1' (id 1), 'ＳＥＣ１' (id 2)." in refused.stderr
        assert "Traceback" not in refused.stderr
        assert "bo" not in refused.stderr.rpartition("earlier version")[2]
        database.execute("UPDATE review_user SET username = 'sec2' WHERE id = 2")
        done = manage("migrate", "-v0")
        assert done.returncode == 0, done.stderr
        names = database.execute("SELECT username FROM review_user ORDER BY id").fetchall()
        assert names == [("sec1",), ("sec2",), ("bo",)]
        assert database.execute("SELECT kind FROM review_personevent").fetchall() == [("found",)] * 3
        assert manage("verify_audit").returncode == 0
        database.execute("UPDATE review_user SET role = 'admin' WHERE id = 1")
        said = manage("verify_audit")
        assert said.returncode == 1
        assert "sec1 (id 1): this account's role" in said.stdout
