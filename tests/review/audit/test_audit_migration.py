"""A database from before the chain: its events are chained as they stand, and everything is protected afterwards."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench import servers

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.processes, pytest.mark.plain]

NOON = "2026-03-01 12:00:00.000001+00:00"
ROWS: list[tuple[str, dict[str, Any]]] = [
    (
        "review_user",
        {"id": 1, "username": "ana", "password": "", "is_superuser": False, "is_staff": False, "is_active": True,
         "first_name": "", "last_name": "", "email": "", "date_joined": NOON, "role": "physician", "hospital": "",
         "specialty": "", "languages": "[]", "stages": "[]"},
    ),
    *(
        (
            "review_case",
            {"id": number, "kind": "work", "benchmark": "b", "lineage": f"s-{number}", "version": 1, "title": "t",
             "language": "", "specialty": "", "spec": "{}", "fresh_eyes_required": False, "simulated": False, "priority": 0,
             "state": "primary", "ground": "", "opened_at": NOON},
        )
        for number in (1, 2)
    ),
    (
        "review_assignment",
        {"id": 1, "case_id": 1, "role": "primary", "phase": "commit", "hold": "done", "physician_id": 1, "why": "",
         "opened_at": NOON, "priority": 0, "turn": 2, "language": "", "specialty": "", "calibration": "",
         "other_hospital": False},
    ),
    (
        "review_review",
        {"id": 1, "case_id": 1, "assignment_id": 1, "physician_id": 1, "role": "primary", "phase": "commit",
         "answers": "{}", "verdict": "approve", "inadequate": False, "submitted_at": NOON, "attempt": 1, "signed_as": "",
         "meaning": ""},
    ),
    *(
        ("review_event", {"id": pk, "case_id": case, "kind": kind, "actor_id": actor, "at": NOON, "data": json.dumps(data)})
        for pk, case, kind, actor, data in [
            (2, 1, "opened", None, {}),
            (3, 2, "opened", None, {}),
            (5, 1, "claimed", 1, {"role": "primary", "taken_from": 1}),
            (9, 1, "submitted", 1, {"role": "primary", "phase": "commit", "review": 1}),
        ]
    ),
    ("review_personevent", {"person_id": 1, "kind": "paused", "actor_id": None, "at": NOON, "data": "{}"}),
]  # fmt: skip

Sql = Callable[..., list[Any]]


@contextmanager
def database(kind: str, folder: Path) -> Iterator[tuple[dict[str, str], Sql]]:
    """The environment of an empty database, and plain SQL on it."""
    base = {"MHB_DATA_DIR": str(folder), "MHB_SECRET_KEY": "for tests, and longer than thirty-two characters"}
    if kind == "sqlite":
        import sqlite3

        def on_sqlite(statement: str, *values: Any) -> list[Any]:
            with closing(sqlite3.connect(folder / "mhb.sqlite3", isolation_level=None)) as connection:
                return connection.execute(statement.replace("%s", "?"), values).fetchall()

        yield {**base, "MHB_DATABASE_URL": ""}, on_sqlite
        return
    try:
        with servers.postgres() as url:
            import psycopg

            def on_postgres(statement: str, *values: Any) -> list[Any]:
                with psycopg.connect(url, autocommit=True) as connection:
                    cursor = connection.execute(statement, values)
                    return cursor.fetchall() if cursor.description else []

            yield {**base, "MHB_DATABASE_URL": url, "MHB_HTTPS": "false"}, on_postgres
    except servers.Missing as missing:
        if servers.ci():
            raise
        pytest.skip(str(missing))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_events_from_before(kind: str, tmp_path: Path) -> None:
    with database(kind, tmp_path) as (environment, sql):

        def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "manage.py", *arguments]
            env = {**os.environ, **environment}
            return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

        done = manage("migrate", "review", "0004_claims", "-v0")
        assert done.returncode == 0, done.stderr
        for table, row in ROWS:
            places = ", ".join(["%s"] * len(row))
            sql(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", *row.values())
        done = manage("migrate", "-v0")
        assert done.returncode == 0, done.stderr

        events = sql("SELECT id, sequence, number FROM review_event ORDER BY sequence")
        assert events == [(2, 1, 1), (3, 2, 1), (5, 3, 2), (9, 4, 3)]
        said = json.loads(manage("verify_audit", "--json").stdout)
        checked = 6  # the account, which had no event, has one now
        assert (said["intact"], said["checked"], said["reviews"], said["unsealed"]) == (True, checked, 1, 1)
        for table in ("review_event", "review_personevent", "review_review", "review_chainhead", "generation_release"):
            for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET id = 7", f"TRUNCATE {table} CASCADE"):
                _refused(kind, sql, table, statement)

        if kind == "sqlite":
            sql("DROP TRIGGER review_event_no_update")
        else:
            sql("ALTER TABLE review_event DISABLE TRIGGER USER")
        sql("UPDATE review_event SET kind = 'moved' WHERE id = 5")
        done = manage("verify_audit")
        assert done.returncode == 1
        assert "event 3 (id 5) · case 1: altered" in done.stdout


def _refused(kind: str, sql: Sql, table: str, statement: str) -> None:
    """What changes a row fails; an empty table has none, except for TRUNCATE."""
    if statement.startswith("TRUNCATE") and kind == "sqlite":
        return
    if table == "generation_release" and not statement.startswith("TRUNCATE"):
        return
    if table == "review_chainhead":
        statement = statement.replace("SET id = 7", "SET name = 'other'")
    with pytest.raises(Exception, match="append-only"):
        sql(statement)
