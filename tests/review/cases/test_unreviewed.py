"""Cases that are not sampled for review: approved on opening, and never counted as reviewed."""

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from review import errors
from review.assignments import claims
from review.audit import verification
from review.calibration import queries as calibration_queries
from review.calibration import services as calibration_services
from review.cases import queries as cases_queries
from review.cases import services as cases_services
from review.models import Assignment, Audit, Case, Event, User
from review.quality import progress, reliability
from review.rules.questions import Answers
from review.rules.state_machine import Ground, Policy, State
from tests.review.factories import approval, claim_and_submit, open_case

pytestmark = pytest.mark.django_db
NO_REVIEW = Policy(primary=False)


def test_an_unreviewed_case_is_approved_on_opening_and_the_trail_gives_the_ground() -> None:
    case = open_case(policy=NO_REVIEW)
    case.refresh_from_db()
    assert (case.state, case.ground) == (State.APPROVED, Ground.UNREVIEWED)
    assert case.closed_at is not None
    assert not Assignment.objects.exists()
    kinds = list(Event.objects.filter(case=case).order_by("pk").values_list("kind", "data__ground"))
    assert kinds == [("opened", None), ("closed", "unreviewed")]
    assert not list(verification.check(Audit()))


@pytest.mark.parametrize("state", ["primary", "rejected", "withdrawn"])
def test_the_database_refuses_an_unreviewed_case_that_is_not_approved(state: State) -> None:
    case = open_case(policy=NO_REVIEW)
    closed = None if state == State.PRIMARY else timezone.now()
    with pytest.raises(IntegrityError, match="case_unreviewed_is_approved"):
        Case.objects.filter(pk=case.pk).update(state=state, closed_at=closed)


def test_the_database_refuses_an_approval_without_a_ground() -> None:
    case = open_case(policy=NO_REVIEW)
    with pytest.raises(IntegrityError, match="case_approved_on_a_ground"):
        Case.objects.filter(pk=case.pk).update(ground="")


def test_the_queue_never_offers_an_unreviewed_case(ana: User, bo: User) -> None:
    unreviewed, waiting = open_case(1, policy=NO_REVIEW), open_case(2)
    claimed = claims.claim_next(ana)
    assert claimed is not None
    assert claimed.case_id == waiting.pk
    assert claims.claim_next(bo) is None
    with pytest.raises(errors.CaseClosed):
        cases_services.withdraw(unreviewed.pk, actor=User.objects.create_user("boss", role="admin"), reason="No.")


def test_an_unreviewed_case_settles_with_its_original_rubrics() -> None:
    settled = cases_queries.settled_case(open_case(policy=NO_REVIEW))
    assert (settled.state, settled.ground, settled.answers, settled.citations) == (State.APPROVED, "unreviewed", {}, ())
    assert [rubric.criterion for rubric in settled.rubrics if not rubric.removed] == [
        "Says that the drug does not exist.",
        "Gives no dose.",
    ]


def test_an_unreviewed_case_counts_neither_as_work_nor_as_agreement(ana: User, bo: User) -> None:
    open_case(1)
    claim_and_submit(ana, approval())
    claim_and_submit(bo, approval(), approval())
    before = (progress.progress(), reliability.agreement_table())
    for number in range(2, 6):
        open_case(number, policy=NO_REVIEW)
    after = (progress.progress(), reliability.agreement_table())
    assert before == after
    assert before[0].days[-1].closed == 1
    counts = cases_queries.funnel()
    assert (counts.counts[State.APPROVED], counts.unreviewed) == (1, 4)


def test_an_unreviewed_case_cannot_become_a_calibration_item(adela: User) -> None:
    case = open_case(policy=NO_REVIEW)
    assert not calibration_queries.was_settled(case)
    with pytest.raises(errors.NotSettled):
        calibration_services.make_item(case, Answers(verdict="approve"), actor=adela)


def test_the_pages_say_that_a_case_was_not_sampled(adela: User) -> None:
    case = open_case(policy=NO_REVIEW)
    client = Client()
    client.force_login(adela)
    page = client.get(reverse("review:history", args=[case.pk])).content.decode()
    assert "badge--not-sampled" in page
    assert "This case was not sampled for review" in page
    case_list = client.get(reverse("review:cases")).content.decode()
    assert "badge--not-sampled" in case_list
    overview = client.get(reverse("review:overview")).content.decode()
    assert "Not sampled for review: 1." in overview
    assert "No cases yet" not in overview


def test_the_database_refuses_an_unknown_ground() -> None:
    case = open_case(policy=NO_REVIEW)
    with pytest.raises(IntegrityError), transaction.atomic():
        Case.objects.filter(pk=case.pk).update(ground="whatever")
