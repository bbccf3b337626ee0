"""MedMistake through the commands: patients, conversations, merges, review, release, evaluation,
report."""

import json
from pathlib import Path
from typing import Any

import pytest

from generation.batches import services as batches_services
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Draft, Sample
from generation.outcomes import services as outcomes_services
from mhb_site.benchmarks.medmistake import simulate, simulate_replication
from review.models import User
from tests.benchmarks.medmistake.conversations import DOCTORS, ROLES, cases
from tests.engine import Manage, manage, no_long_waits
from tests.profile import by_profile
from tests.review.approve import approve_everything

__all__ = ["manage", "no_long_waits"]
pytestmark = [pytest.mark.django_db, pytest.mark.both]
CASES = by_profile(3, 10)  # with three doctors: 9 conversations, or 30


def test_conversations_become_a_measured_benchmark_through_the_commands(
    manage: Manage, tmp_path: Path, ana: User, bo: User
) -> None:
    path = tmp_path / "patients.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases(CASES)) + '{"id": "no-goals"}\n')
    imported = manage.json("import_source", "--format", "medmistake-cases", "--name", "own", path)
    assert (imported["added"], imported["refused"]) == (CASES, 1)
    with run_in_background(make_app([simulate.SCRIPT], seed=11, faults=(), retry_after=0.001)) as models:
        for name in sorted({*ROLES.values(), *DOCTORS}):
            manage.json("add_endpoint", name, "--url", models, "--model", name)
        bindings = [f"{role}={name}" for role, name in ROLES.items()] + [f"doctor={name}" for name in DOCTORS]
        options = [part for binding in bindings for part in ("--role", binding)]
        options += ["--set", "review_share=0.5"]
        batch = manage.json("generate", "--yes", "--wait", "--benchmark", "medmistake", "--source", "own", *options)
        assert (batch["status"], batch["failed"]) == ("finished", 0)
        assert Draft.objects.filter(parent=None).count() == CASES * len(DOCTORS)

        merges = manage.json("merges", batch["batch"])
        assert merges["arrived"] - merges["onward"] == len(merges["merges"]) > 0
        draft = merges["merges"][0]["draft"]
        separation = manage.json("merges", batch["batch"], "--undo", draft, "--reason", "Another case after all.")
        n_samples_before = Sample.objects.count()
        batches_services.work_on_batch(batch["batch"])
        assert Draft.objects.get(pk=separation["into"]).status in ("done", "dropped")
        merged = manage.json(
            "merges", batch["batch"], "--merge", merges["merges"][0]["lead"], draft, "--reason", "No, the same."
        )
        assert Sample.objects.exclude(status="withdrawn").count() <= n_samples_before
        assert merged["merged"] == [draft]

        approve_everything([ana, bo])
        outcomes_services.apply_outcomes()
        composition = ("--benchmark", "medmistake", "--configuration", "replicated")
        released = manage.json("freeze_release", "own", *composition)
        full = manage.json("freeze_release", "own-all", *composition, "--with-unreviewed")
        assert full["samples"] == Sample.objects.filter(status="approved").count() > released["samples"] > 0
        assert manage.json("verify_audit")["intact"]
        run = manage.json(
            "evaluate", "--yes", "--wait", "--release", "own", "--judge", "sim-judge",
            *(part for name in simulate_replication.REPEAT_RATES for part in ("--endpoint", name)),
        )  # fmt: skip
        code, out, err = manage("report", run["run"], "--format", "json")
        assert code == 0, err
        report: dict[str, Any] = json.loads(out)
    assert report["finished"]
    assert {row["endpoint"] for row in report["overall"]} == set(simulate_replication.REPEAT_RATES)
