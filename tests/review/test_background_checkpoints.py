"""On SQLite, a background thread copies committed pages from the log into the database."""

import threading
import time
from pathlib import Path

import pytest
from django.db import connection

from review.common import bulk_rows
from review.models import User

pytestmark = [pytest.mark.sqlite_only, pytest.mark.django_db(transaction=True)]


def checkpoint_threshold() -> int:
    """The number of pages in the log at which SQLite checkpoints by itself."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_autocheckpoint")
        return int(cursor.fetchone()[0])


def test_a_thread_copies_committed_rows_and_ends_with_the_block() -> None:
    file = Path(connection.settings_dict["NAME"])
    if not file.is_file():
        pytest.skip("the database is in memory")
    threshold_before = checkpoint_threshold()
    with bulk_rows.background_checkpoints():
        assert checkpoint_threshold() == bulk_rows.MAX_WAL_PAGES
        User.objects.create_user("written-and-copied")
        for _ in range(500):
            if is_copied := b"written-and-copied" in file.read_bytes():
                break
            time.sleep(0.02)
    assert is_copied
    assert not [thread for thread in threading.enumerate() if thread.name == "copy-log"]
    assert checkpoint_threshold() == threshold_before == bulk_rows.DEFAULT_WAL_PAGES
