"""The notebook docs/client.ipynb runs, cell by cell, against a running site."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

import mhb_client
from tests.processes import Site, running_site

pytestmark = [pytest.mark.processes, pytest.mark.plain]
NOTEBOOK = Path(settings.BASE_DIR) / "docs" / "client.ipynb"
# What the cells need of the demo: a release, models, and records that no draft has used.
SETUP = """
from datetime import timedelta
from pathlib import Path
from knox.models import AuthToken
from generation.releases.services import freeze_release
from review.models import User
from tests.engine import conversations_file, endpoint, import_file, make_release
folder, url = Path({folder!r}), {url!r}
for model in ("sim-careful", "sim-reckless", "sim-judge", "sim-generator", "sim-examiner"):
    endpoint(url, model)
physicians = [User.objects.create_user(name, role="physician") for name in ("ana", "bo")]
make_release(folder, url, physicians, conversations=3)
freeze_release("mhb-demo", benchmark="mhb")
import_file(conversations_file(folder / "more.jsonl", 5), "demo-conversations")
admin = User.objects.create_user("adela", role="admin")
print(AuthToken.objects.create(admin, expiry=timedelta(days=1))[1])
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_site("embedded", tmp_path) as running:
        running.start_models()
        running.start_web()
        running.start_worker()
        yield running


def test_the_notebook_runs(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = site.manage("shell", "-v0", "-c", SETUP.format(folder=str(tmp_path), url=site.models_url))
    assert made.returncode == 0, made.stderr
    monkeypatch.setenv("MHB_TOKEN", made.stdout.split()[-1])
    client = mhb_client.Client
    monkeypatch.setattr(mhb_client, "Client", lambda _address: client(site.url))
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert list(names["table"]["endpoint"]) == ["sim-careful", "sim-reckless"]
    assert set(names["by_trap"]["endpoint"]) == {"sim-careful", "sim-reckless"}
    assert names["missed"]
    assert names["languages"] == {"en": 3}
    assert (names["batch"].state["progress"]["percent"], names["failed"]) == (100, [])
    assert names["newest"]["name"] == "mhb-demo"
