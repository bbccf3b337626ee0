"""Code of a benchmark that does not come back ends its own row, by name, and no other."""

import subprocess
import time
from pathlib import Path
from textwrap import dedent

import pytest

from tests.journeys.test_kill import conversations
from tests.processes import Site

pytestmark = pytest.mark.processes

RECORDS = 6
# A worker whose recipe hangs in one of two ways, each with one record.
WORKER = """
    import asyncio, re, sys
    from dataclasses import replace
    from generation.batches import kind, services
    from generation.engine import watchdog
    from generation.engine.sweeping import sweep
    from generation.models import Batch, Draft
    from mhb_site.benchmarks.mhb import recipe

    async def hang(draft, models):
        text = str(draft.record.content)
        if "Case 2." in text:
            re.match("(a+)+b", "a" * 60)  # keeps all threads from working
        if "Case 4." in text:
            await asyncio.sleep(3600)
        return [draft]

    object.__setattr__(recipe.RECIPE, "steps", (replace(recipe.RECIPE.steps[0], run=hang),))
    Draft.seconds_allowed, watchdog.LOOK, watchdog.PATIENCE = 1, 0.1, 5
    services._store_outputs = lambda row, batch, outputs: services.finish(row, services.Status.DONE)
    watchdog.start()
    sweep(kind.BATCHES)
    services.work_on_batch(Batch.objects.get().pk)
"""


@pytest.mark.parametrize("site", ["embedded"], indirect=True)
def test_a_step_that_never_returns_fails_its_row_alone(site: Site, tmp_path: Path) -> None:
    site.start_models()
    site.add_endpoints()
    path = conversations(tmp_path / "own.jsonl", RECORDS)
    site.json("import_source", "--format", "healthbench", "--name", "own", str(path))
    roles = ("--generator", "sim-generator", "--role", "examiner=sim-generator", "--one-model")
    site.json("generate", "--yes", "--benchmark", "mhb", "--source", "own", *roles)
    endings = "SELECT status, error FROM generation_draft ORDER BY id"
    codes = []
    for _worker in range(4):
        codes.append(_work(site).returncode)
        if not site.number("SELECT count(*) FROM generation_draft WHERE status IN ('queued', 'running')"):
            break
        time.sleep(5)  # the lease
    failed, done = ("failed", "TooSlow"), ("done", "")
    assert site.sql(endings) == [done, failed, done, failed, done, done]
    assert codes[0] == -9
    assert codes[1:] == [0]


def _work(site: Site) -> "subprocess.CompletedProcess[str]":
    result = site.manage("shell", "-v0", "-c", dedent(WORKER))
    queued = "SELECT count(*) FROM generation_draft WHERE error = 'TooSlow'"
    if result.returncode:
        site.wait_until("the row is condemned", lambda: site.number(queued) > 0)
    return result
