"""The start of the demo: a partly loaded one is removed, a complete one is kept."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from mhb_site.demo import progress
from mhb_site.management.commands.demo import remove_partial_demo

pytestmark = pytest.mark.plain


@pytest.mark.parametrize("partial", [True, False])
def test_only_a_partial_demo_is_removed(tmp_path: Path, partial: bool) -> None:
    kept = {"secret_key", "other.sqlite3"}
    database = {"mhb.sqlite3", "mhb.sqlite3-wal", "mhb.sqlite3-shm"}
    for name in kept | database | ({progress.FILE} if partial else set()):
        (tmp_path / name).touch()
    assert remove_partial_demo(tmp_path) is partial
    assert {path.name for path in tmp_path.iterdir()} == (kept if partial else kept | database)
    assert remove_partial_demo(tmp_path) is False


@pytest.fixture
def data_folder(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.MHB_EMBEDDED = True
    monkeypatch.setattr(progress, "file", lambda: tmp_path / progress.FILE)
    return tmp_path


def asks(client: Client) -> str:
    """What the banner of a page gets when it asks again."""
    answer = client.get("/demo/loading/", headers={"HX-Request": "true"})
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.django_db
@pytest.mark.usefixtures("data_folder")
def test_pages_say_how_far_the_demo_has_loaded(client: Client) -> None:
    assert "demo-loading" not in client.get("/accounts/login/").content.decode()
    for number, label in enumerate(progress.STEPS):
        progress.write(label)
        page = client.get("/accounts/login/").content.decode()
        assert label in page
        assert f"{number} of {len(progress.STEPS)}" in page
        assert label in asks(client)
    progress.file().unlink()
    assert "demo-loading" not in client.get("/accounts/login/").content.decode()
    assert "The demo has loaded." in asks(client)


def test_every_step_that_the_demo_tells_is_listed() -> None:
    """A label that is not in STEPS would be printed, and never reach a page."""
    folder = Path(progress.__file__).parent
    sources = [file.read_text() for file in folder.glob("*.py") if file.name != "progress.py"]
    for label in progress.STEPS:
        assert any(f'"{label}"' in source for source in sources), label
    told = re.findall(r'\btell\("([^"]+)"\)', "\n".join(sources))
    assert [label for label in told if label not in progress.STEPS and "no trace was kept" not in label] == []
