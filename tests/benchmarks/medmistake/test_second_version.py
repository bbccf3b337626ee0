"""A batch rewrites a scenario that a physician sent back, and discards a sample whose mistake is
invalid."""

from pathlib import Path

import pytest

from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Draft, Sample, SampleVersion
from generation.models.work import Work
from generation.outcomes import services as outcomes_services
from mhb_site.benchmarks.medmistake import simulate
from review.assignments import claims, services
from review.models import User
from review.turns.turn import turn_of
from tests.benchmarks.medmistake.conversations import import_cases, launch_conversations, work_until_idle
from tests.benchmarks.medmistake.test_review import rejection_of
from tests.engine import no_long_waits
from tests.review.approve import approval_of

__all__ = ["no_long_waits"]
pytestmark = pytest.mark.django_db


def test_a_rejected_scenario_is_rewritten_for_the_same_mistake(tmp_path: Path, ana: User) -> None:
    with run_in_background(make_app([simulate.SCRIPT], seed=11, faults=(), retry_after=0.001)) as models:
        batch = launch_conversations(
            import_cases(tmp_path, 3), models, doctors=["sim-reckless"], reviewers="one", unreplicated="keep"
        )
        batch = work_until_idle(batch)
        judged: dict[str, Sample] = {}
        for question, value in (("scenario", "not-elicited"), ("mistake", "not-made")):
            assignment = claims.claim_next(ana)
            assert assignment is not None
            assert assignment.token is not None
            services.submit(turn_of(ana, assignment.pk), assignment.token, rejection_of(question, value))
            judged[question] = SampleVersion.objects.get(case=assignment.case_id).sample
        outcomes_services.apply_outcomes()
        work_until_idle(batch)
    rewritten, discarded = judged["scenario"], judged["mistake"]
    for sample in (rewritten, discarded):
        sample.refresh_from_db()
    assert (rewritten.status, discarded.status) == (Sample.Status.IN_REVIEW, Sample.Status.DISCARDED)
    assert discarded.versions.get().status == SampleVersion.Status.REJECTED

    first, second = rewritten.versions.order_by("number")
    assert (first.status, second.number, second.status) == ("rejected", 2, "in-review")
    for key in ("mistake", "conversation", "doctor"):
        assert second.content[key] == first.content[key], key
    assert second.content["scenario"] != first.content["scenario"]
    draft = Draft.objects.get(sample=rewritten, version=2)
    assert draft.status == Work.Status.DONE
    assert draft.round is None, "it does not go through the barrier again"
    [mistake, *_rest] = second.case.frozen.blocks
    assert first.content["mistake"]["title"] in str(mistake)

    # The second version is judged by the same two questions and can be approved.
    while assignment := claims.claim_next(ana):
        assert assignment.token is not None
        services.submit(turn_of(ana, assignment.pk), assignment.token, approval_of(assignment.case.frozen.form))
    outcomes_services.apply_outcomes()
    second.refresh_from_db()
    assert second.status == SampleVersion.Status.APPROVED
