"""Commits on SQLite that leave it to a thread to copy the log into the database."""

import threading
import time
from pathlib import Path

import pytest
from django.db import connection

from review.common import bulk_rows
from review.models import User

pytestmark = [pytest.mark.sqlite_only, pytest.mark.django_db(transaction=True)]


def log_size() -> int:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_autocheckpoint")
        return int(cursor.fetchone()[0])


def test_a_thread_copies_what_is_committed_and_ends_with_the_work() -> None:
    file = Path(connection.settings_dict["NAME"])
    if not file.is_file():
        pytest.skip("the database is in memory")
    usual = log_size()
    with bulk_rows.background_checkpoints():
        assert log_size() == bulk_rows.MAX_WAL_PAGES
        User.objects.create_user("written-and-copied")
        for _ in range(500):
            if is_copied := b"written-and-copied" in file.read_bytes():
                break
            time.sleep(0.02)
    assert is_copied
    assert not [each for each in threading.enumerate() if each.name == "copy-log"]
    assert log_size() == usual == bulk_rows.DEFAULT_WAL_PAGES
