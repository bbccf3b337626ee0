"""kill -9 in the middle of work: after a restart all work is finished, and nothing is done
twice."""

import json
import uuid
from pathlib import Path

import pytest

from tests.processes import Site
from tests.profile import by_profile

pytestmark = pytest.mark.processes

RECORDS = by_profile(10, 30)
LATENCY = ("--latency", "0.75")  # so that a kill hits running work even on a busy machine


def conversations(path: Path, count: int) -> Path:
    """Write a HealthBench file of made-up conversations."""
    turns = [
        {"role": "user", "content": "I have had a headache since Monday. What could it be?"},
        {"role": "assistant", "content": "Most headaches are harmless. Is there fever, a stiff neck or weakness?"},
        {"role": "user", "content": "No, none of that. What should I do?"},
    ]
    rows = (
        {
            "prompt_id": str(uuid.UUID(int=number)),
            "prompt": [{**turns[0], "content": f"Case {number}. {turns[0]['content']}"}, *turns[1:]],
            "rubrics": [],
            "example_tags": [],
            "ideal_completions_data": None,
        }
        for number in range(1, count + 1)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_batch_and_a_run_are_finished_after_their_worker_is_killed(site: Site, tmp_path: Path) -> None:
    site.start_models(*LATENCY)
    site.add_endpoints(concurrency=4)
    source = site.json(
        "import_source", "--format", "healthbench", "--name", "own", str(conversations(tmp_path / "own.jsonl", RECORDS))
    )
    assert source["added"] == RECORDS
    site.start_worker()
    site.start_sweeper()

    # The records differ only in a number: the checks would stop their samples as duplicates.
    unchecked = ("--skip", "identical", "--skip", "alike", "--role", "examiner=sim-generator", "--one-model")
    site.json("generate", "--yes", "--benchmark", "mhb", "--source", "own", "--generator", "sim-generator", *unchecked)
    done_drafts = "SELECT count(*) FROM generation_draft WHERE status = 'done'"
    running_drafts = "SELECT count(*) FROM generation_draft WHERE status = 'running'"
    site.kill_while(
        "worker", "the batch is under way", lambda: site.number(done_drafts) >= 3 and site.number(running_drafts) > 0
    )
    in_flight = site.number(running_drafts)
    site.start_worker()
    site.wait_until("all drafts are done", lambda: site.number(done_drafts) == RECORDS)
    site.wait_until(
        "the batch is finished",
        lambda: site.sql("SELECT status FROM generation_job WHERE kind = 'batch'") == [("finished",)],
    )
    assert site.number("SELECT count(*) FROM generation_sample") == RECORDS
    assert site.number("SELECT count(*) FROM generation_sampleversion") == RECORDS
    assert site.number("SELECT count(*) FROM review_case") == RECORDS
    repeated = site.number("SELECT count(*) FROM generation_draft WHERE tries > 1")
    assert 1 <= repeated <= in_flight, "only drafts that were in flight may run a second time"
    assert site.number("SELECT max(tries) FROM generation_draft") == 2
    calls = site.number("SELECT count(*) FROM generation_call WHERE hit_of_id IS NULL")  # a hit was paid for earlier
    served = site.simulator_stats()["by_model"]["sim-generator"]
    assert calls <= served <= calls + in_flight, (
        "the ledger contains all calls that the server answered, except those in flight"
    )

    _approve_all(site)
    released = site.json("freeze_release", "own", "--benchmark", "mhb")
    assert released["samples"] == RECORDS
    run = site.json("evaluate", "--yes", "--release", "own", "--endpoint", "sim-average", "--judge", "sim-judge")
    answered = "SELECT count(*) FROM evaluation_judgment WHERE status = 'done'"
    judging = "SELECT count(*) FROM evaluation_judgment WHERE status = 'running'"
    site.kill_while("worker", "the run is under way", lambda: site.number(answered) >= 3 and site.number(judging) > 0)
    site.start_worker()
    site.wait_until(
        "the run is finished",
        lambda: site.sql("SELECT status FROM generation_job WHERE kind = 'run'") == [("finished",)],
    )
    assert site.number("SELECT count(*) FROM evaluation_response WHERE status = 'done'") == RECORDS
    assert site.number(answered) == released["rubrics"] == site.number("SELECT count(*) FROM evaluation_judgment")
    report = json.loads(site.manage("report", str(run["run"]), "--format", "json").stdout)
    assert report["finished"]
    [overall] = report["overall"]
    assert overall["denominator"] == released["rubrics"]
    assert overall["unjudged"] == 0


def _approve_all(site: Site) -> None:
    """Let two physicians approve everything through the services."""
    script = (
        "from review.models import User\n"
        "from tests.review.approve import approve_everything\n"
        "approve_everything([User.objects.create_user(name, role='physician') for name in ('ana', 'bo')])\n"
    )
    result = site.manage("shell", "-v0", "-c", script)
    assert result.returncode == 0, result.stderr
