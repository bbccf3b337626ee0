"""The demo's MedMistake: from hand-written patients to an evaluation, small and quick."""

from collections.abc import Callable
from pathlib import Path

from generation.batches.launch import BatchSettings
from generation.models import Source
from generation.releases.freezing.composition import Composition
from mhb_site.benchmarks.medmistake import simulate_conversation
from mhb_site.demo import steps

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
# Those that no other benchmark of the demo has.
MODELS = (
    "sim-writer",
    "sim-checker",
    simulate_conversation.PATIENT,
    simulate_conversation.EXTRACTOR,
)
LIMIT = 6  # patients; the others are for a visitor's own batch
CASES_LEFT = 2  # in review, so that a first visitor can review one
APPROVED = 4  # at least, for the release
MAX_REVIEWS = 40


def load(read: Callable[[str, str, Path], Source], *, tell: Callable[[str], None]) -> None:
    """Load everything from patients to a run, leaving some samples in review.

    `read` imports a file (name, format, path).
    """
    tell("MedMistake: conversations of simulated patients with three simulated doctors")
    patients = read("demo-patients", "medmistake-cases", HERE / "patients.jsonl")
    first, *others = (steps.endpoint(name) for name in steps.TARGETS)  # as doctors
    roles = {**steps.bind_roles(ROLES), "doctor": first}
    batch = steps.make_samples(
        BatchSettings(benchmark=BENCHMARK, source=patients, roles=roles, further_endpoints=others, limit=LIMIT)
    )
    # None is rejected: there are seven samples, two are left, and the release needs four.
    steps.review_all_but(CASES_LEFT, BENCHMARK, max_reviews=MAX_REVIEWS, approved=APPROVED, dissent=0, reject=0)
    steps.apply_outcomes(batch)
    tell("MedMistake: asking three simulated models whether they repeat the mistakes")
    steps.evaluate(BENCHMARK, judge="sim-judge", composition=Composition(with_unreviewed=True))
