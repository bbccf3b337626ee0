"""kill -9 during the turns of conversations, and during the barrier at which a batch merges its
mistakes.

A push runs it on PostgreSQL with Redis, the thorough tests embedded, too. test_kill.py kills
workers on both at every push.
"""

import json
from pathlib import Path

import pytest

from tests.benchmarks.medmistake.conversations import DOCTORS, ROLES, cases
from tests.processes import Site
from tests.profile import by_profile

pytestmark = pytest.mark.processes

CASES = by_profile(3, 10)
LATENCY = ("--latency", "0.5")  # so that a kill hits running work even on a busy machine


@pytest.mark.parametrize("site", by_profile(["production"], ["embedded", "production"]), indirect=True)
def test_a_batch_is_finished_after_kills_during_turns_and_the_barrier(site: Site, tmp_path: Path) -> None:
    site.start_models(*LATENCY)
    names = sorted({*ROLES.values(), *DOCTORS})
    added = site.manage(
        "shell",
        "-v0",
        "-c",
        "from generation.endpoints.services import add_endpoint\n"
        f"for name in {names!r}:\n"
        f"    add_endpoint(name=name, url={site.models_url!r}, model=name, concurrency=4)\n",
    )
    assert added.returncode == 0, added.stderr
    path = tmp_path / "patients.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases(CASES)))
    assert site.json("import_source", "--format", "medmistake-cases", "--name", "own", str(path))["added"] == CASES
    site.start_worker()
    site.start_sweeper()
    bindings = [f"{role}={name}" for role, name in ROLES.items()] + [f"doctor={name}" for name in DOCTORS]
    options = [part for binding in bindings for part in ("--role", binding)]
    site.json("generate", "--yes", "--benchmark", "medmistake", "--source", "own", *options)

    turns = "SELECT count(*) FROM generation_call WHERE prompt LIKE 'medmistake/doctor@%' AND hit_of_id IS NULL"
    running = "SELECT count(*) FROM generation_draft WHERE status = 'running'"
    site.kill_while("worker", "turns are under way", lambda: site.number(turns) >= 3 and site.number(running) > 0)
    in_flight = site.number(running)
    site.start_worker()
    running_rounds = "SELECT count(*) FROM generation_barrierround WHERE status = 'running'"
    site.kill_while("worker", "the barrier is under way", lambda: site.number(running_rounds) == 1)
    assert site.number("SELECT count(*) FROM generation_draft WHERE onward_id IS NOT NULL") == 0
    site.start_worker()
    site.wait_until(
        "the batch is finished",
        lambda: site.sql("SELECT status FROM generation_job WHERE kind = 'batch'") == [("finished",)],
    )

    assert site.sql("SELECT status, number FROM generation_barrierround") == [("done", 1)]
    assert site.number("SELECT tries FROM generation_barrierround") >= 2, "another worker took it over"
    assert site.number("SELECT count(*) FROM generation_draft WHERE parent_id IS NULL") == CASES * len(DOCTORS)
    # Each turn was requested once, except those in flight.
    conversations = site.sql("SELECT data FROM generation_draft WHERE parent_id IS NULL")
    data_of_drafts = [json.loads(data) if isinstance(data, str) else data for (data,) in conversations]
    doctor_turns = sum(turn["role"] == "doctor" for data in data_of_drafts for turn in data["conversation"])
    served = site.simulator_stats()["by_model"]
    patient_calls = (
        "SELECT count(*) FROM generation_call WHERE prompt LIKE 'medmistake/patient@%' AND hit_of_id IS NULL"
    )
    assert site.number(patient_calls) <= served["sim-patient"] <= site.number(patient_calls) + in_flight
    assert doctor_turns <= site.number(turns) <= doctor_turns + in_flight
    # Every mistake that arrived at the barrier continues in exactly one draft.
    arrived = site.number("SELECT count(*) FROM generation_draft WHERE onward_id IS NOT NULL")
    groups = site.number("SELECT count(DISTINCT onward_id) FROM generation_draft WHERE onward_id IS NOT NULL")
    assert 0 < groups <= arrived
    assert site.number("SELECT count(*) FROM generation_mergeevent") == arrived - groups
    assert site.number("SELECT count(*) FROM generation_draft WHERE status = 'queued' OR status = 'running'") == 0
    merges = site.json("merges", "1")
    assert (merges["arrived"], merges["onward"], len(merges["merges"])) == (arrived, groups, arrived - groups)
