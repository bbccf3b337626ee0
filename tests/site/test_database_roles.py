"""On PostgreSQL, the site's role of docs/operations.md works, and cannot lift a trigger."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from bench import servers

ROOT = Path(__file__).parents[2]
REFUSED = psycopg.errors.InsufficientPrivilege


def documented_sql() -> str:
    """The statements of docs/operations.md, of which each line is indented."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    section = text.partition("## A second database role\n")[2].partition("\n## ")[0]
    return "\n".join(re.findall(r"^    (.*)$", section, re.MULTILINE))


def manage(url: str, *arguments: str) -> str:
    needed = {"MHB_SECRET_KEY": "k" * 50, "MHB_HTTPS": "false"}
    environment = {**os.environ, "MHB_DATABASE_URL": url, **needed}
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def site_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database migrated by its owner; yields the URL for the documented role of the site."""
    monkeypatch.setenv("MHB_DATA_DIR", str(tmp_path))
    try:
        with servers.postgres(careless=True) as superuser:
            with psycopg.connect(superuser, autocommit=True) as connection:
                connection.execute(documented_sql())
            manage(superuser.replace("mhb@", "mhb_owner@"), "migrate", "--verbosity", "0")
            yield superuser.replace("mhb@", "mhb_site@")
    except servers.Missing as missing:
        if servers.ci():
            raise
        pytest.skip(str(missing))


def test_the_role_of_the_site_works_and_cannot_lift_a_trigger(site_url: str) -> None:
    manage(site_url, "add_person", "Ana Ruiz", "--role", "physician")
    assert " 0 faults" in manage(site_url, "verify_audit")
    with psycopg.connect(site_url, autocommit=True) as site:
        [count] = site.execute("SELECT count(*) FROM review_personevent").fetchone() or [0]
        assert count > 0
        for table in ("review_personevent", "review_review", "generation_release", "generation_releasedrubric"):
            for lifting in (
                f"ALTER TABLE {table} DISABLE TRIGGER USER",
                f"DROP TRIGGER {table}_no_update ON {table}",
                f"DROP FUNCTION {table}_refuse() CASCADE",
                f"TRUNCATE {table} CASCADE",
                f"DROP TABLE {table} CASCADE",
                f"CREATE OR REPLACE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
                "SET session_replication_role = replica",
                "SET ROLE mhb_owner",
                "CREATE TABLE public.shadow (id int)",
            ):
                with pytest.raises(REFUSED):
                    site.execute(lifting)
        with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="append-only"):
            site.execute("UPDATE review_personevent SET data = '{}'")
        with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="append-only"):
            site.execute("DELETE FROM review_personevent")
