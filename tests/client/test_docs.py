"""The examples of docs/client.md run, in their order, on this site with simulated models."""

import re
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.conf import settings
from knox.models import AuthToken

import mhb_client
from evaluation.runs import work as runs_work
from generation.batches import services as batches_services
from generation.models import Release
from generation.releases import services as releases_services
from review.models import User
from tests.client.test_client import models, no_long_waits, release, this_site
from tests.engine import conversations_file, endpoint, import_file

__all__ = ["models", "no_long_waits", "release"]
DOCUMENT = Path(settings.BASE_DIR) / "docs" / "client.md"


def test_the_examples_run(
    release: Release, adela: User, models: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases_services.freeze_release("mhb-demo", benchmark="mhb")
    import_file(conversations_file(tmp_path / "more.jsonl", 5), "demo-conversations")
    for model in ("sim-generator", "sim-examiner"):
        endpoint(models, model)
    monkeypatch.setenv("MHB_TOKEN", AuthToken.objects.create(adela, expiry=timedelta(days=1))[1])
    reached = partial(mhb_client.Client, transport=httpx2.MockTransport(this_site))
    monkeypatch.setattr(mhb_client, "Client", reached)
    names: dict[str, Any] = {}

    def work(_seconds: float) -> None:
        """The client waits: the time of a worker."""
        job = names.get("batch") or names["run"]
        (batches_services.work_on_batch if "batch" in names else runs_work.work_on_run)(job.id)

    monkeypatch.setattr("mhb_client.client.time.sleep", work)
    for example in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL):
        exec(example, names)
    assert list(names["table"]["endpoint"]) == ["sim-careful", "sim-reckless"]
    assert set(names["by_trap"]["endpoint"]) == {"sim-careful", "sim-reckless"}
    assert names["missed"]
    assert sum(names["languages"].values()) == release.samples.count()
    assert (names["batch"].state["progress"]["percent"], names["failed"]) == (100, [])
    assert names["newest"]["name"] == "mhb-demo"
