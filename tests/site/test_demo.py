"""The demo's beginnings: half of one is not kept, a whole one is."""

from pathlib import Path

import pytest

from mhb_site.management.commands.demo import LOADING, remove_partial_demo

pytestmark = pytest.mark.plain


@pytest.mark.parametrize("half", [True, False])
def test_only_half_a_demo_is_removed(tmp_path: Path, half: bool) -> None:
    kept = {"secret_key", "other.sqlite3"}
    database = {"mhb.sqlite3", "mhb.sqlite3-wal", "mhb.sqlite3-shm"}
    for name in kept | database | ({LOADING} if half else set()):
        (tmp_path / name).touch()
    assert remove_partial_demo(tmp_path) is half
    assert {path.name for path in tmp_path.iterdir()} == (kept if half else kept | database)
    assert remove_partial_demo(tmp_path) is False
