"""Patient cases, and batches of conversations about them with the simulated models."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from generation.batches import launch
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.models import Batch, Source
from generation.sources import services as sources_services
from tests.engine import endpoint

CASES = Path(__file__).parents[3] / "mhb_site/demo/patients.jsonl"
ROLES = {
    "writer": "sim-writer",
    "checker": "sim-checker",
    "patient": "sim-patient",
    "judge_1": "sim-judge",
    "judge_2": "sim-critic",
    "extractor": "sim-extractor",
    "embedder": "sim-embedder",
    "target_1": "sim-average",
    "target_2": "sim-reckless",
    "replication_judge": "sim-judge",
}
DOCTORS = ("sim-careful", "sim-average", "sim-reckless")


def cases(count: int) -> list[dict[str, Any]]:
    """Return the demo's cases; beyond those, the same cases with an earlier visit."""
    demo_cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    cases = []
    for number in range(count):
        cycle, case = number // len(demo_cases), demo_cases[number % len(demo_cases)]
        earlier_visit = f" I was here {cycle} months ago as well." if cycle else ""
        cases.append(
            {**case, "id": f"{case['id']}-{cycle}", "encounter_reason": case["encounter_reason"] + earlier_visit}
        )
    return cases


def import_cases(folder: Path, count: int, name: str = "patients") -> Source:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases(count)))
    run = sources_services.run_import(sources_services.start_import(path, format_name="medmistake-cases", name=name).pk)
    assert run.added == count, run
    return run.source


def launch_conversations(source: Source, models: str, *, doctors: Sequence[str] = DOCTORS, **settings: Any) -> Batch:
    first, *others = doctors
    endpoints = {role: endpoint(models, name) for role, name in ROLES.items()}
    return launch.launch_batch(
        BatchSettings(
            benchmark="medmistake",
            source=source,
            roles={**endpoints, "doctor": endpoint(models, first)},
            further_endpoints=[endpoint(models, name) for name in others],
            changes=settings,
        )
    )


def work_until_idle(batch: Batch) -> Batch:
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    return batch
