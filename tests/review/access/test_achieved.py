"""What a submit has brought about: said where its author may know it, and the same for a copy as for real work."""

from review.access import visibility
from review.labels import ACHIEVED
from review.models import Case, Review, User
from review.rules.state_machine import Policy
from tests.review.factories import (
    approving,
    correcting,
    finding_inadequate,
    opened,
    rejecting,
    say,
    to_adjudication,
    to_secondary,
)


def last() -> str:
    found = visibility.achieved(Review.objects.select_related("case").latest("pk"))
    assert found in ACHIEVED
    return found


def test_two_who_agree_and_two_who_differ(ana: User, bo: User, chen: User) -> None:
    to_secondary(ana)
    assert last() == "first-of-two"
    say(bo, approving())
    assert last() == "submitted", "blind: nothing of the first review is told"
    say(bo, approving())
    assert last() == "consensus-approved"
    to_adjudication(ana, bo, number=2)
    assert last() == "adjudication"
    say(chen, approving())
    assert last() == "voted"


def test_a_wording_is_put_to_the_first_reviewer_and_a_meaning_is_dissent(ana: User, bo: User) -> None:
    for number, declaration, brought_about in ((1, "wording", "rewording"), (2, "meaning", "adjudication")):
        to_secondary(ana, number=number, policy=Policy(settle_wording=True))
        changed = correcting("Calls it invented.", change_reason="Clearer.", declaration=declaration)
        say(bo, approving(), changed)
        assert last() == brought_about


def test_a_blind_second_review_that_differs_says_nothing_of_it(ana: User, bo: User) -> None:
    to_secondary(ana, policy=Policy(secondary_confirms=False))
    say(bo, rejecting())
    assert last() == "submitted"


def test_the_first_of_two_never_learns_what_the_machine_knows_already(ana: User, bo: User) -> None:
    to_secondary(ana, finding_inadequate())
    assert last() == "first-of-two"
    opened(2, policy=Policy(secondary=False))
    say(ana, approving())
    assert last() == "approved", "nobody comes after"


def test_a_copy_says_what_the_work_would_have_said(ana: User, bo: User) -> None:
    work = to_secondary(ana)
    said = last()
    alone = {**work.spec, "policy": {**work.spec["policy"], "secondary": False}}
    copy = Case(kind=Case.Kind.REPEAT, lineage="repeat:1", spec=alone, state="approved", ground="primary-alone")
    assert visibility.achieved(replaced(Review.objects.latest("pk"), copy)) == said
    work.spec = alone
    work.save()
    assert visibility.achieved(replaced(Review.objects.latest("pk"), copy)) == "approved"


def replaced(review: Review, case: Case) -> Review:
    review.case = case
    return review
