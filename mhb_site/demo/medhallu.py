"""The demo's MedHallu: from hand-written questions to a detection run, small and quick."""

from collections.abc import Callable
from pathlib import Path

from generation.batches.launch import BatchSettings
from generation.models import Source
from generation.releases.freezing.composition import Composition
from mhb_site.demo import steps

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
MODELS = tuple(name for name in ROLES.values() if name != "sim-generator")  # shared with MHB's part
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
    settings = BatchSettings(benchmark=BENCHMARK, source=questions, roles=steps.bind_roles(ROLES), limit=LIMIT)
    batch = steps.make_samples(settings)
    steps.review_all_but(CASES_LEFT, BENCHMARK, max_reviews=MAX_REVIEWS)
    steps.apply_outcomes(batch)
    tell("MedHallu: asking three simulated models which answers are hallucinated")
    steps.evaluate(BENCHMARK, composition=Composition(with_unreviewed=True))
