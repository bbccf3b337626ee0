"""Cases of our own, and a batch of them with the simulated models."""

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
    """The demo's cases; beyond those, the same again for other people."""
    some = [json.loads(line) for line in CASES.read_text().splitlines()]
    found = []
    for number in range(count):
        turn, case = number // len(some), some[number % len(some)]
        again = f" I was here {turn} months ago as well." if turn else ""
        found.append({**case, "id": f"{case['id']}-{turn}", "encounter_reason": case["encounter_reason"] + again})
    return found


def source(folder: Path, count: int, name: str = "patients") -> Source:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases(count)))
    run = sources_services.run_import(sources_services.start_import(path, format_name="medmistake-cases", name=name).pk)
    assert run.added == count, run
    return run.source


def launched(found: Source, models: str, *, doctors: Sequence[str] = DOCTORS, **changes: Any) -> Batch:
    first, *others = doctors
    bound = {role: endpoint(models, name) for role, name in ROLES.items()}
    return launch.launch_batch(
        BatchSettings(
            benchmark="medmistake",
            source=found,
            roles={**bound, "doctor": endpoint(models, first)},
            beside=[endpoint(models, name) for name in others],
            changes=changes,
        )
    )


def worked(batch: Batch) -> Batch:
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    return batch
