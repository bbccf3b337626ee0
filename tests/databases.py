"""Migrated, empty databases: made once a run of tests, and copied for those who need one."""

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.servers import Postgres

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "TEST_DATABASES"  # the variable with the folder of a run, for all its workers and passes


@contextmanager
def kept() -> Iterator[None]:
    """What is made is kept until the end of this, or of the run that this is part of."""
    if FOLDER in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="mhb-databases-") as folder:
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]


def sqlite() -> Path:
    """A migrated SQLite file, to be copied."""
    return _once("migrated.sqlite3", _make_sqlite)


def cluster() -> Path:
    """The data directory of a PostgreSQL whose database `mhb` is migrated, to be copied. Raises servers.Missing."""
    return _once("migrated-cluster", _make_cluster)


def _once(name: str, make: Callable[[Path, Path], None]) -> Path:
    folder = Path(os.environ[FOLDER])
    done = folder / name
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            with tempfile.TemporaryDirectory(prefix="mhb-migrate-") as work:
                make(Path(work), folder / f"{name}.part")
            (folder / f"{name}.part").rename(done)
    return done


def _make_sqlite(work: Path, made: Path) -> None:
    _migrate(work, "")
    with closing(sqlite3.connect(work / "mhb.sqlite3")) as whole, closing(sqlite3.connect(made)) as copy:
        whole.backup(copy)  # with what is still in its log


def _make_cluster(work: Path, made: Path) -> None:
    own = tempfile.mkdtemp(prefix="mhb-postgres-")  # of PostgreSQL's own account
    try:
        server = Postgres(own)
        server.start()
        try:
            server.create_database()
            _migrate(work, server.url)
        finally:
            server.stop("fast")
        subprocess.run(["cp", "-a", f"{own}/data", str(made)], check=True)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _migrate(folder: Path, url: str) -> None:
    environment = {
        "MHB_DATA_DIR": str(folder),
        "MHB_DATABASE_URL": url,
        "MHB_REDIS_URL": "",
        "MHB_SECRET_KEY": "x" * 40,
        "MHB_HTTPS": "false",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate", "-v0", "--skip-checks"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
