"""The demo's second benchmark: MedHallu, from hand-written questions to a detection run, small and quick."""

from collections.abc import Callable
from pathlib import Path

from evaluation import services as evaluation
from generation import releases
from generation import services as generation
from generation.models import Endpoint, Source
from review.demo import work_queue
from review.models import User
from review.permissions import UserRole

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
MODELS = tuple(name for name in ROLES.values() if name != "sim-generator")  # which MHB's part of the demo has as well
SEED = 7
REVIEWS = 12


def load(read: Callable[[str, str, Path], Source], *, tell: Callable[[str], None]) -> None:
    """From sources to a run, with some samples left in review. `read`: imports a file (name, format, path)."""
    tell("MedHallu: making hallucinated answers to hand-written questions")
    read("demo-headings", "mesh", HERE / "headings.xml")
    questions = read("demo-questions", "pubmedqa", HERE / "questions.json")
    batch = generation.launch_batch(
        benchmark=BENCHMARK,
        source=questions,
        roles={role: Endpoint.objects.get(name=name) for role, name in ROLES.items()},
    )
    generation.work_on_batch(batch.pk)
    work_queue(SEED + 2, REVIEWS, list(User.objects.filter(role=UserRole.PHYSICIAN).order_by("username")))
    generation.handle_outcomes()
    tell("MedHallu: asking three simulated models which answers are hallucinated")
    release = releases.freeze_release("medhallu-demo", benchmark=BENCHMARK)
    run = evaluation.launch_run(release, [Endpoint.objects.get(name=name) for name in TARGETS])
    evaluation.work_on_run(run.pk)
