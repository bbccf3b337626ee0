"""The demo's MedHal: from hand-written records to a detection run, small and quick."""

from collections.abc import Callable
from pathlib import Path

from generation.batches.launch import BatchSettings
from generation.models import Source
from generation.releases.freezing.composition import Composition
from mhb_site.demo import steps
from review.cases import services as cases_services
from review.management.simulated_physicians import work_queue
from review.models import Case, User
from review.rules.state_machine import State

HERE = Path(__file__).parent / "statements"
BENCHMARK = "medhal"
ROLES = {"generator": "sim-generator", "filter": "sim-critic"}
SOURCES = (
    ("demo-exam-questions", "medmcqa", "questions-train.json"),
    ("demo-notes", "acn", "notes.jsonl"),
    ("demo-premises", "mednli", "mli_train_demo.jsonl"),
    ("demo-articles", "sumpubmed", "articles-train"),
    ("demo-statements", "medhal", "published.jsonl"),
)
# So few that a first visitor finds statements to review, and others that are not selected for
# review.
OVERRIDES = {"review_per_label": 2, "pairs_a_note": 4}
REVIEWED = 4  # cases of the first batch, which are two pairs; the others are left to visitors
# One for each first reviewer, two for each second, and those they still hold in other benchmarks.
REVIEWS = 5 * REVIEWED


def load(read: Callable[[str, str, Path], Source], *, tell: Callable[[str], None]) -> None:
    """Load everything from sources to a run.

    `read` imports a file or folder (name, format, path).
    """
    tell("MedHal: making statements from hand-written records")
    roles = steps.bind_roles(ROLES)
    for name, format_name, file in SOURCES:
        source = read(name, format_name, HERE / file)
        # Simulated physicians may only review samples by simulated models, so none of the published
        # statements is drawn for review.
        overrides = OVERRIDES
        if format_name == "medhal":
            overrides = {"review_per_label": 0}
        steps.make_samples(BatchSettings(benchmark=BENCHMARK, source=source, roles=roles, changes=overrides))
    admin = User.objects.get(username="admin")
    waiting = Case.objects.filter(benchmark=BENCHMARK, state=State.PRIMARY).order_by("pk")
    for case in waiting[:REVIEWED]:  # ahead of the cases that other benchmarks leave for visitors
        cases_services.prioritise(case.pk, actor=admin, priority=1)
    work_queue(steps.SEED, REVIEWS, steps.simulated_physicians(), dissent=0.0, reject=0.0)
    steps.apply_outcomes()
    tell("MedHal: asking three simulated models which statements are factual")
    # The published statements were not written by simulated models.
    composition = Composition(with_unreviewed=True, where={"simulated": "any"})
    steps.evaluate(BENCHMARK, composition=composition)
