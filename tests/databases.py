"""Migrated, empty databases: made once per test run and copied for each use."""

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
# Environment variable with the folder that all workers and passes of a test run share.
FOLDER_VARIABLE = "TEST_DATABASES"


@contextmanager
def shared_folder() -> Iterator[None]:
    """Keep migrated databases until the end of this block, or of the test run that contains it."""
    if FOLDER_VARIABLE in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="mhb-databases-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER_VARIABLE]


def migrated_sqlite() -> Path:
    """Return the path of a migrated SQLite file, to be copied."""
    return _make_once("migrated.sqlite3", _make_sqlite)


def migrated_cluster() -> Path:
    """Return the data directory of a PostgreSQL whose database `mhb` is migrated, to be copied.

    Raises servers.Missing where PostgreSQL is not installed.
    """
    return _make_once("migrated-cluster", _make_cluster)


def _make_once(name: str, make: Callable[[Path, Path], None]) -> Path:
    """Call `make(work folder, target)` in the first process that asks; the others wait for it."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    path = folder / name
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(prefix="mhb-migrate-") as work:
                make(Path(work), folder / f"{name}.part")
            (folder / f"{name}.part").rename(path)
    return path


def _make_sqlite(work: Path, target: Path) -> None:
    _migrate(work, "")
    with closing(sqlite3.connect(work / "mhb.sqlite3")) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)  # includes what is still in the write-ahead log


def _make_cluster(work: Path, target: Path) -> None:
    server_folder = tempfile.mkdtemp(prefix="mhb-postgres-")  # owned by PostgreSQL's account
    try:
        server = Postgres(server_folder)
        server.start()
        try:
            server.create_database()
            _migrate(work, server.url)
        finally:
            server.stop("fast")
        subprocess.run(["cp", "-a", f"{server_folder}/data", str(target)], check=True)
    finally:
        shutil.rmtree(server_folder, ignore_errors=True)


def _migrate(folder: Path, url: str) -> None:
    environment = {
        "MHB_DATA_DIR": str(folder),
        "MHB_DATABASE_URL": url,
        "MHB_REDIS_URL": "",
        "MHB_SECRET_KEY": "x" * 40,
        "MHB_HTTPS": "false",
    }
    result = subprocess.run(
        [sys.executable, "manage.py", "migrate", "-v0", "--skip-checks"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(result.stderr)
