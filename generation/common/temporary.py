"""Temporary folders, which hold text of cases: a killed process must not leave them behind."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "mhb-temporary-"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed at the end, or by `remove_orphans` if this process is killed."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        held = os.open(name, os.O_RDONLY)  # the system ends the lock with the process
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(held)


def remove_orphans() -> None:
    """Remove the folders of processes that were killed; for the sweeper."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is in use, gone, or another account's
            if path.stat().st_mtime > time.time() - 60:
                continue  # its process may not have locked it yet
            held = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            finally:
                os.close(held)
