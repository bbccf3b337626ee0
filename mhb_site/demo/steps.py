"""The steps that the benchmarks of the demo share: from a batch to a finished run."""

from collections.abc import Mapping
from typing import Any

from evaluation.models import Run
from evaluation.runs import services as runs_services
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RunSettings
from generation.batches import launch
from generation.batches.kind import BATCHES
from generation.batches.launch import BatchSettings
from generation.jobs.kinds import JobKind
from generation.models import Batch, Endpoint
from generation.outcomes import services as outcomes_services
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from review.assignments import claims
from review.assignments import queries as assignments_queries
from review.assignments.case_queue import ChosenWork
from review.management.simulated_physicians import work_queue
from review.models import Case, User
from review.rules.permissions import UserRole
from review.rules.state_machine import Phase, State

SEED = 7
TARGETS = ("sim-careful", "sim-average", "sim-reckless")


def endpoint(name: str) -> Endpoint:
    return Endpoint.objects.get(name=name)


def bind_roles(roles: Mapping[str, str]) -> dict[str, Endpoint]:
    """The endpoint of each role, from names."""
    return {role: endpoint(name) for role, name in roles.items()}


def make_samples(settings: BatchSettings) -> Batch:
    """Launch a batch and work on it to its end."""
    batch = launch.launch_batch(settings)
    work_to_the_end(BATCHES, batch.pk)
    return batch


def work_to_the_end(kind: JobKind[Any], pk: int) -> None:
    """Work on a job in as many lanes as it takes: one ends early while another job waits."""
    kind.work(pk)
    while kind.waiting().filter(pk=pk).exists():
        kind.work(pk)


def simulated_physicians() -> list[User]:
    """The simulated physicians, without those as whom a visitor has signed in."""
    physicians = User.objects.filter(role=UserRole.PHYSICIAN, simulated=True, last_login=None)
    return list(physicians.order_by("username"))


def review_all_but(
    cases_left: int, benchmark: str, *, max_reviews: int, approved: int = 1, dissent: float = 0.15, reject: float = 0.1
) -> None:
    """Review as simulated physicians until `cases_left` cases await their first review.

    Those that have had it are then reviewed further until `approved` are approved, for the release,
    or no more can be done. Nobody keeps a case, so that a visitor can take one.

    Args:
        max_reviews: of each of the two parts.
        dissent, reject: as `work_queue` has them.
    """
    cases = Case.objects.filter(benchmark=benchmark)

    def review_one(number: int, stage: str = "") -> int:
        chosen = ChosenWork(benchmark, stage)
        physicians = simulated_physicians()
        return work_queue(SEED + number, 1, physicians, chosen=chosen, dissent=dissent, reject=reject).reviews

    for number in range(max_reviews):
        if cases.filter(state=State.PRIMARY).count() <= cases_left:
            break
        review_one(number)
    _release_unread()
    for number in range(max_reviews):
        if cases.filter(state=State.APPROVED, reviews__isnull=False).distinct().count() >= approved:
            break
        if not review_one(number, State.ADJUDICATION) and not review_one(number, State.SECONDARY):
            break
    _release_unread()


def _release_unread() -> None:
    """Return the cases on which their holders have not committed anything yet."""
    for physician in simulated_physicians():
        held = assignments_queries.held_assignment(physician)
        if held is not None and held.token and held.phase == Phase.COMMIT:
            claims.release(physician, held.pk, held.token)


def apply_outcomes(*batches: Batch) -> None:
    """Close the samples of closed cases, and make version 2 of rejected ones."""
    outcomes_services.apply_outcomes()
    for batch in batches:
        work_to_the_end(BATCHES, batch.pk)


def evaluate(benchmark: str, *, judge: str = "", composition: Composition = Composition()) -> Run:  # noqa: B008
    """Freeze a release of the benchmark, and run the simulated models on it."""
    release = releases_services.freeze_release(f"{benchmark}-demo", benchmark=benchmark, composition=composition)
    targets = [endpoint(name) for name in TARGETS]
    run = runs_services.launch_run(
        RunSettings(release=release, endpoints=targets, judge=endpoint(judge) if judge else None)
    )
    work_to_the_end(RUNS, run.pk)
    return run
