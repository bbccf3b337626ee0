"""The effect of a submit, told only if its author may know it; a copy's is that of real work."""

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


def last_effect() -> str:
    effect = visibility.submission_effect(Review.objects.select_related("case").latest("pk"))
    assert effect in SUBMISSION_EFFECTS
    return effect


def test_effects_of_consensus_and_of_adjudication(ana: User, bo: User, chen: User) -> None:
    case_in_secondary(ana)
    assert last_effect() == "first-of-two"
    claim_and_submit(bo, approval())
    assert last_effect() == "submitted", "blind: nothing is told about the first review"
    claim_and_submit(bo, approval())
    assert last_effect() == "consensus-approved"
    case_in_adjudication(ana, bo, number=2)
    assert last_effect() == "adjudication"
    claim_and_submit(chen, approval())
    assert last_effect() == "voted"


def test_a_new_wording_goes_to_the_first_reviewer_and_a_new_meaning_is_dissent(ana: User, bo: User) -> None:
    for number, declaration, effect in ((1, "wording", "rewording"), (2, "meaning", "adjudication")):
        case_in_secondary(ana, number=number, policy=Policy(settle_wording=True))
        reworded = correction("Calls it invented.", change_reason="Clearer.", declaration=declaration)
        claim_and_submit(bo, approval(), reworded)
        assert last_effect() == effect


def test_a_blind_second_review_that_differs_does_not_reveal_it(ana: User, bo: User) -> None:
    case_in_secondary(ana, policy=Policy(secondary_confirms=False))
    claim_and_submit(bo, rejection())
    assert last_effect() == "submitted"


def test_the_first_of_two_is_not_told_that_the_case_will_be_rejected(ana: User, bo: User) -> None:
    case_in_secondary(ana, inadequate_rubric())
    assert last_effect() == "first-of-two"
    open_case(2, policy=Policy(secondary=False))
    claim_and_submit(ana, approval())
    assert last_effect() == "approved", "there is no second reviewer"


def test_a_copy_has_the_same_effect_as_the_work_it_copies(ana: User, bo: User) -> None:
    work = case_in_secondary(ana)
    work_effect = last_effect()
    primary_alone = {**work.spec, "policy": {**work.spec["policy"], "secondary": False}}
    copy = Case(kind=Case.Kind.REPEAT, lineage="repeat:1", spec=primary_alone, state="approved", ground="primary-alone")
    assert visibility.submission_effect(with_case(Review.objects.latest("pk"), copy)) == work_effect
    work.spec = primary_alone
    work.save()
    assert visibility.submission_effect(with_case(Review.objects.latest("pk"), copy)) == "approved"


def with_case(review: Review, case: Case) -> Review:
    review.case = case
    return review
