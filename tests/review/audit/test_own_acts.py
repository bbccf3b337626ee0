"""What people do to their own account and reviews fills no trail."""

from functools import partial

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse
from knox.models import AuthToken

from mhb_site.api import TTL, issue_token, revoke_tokens
from review.assignments.claims import claim_next
from review.assignments.correction import correct
from review.assignments.retraction import retract
from review.audit import trail
from review.discussion.remarks import remark
from review.errors import NotAllowed, TooManyOwnActs
from review.models import PersonEvent, Review, User
from review.people import accounts
from review.rules.permissions import UserRole
from tests.conftest import RunConcurrently
from tests.review.factories import account, approval, claim, claim_and_submit, open_case, rejection, submit

pytestmark = pytest.mark.django_db
FEW = 3


@pytest.fixture
def ana(monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setattr(trail, "OWN_ACTS", FEW)
    ana = account("ana")
    ana.set_password("quite-a-long-one")
    ana.save()
    return ana


def events(user: User, kind: PersonEvent.Kind) -> int:
    return PersonEvent.objects.filter(person=user, kind=kind).count()


def sign_in() -> int:
    answer = Client().post(reverse("account_login"), {"login": "ana", "password": "quite-a-long-one"})
    return answer.status_code


def test_each_act_is_limited_by_itself(ana: User) -> None:
    client = Client()
    client.force_login(ana)
    copies = [client.post(reverse("own-data")).status_code for _ in range(FEW + 2)]
    assert copies == [200] * FEW + [429] * 2
    for number in range(FEW):
        issue_token(ana, TTL)
        accounts.set_own_languages(ana, ["en", "zh"][: 1 + number % 2])
    with pytest.raises(TooManyOwnActs):
        issue_token(ana, TTL)
    with pytest.raises(TooManyOwnActs):
        accounts.set_own_languages(ana, [])
    assert [sign_in() for _ in range(FEW + 2)] == [302] * FEW + [429] * 2
    revoke_tokens(ana)
    assert not AuthToken.objects.exists(), "a person at the limit can still revoke tokens"
    kinds = (PersonEvent.Kind.COPIED, PersonEvent.Kind.TOKEN, PersonEvent.Kind.EDITED, PersonEvent.Kind.SIGNED_IN)
    assert [events(ana, kind) for kind in kinds] == [FEW, FEW + 1, FEW, FEW]


def test_reviews_are_undone_and_corrected_only_so_often(ana: User) -> None:
    open_case()
    claim_and_submit(ana, approval())
    for _ in range(FEW):
        held = retract(ana, Review.objects.latest("pk").pk)
        assert held.token is not None
        submit(held, approval())
    last = Review.objects.latest("pk")
    with pytest.raises(TooManyOwnActs):
        retract(ana, last.pk)
    with pytest.raises(TooManyOwnActs):
        correct(ana, last.pk, rejection(), reason="I misread it.")
    assert Review.objects.count() == FEW + 1


def test_what_others_do_to_an_account_does_not_count(ana: User) -> None:
    admin = account("adela", UserRole.ADMIN)
    for number in range(FEW + 1):
        accounts.edit_person(ana.pk, {"languages": ["en", "zh"][: 1 + number % 2]}, actor=admin)
    accounts.set_own_languages(ana, [])
    assert events(ana, PersonEvent.Kind.EDITED) == FEW + 2


def test_acts_of_a_session_that_has_ended_while_they_waited_are_refused(ana: User, rf: RequestFactory) -> None:
    """A stolen session could otherwise outlive a new password."""
    admin, case = account("adela", UserRole.ADMIN), open_case()
    claim(ana)
    waiting = User.objects.get(pk=ana.pk)
    accounts.set_password(ana.pk, "another-quite-long-one", actor=admin)
    request = rf.post("/")
    request.user = waiting
    view = accounts.record_factor_changes(lambda _request: pytest.fail("a second factor was added"))
    for act in (
        partial(issue_token, waiting, TTL),
        partial(accounts.set_own_password, waiting, "mine-again-quite-long"),
        partial(accounts.set_own_languages, waiting, ["en"]),
        partial(view, request),
        partial(remark, waiting, case.pk, "Still here."),
    ):
        with pytest.raises(NotAllowed):
            act()
    assert not AuthToken.objects.exists()
    assert User.objects.get(pk=ana.pk).check_password("another-quite-long-one")
    assert issue_token(User.objects.get(pk=ana.pk), TTL)


def test_of_two_who_set_a_new_password_with_the_old_one_the_second_is_refused(ana: User) -> None:
    first, second = User.objects.get(pk=ana.pk), User.objects.get(pk=ana.pk)
    accounts.set_own_password(first, "mine-and-quite-long")
    with pytest.raises(NotAllowed):
        accounts.set_own_password(second, "whoever-had-the-old-one")
    assert User.objects.get(pk=ana.pk).check_password("mine-and-quite-long")


def test_who_has_become_something_else_meanwhile_claims_nothing(ana: User) -> None:
    admin = account("adela", UserRole.ADMIN)
    open_case()
    accounts.set_role(ana.pk, UserRole.RESEARCHER, actor=admin)
    with pytest.raises(NotAllowed):
        claim_next(ana)  # as the request loaded it


@pytest.mark.both
def test_acts_at_the_same_moment_count_too(ana: User, run_concurrently: RunConcurrently) -> None:
    outcomes = run_concurrently([partial(issue_token, ana, TTL)] * (FEW + 2))
    assert events(ana, PersonEvent.Kind.TOKEN) == FEW, outcomes
    assert sum(isinstance(outcome, TooManyOwnActs) for outcome in outcomes) == 2
