"""The start of the demo: a partly loaded one is removed, a complete one is kept."""

from pathlib import Path

import pytest

from mhb_site.management.commands.demo import LOADING, remove_partial_demo

pytestmark = pytest.mark.plain


@pytest.mark.parametrize("partial", [True, False])
def test_only_a_partial_demo_is_removed(tmp_path: Path, partial: bool) -> None:
    kept = {"secret_key", "other.sqlite3"}
    database = {"mhb.sqlite3", "mhb.sqlite3-wal", "mhb.sqlite3-shm"}
    for name in kept | database | ({LOADING} if partial else set()):
        (tmp_path / name).touch()
    assert remove_partial_demo(tmp_path) is partial
    assert {path.name for path in tmp_path.iterdir()} == (kept if partial else kept | database)
    assert remove_partial_demo(tmp_path) is False
