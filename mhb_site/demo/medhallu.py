"""The demo's MedHallu: from hand-written questions to a detection run, small and quick."""

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
from review.cases.simulated_physicians import work_queue
from review.models import Case, User
from review.rules.permissions import UserRole
from review.rules.state_machine import State

HERE = Path(__file__).parent
BENCHMARK = "medhallu"
ROLES = {
    "generator": "sim-generator",
    "voter_1": "sim-voter-a",
    "voter_2": "sim-voter-b",
    "voter_3": "sim-voter-c",
    "critic": "sim-critic",
    "entailment": "sim-nli",
    "embedder": "sim-embedder",
}
TARGETS = ("sim-careful", "sim-average", "sim-reckless")
MODELS = tuple(name for name in ROLES.values() if name != "sim-generator")  # shared with MHB's part
SEED = 7
LIMIT = 13  # questions; the others are for a visitor's own batch
CASES_LEFT = 3  # in review, so that a first visitor can review one
MAX_REVIEWS = 40


def load(read: Callable[[str, str, Path], Source], *, tell: Callable[[str], None]) -> None:
    """Load everything from sources to a run, leaving some samples in review.

    `read` imports a file (name, format, path).
    """
    tell("MedHallu: making hallucinated answers to hand-written questions")
    read("demo-headings", "mesh", HERE / "headings.xml")
    questions = read("demo-questions", "pubmedqa", HERE / "questions.json")
    batch = launch.launch_batch(
        BatchSettings(
            benchmark=BENCHMARK,
            source=questions,
            roles={role: Endpoint.objects.get(name=name) for role, name in ROLES.items()},
            limit=LIMIT,
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
    tell("MedHallu: asking three simulated models which answers are hallucinated")
    release = releases_services.freeze_release(
        "medhallu-demo", benchmark=BENCHMARK, composition=Composition(with_unreviewed=True)
    )
    run = runs_services.launch_run(RunSettings(release, [Endpoint.objects.get(name=name) for name in TARGETS]))
    work.work_on_run(run.pk)
