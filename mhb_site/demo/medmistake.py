"""The demo's MedMistake: from hand-written patients to an evaluation, small and quick."""

from collections.abc import Callable
from pathlib import Path

from evaluation.runs import services as runs_services
from evaluation.runs import work
from evaluation.runs.settings import RunSettings
from generation.batches import launch
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.models import Endpoint, Source
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from generation.samples import services as samples_services
from mhb_site.benchmarks.medmistake import simulate_conversation
from review.cases.simulated_physicians import work_queue
from review.models import Case, User
from review.rules.permissions import UserRole
from review.rules.state_machine import State

HERE = Path(__file__).parent
BENCHMARK = "medmistake"
ROLES = {
    "writer": "sim-writer",
    "checker": "sim-checker",
    "patient": simulate_conversation.PATIENT,
    "judge_1": "sim-judge",
    "judge_2": "sim-critic",
    "extractor": simulate_conversation.EXTRACTOR,
    "embedder": "sim-embedder",
    "target_1": "sim-average",
    "target_2": "sim-reckless",
    "replication_judge": "sim-judge",
}
DOCTORS = ("sim-careful", "sim-average", "sim-reckless")
MODELS = (
    "sim-writer",
    "sim-checker",
    simulate_conversation.PATIENT,
    simulate_conversation.EXTRACTOR,
)  # those that no other benchmark of the demo has
SEED = 7
LIMIT = 6  # patients; the others are for a visitor's own batch
CASES_LEFT = 2  # in review, so that a first visitor can review one
MAX_REVIEWS = 40


def load(read: Callable[[str, str, Path], Source], *, tell: Callable[[str], None]) -> None:
    """Load everything from patients to a run, leaving some samples in review.

    `read` imports a file (name, format, path).
    """
    tell("MedMistake: conversations of simulated patients with three simulated doctors")
    patients = read("demo-patients", "medmistake-cases", HERE / "patients.jsonl")
    first, *others = (Endpoint.objects.get(name=name) for name in DOCTORS)
    endpoints = {role: Endpoint.objects.get(name=name) for role, name in ROLES.items()}
    batch = launch.launch_batch(
        BatchSettings(
            benchmark=BENCHMARK, source=patients, roles={**endpoints, "doctor": first}, beside=others, limit=LIMIT
        )
    )
    batches_services.work_on_batch(batch.pk)
    physicians = list(User.objects.filter(role=UserRole.PHYSICIAN, simulated=True).order_by("username"))
    cases = Case.objects.filter(benchmark=BENCHMARK)
    for number in range(MAX_REVIEWS):
        # At least one, for the release.
        approved = cases.filter(state=State.APPROVED, reviews__isnull=False).exists()
        if approved and cases.filter(state=State.PRIMARY).count() <= CASES_LEFT:
            break
        work_queue(SEED + number, 1, physicians)
    samples_services.apply_outcomes()
    batches_services.work_on_batch(batch.pk)  # makes version 2 of rejected samples
    tell("MedMistake: asking three simulated models whether they repeat the mistakes")
    release = releases_services.freeze_release(
        "medmistake-demo", benchmark=BENCHMARK, composition=Composition(with_unreviewed=True)
    )
    models = [Endpoint.objects.get(name=name) for name in DOCTORS]
    run = runs_services.launch_run(RunSettings(release, models, Endpoint.objects.get(name="sim-judge")))
    work.work_on_run(run.pk)
