"""kill -9 amid the turns of conversations, and amid the barrier at which all mistakes of a batch meet.

A push does it on PostgreSQL with Redis; embedded, too, the thorough tests. On both, a push kills workers in test_kill.py.
"""

import json
from pathlib import Path

import pytest

from tests.benchmarks.medmistake.conversations import DOCTORS, ROLES, cases
from tests.processes import Site
from tests.profile import far

pytestmark = pytest.mark.processes

CASES = far(3, 10)
LATENCY = ("--latency", "0.5")  # so that a kill lands in the middle, on a busy machine too


@pytest.mark.parametrize("site", far(["production"], ["embedded", "production"]), indirect=True)
def test_worker_killed_amid_turns_and_amid_the_barrier(site: Site, tmp_path: Path) -> None:
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
    bound = [f"{role}={name}" for role, name in ROLES.items()] + [f"doctor={name}" for name in DOCTORS]
    options = [part for binding in bound for part in ("--role", binding)]
    site.json("generate", "--yes", "--benchmark", "medmistake", "--source", "own", *options)

    turns = "SELECT count(*) FROM generation_call WHERE prompt LIKE 'medmistake/doctor@%' AND hit_of_id IS NULL"
    running = "SELECT count(*) FROM generation_draft WHERE status = 'running'"
    site.kill_amid("worker", "turns are under way", lambda: site.number(turns) >= 3 and site.number(running) > 0)
    in_flight = site.number(running)
    site.start_worker()
    meeting = "SELECT count(*) FROM generation_barrierround WHERE status = 'running'"
    site.kill_amid("worker", "the barrier is under way", lambda: site.number(meeting) == 1)
    assert site.number("SELECT count(*) FROM generation_draft WHERE onward_id IS NOT NULL") == 0
    site.start_worker()
    site.until(
        "the batch is finished",
        lambda: site.sql("SELECT status FROM generation_job WHERE kind = 'batch'") == [("finished",)],
    )

    assert site.sql("SELECT status, number FROM generation_barrierround") == [("done", 1)]
    assert site.number("SELECT tries FROM generation_barrierround") >= 2, "it was taken up by another worker"
    assert site.number("SELECT count(*) FROM generation_draft WHERE parent_id IS NULL") == CASES * len(DOCTORS)
    # Each turn was asked for once, but for those that were in flight.
    talks = site.sql("SELECT data FROM generation_draft WHERE parent_id IS NULL")
    said = [json.loads(data) if isinstance(data, str) else data for (data,) in talks]
    of_doctors = sum(turn["role"] == "doctor" for data in said for turn in data["conversation"])
    served = site.served()["by_model"]
    patients = "SELECT count(*) FROM generation_call WHERE prompt LIKE 'medmistake/patient@%' AND hit_of_id IS NULL"
    assert site.number(patients) <= served["sim-patient"] <= site.number(patients) + in_flight
    assert of_doctors <= site.number(turns) <= of_doctors + in_flight
    # Every mistake that met the others goes on once.
    arrived = site.number("SELECT count(*) FROM generation_draft WHERE onward_id IS NOT NULL")
    groups = site.number("SELECT count(DISTINCT onward_id) FROM generation_draft WHERE onward_id IS NOT NULL")
    assert 0 < groups <= arrived
    assert site.number("SELECT count(*) FROM generation_mergeevent") == arrived - groups
    assert site.number("SELECT count(*) FROM generation_draft WHERE status = 'queued' OR status = 'running'") == 0
    merges = site.json("merges", "1")
    assert (merges["arrived"], merges["onward"], len(merges["merges"])) == (arrived, groups, arrived - groups)
