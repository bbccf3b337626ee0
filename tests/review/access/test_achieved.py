"""What a submit has brought about: said where its author may know it, and the same for a copy as for real work."""

from review.access import visibility
from review.labels import SUBMISSION_EFFECTS
from review.models import Case, Review, User
from review.rules.state_machine import Policy
from tests.review.factories import (
    approval,
    case_in_adjudication,
    case_in_secondary,
    claim_and_submit,
    correction,
    inadequate_rubric,
    open_case,
    rejection,
)


def last() -> str:
    found = visibility.submission_effect(Review.objects.select_related("case").latest("pk"))
    assert found in SUBMISSION_EFFECTS
    return found


def test_two_who_agree_and_two_who_differ(ana: User, bo: User, chen: User) -> None:
    case_in_secondary(ana)
    assert last() == "first-of-two"
    claim_and_submit(bo, approval())
    assert last() == "submitted", "blind: nothing of the first review is told"
    claim_and_submit(bo, approval())
    assert last() == "consensus-approved"
    case_in_adjudication(ana, bo, number=2)
    assert last() == "adjudication"
    claim_and_submit(chen, approval())
    assert last() == "voted"


def test_a_wording_is_put_to_the_first_reviewer_and_a_meaning_is_dissent(ana: User, bo: User) -> None:
    for number, declaration, brought_about in ((1, "wording", "rewording"), (2, "meaning", "adjudication")):
        case_in_secondary(ana, number=number, policy=Policy(settle_wording=True))
        changed = correction("Calls it invented.", change_reason="Clearer.", declaration=declaration)
        claim_and_submit(bo, approval(), changed)
        assert last() == brought_about


def test_a_blind_second_review_that_differs_says_nothing_of_it(ana: User, bo: User) -> None:
    case_in_secondary(ana, policy=Policy(secondary_confirms=False))
    claim_and_submit(bo, rejection())
    assert last() == "submitted"


def test_the_first_of_two_never_learns_what_the_machine_knows_already(ana: User, bo: User) -> None:
    case_in_secondary(ana, inadequate_rubric())
    assert last() == "first-of-two"
    open_case(2, policy=Policy(secondary=False))
    claim_and_submit(ana, approval())
    assert last() == "approved", "nobody comes after"


def test_a_copy_says_what_the_work_would_have_said(ana: User, bo: User) -> None:
    work = case_in_secondary(ana)
    said = last()
    alone = {**work.spec, "policy": {**work.spec["policy"], "secondary": False}}
    copy = Case(kind=Case.Kind.REPEAT, lineage="repeat:1", spec=alone, state="approved", ground="primary-alone")
    assert visibility.submission_effect(replaced(Review.objects.latest("pk"), copy)) == said
    work.spec = alone
    work.save()
    assert visibility.submission_effect(replaced(Review.objects.latest("pk"), copy)) == "approved"


def replaced(review: Review, case: Case) -> Review:
    review.case = case
    return review
