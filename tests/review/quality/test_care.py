"""Signs of careless work, and setting a physician's reviews aside."""

from datetime import timedelta

import pytest
from django.urls import reverse

from review.assignments import reassignment, retraction
from review.audit import cases as audit_cases
from review.cases.care import MIN_HASTY, MIN_SECONDS, careless_physicians, fastest
from review.cases.services import lock_open_case
from review.models import Assignment, Case, Event, Review, User
from review.people import accounts
from review.rules.permissions import UserRole
from tests.api.conftest import Api, api
from tests.conftest import Clock
from tests.review.factories import approval, case_in_secondary, claim, claim_and_submit, open_case, rejection, submit
from tests.review.pages import Browse

pytestmark = pytest.mark.django_db
__all__ = ["api"]
REASON = "Twenty cases in a minute."


def answer(physician: User, clock: Clock, seconds: float) -> None:
    assignment = claim(physician)
    clock.now += timedelta(seconds=seconds)
    submit(assignment, approval())


@pytest.fixture
def hasty(ana: User, bo: User, clock: Clock) -> User:
    """Ana answers in 2 seconds each, Bo in half a minute."""
    for physician in (ana, bo):
        physician.stages = ["primary"]
        physician.save(update_fields=["stages"])
    for number in range(2 * MIN_HASTY):
        open_case(number)
    for _case in range(MIN_HASTY):
        answer(ana, clock, 2)
        answer(bo, clock, 30)
    return ana


def test_whoever_answers_faster_than_anybody_reads_is_seen(hasty: User, browse: Browse, adela: User, api: Api) -> None:
    [care] = careless_physicians()
    assert (care.physician, care.hasty, care.cases, care.seconds) == (hasty.pk, MIN_HASTY, MIN_HASTY, 2)
    assert care.signs == ("hasty",)
    page = browse(adela).get(reverse("review:overview")).content.decode()
    assert reverse("review:reviewer", args=[hasty.pk]) in page
    assert "Signs of careless work" in browse(adela).get(reverse("review:reviewer", args=[hasty.pk])).content.decode()
    assert "Signs of careless work" not in browse(hasty).get(reverse("review:me")).content.decode()
    assert [row["physician"] for row in api(adela).get("/api/v1/review/care/").json()] == [hasty.pk]


def test_a_longer_case_takes_longer_to_read() -> None:
    assert fastest(10) == MIN_SECONDS
    assert fastest(800) == 60


def test_reviews_are_set_aside_done_again_and_can_be_restored(hasty: User, adela: User, bo: User, api: Api) -> None:
    kept = Review.objects.filter(physician=hasty).order_by("case").first()
    assert kept is not None
    response = api(adela).post(f"/api/v1/reviewers/{hasty.pk}/set-aside/", {"reason": REASON})
    assert response.json() == {"cases": MIN_HASTY, "built_on": 0, "closed": 0}
    hasty.refresh_from_db()
    assert hasty.paused_at is not None
    case = Case.objects.get(pk=kept.case_id)
    assert case.state == "primary"
    assert not Assignment.objects.exclude(role="primary").filter(case=case).exists()
    events = Event.objects.filter(case=case, actor=adela).order_by("id").values_list("kind", flat=True)
    assert list(events) == ["retracted", "reassigned", "moved"]
    taken = claim(bo)
    assert taken.case.reviews.filter(physician=hasty).exists()
    assert not careless_physicians()

    result = retraction.restore(hasty.pk, actor=adela)
    assert (result.cases, result.built_on) == (MIN_HASTY - 1, 1), "Bo has taken one of them"
    assert retraction.restore(hasty.pk, actor=adela).cases == 0
    restored = Case.objects.filter(reviews__physician=hasty, state="secondary").exclude(pk=taken.case_id)
    assert restored.distinct().count() == MIN_HASTY - 1
    assert Review.objects.filter(physician=hasty, retraction__isnull=True, attempt=2).count() == MIN_HASTY - 1
    again = retraction.set_aside(hasty.pk, actor=adela, reason=REASON)
    assert again.cases == MIN_HASTY - 1
    assert retraction.restore(hasty.pk, actor=adela).cases == MIN_HASTY - 1
    assert audit_cases.mismatches(list(Case.objects.values_list("pk", flat=True))) == []


def test_what_others_have_built_on_and_what_has_closed_stays(ana: User, bo: User, chen: User, adela: User) -> None:
    built_on = case_in_secondary(ana)
    claim(bo)
    closed = case_in_secondary(chen, number=2)
    claim_and_submit(ana, approval(), approval())
    assert Case.objects.get(pk=closed.pk).state == "approved"
    result = retraction.set_aside(ana.pk, actor=adela, reason=REASON)
    assert (result.cases, result.built_on, result.closed) == (0, 1, 1)
    assert built_on.reviews.filter(retraction__isnull=True).count() == 1


def test_a_case_reserved_for_the_physician_is_offered_to_others(ana: User, bo: User, adela: User) -> None:
    case = open_case()
    reassignment.reserve(case.pk, to=ana, actor=adela)
    claim_and_submit(ana, approval())
    assert retraction.set_aside(ana.pk, actor=adela, reason=REASON).cases == 1
    assert claim(bo).case_id == case.pk


def test_a_review_is_restored_though_the_account_of_who_took_the_case_has_changed(
    ana: User, bo: User, adela: User
) -> None:
    """What Bo held, or was to get, is free again, and nobody has done it."""
    case = case_in_secondary(ana)
    retraction.set_aside(ana.pk, actor=adela, reason=REASON)
    reassignment.reserve(case.pk, to=bo, actor=adela)
    assert retraction.restore(ana.pk, actor=adela).cases == 0, "it is Bo's"
    assert claim(bo).case_id == case.pk
    accounts.set_role(bo.pk, UserRole.RESEARCHER, actor=adela)
    assert Event.objects.filter(case=case, kind="reassigned").count() > 2
    assert retraction.restore(ana.pk, actor=adela).cases == 1
    assert retraction.restore(ana.pk, actor=adela).cases == 0
    assert Case.objects.get(pk=case.pk).state == "secondary"
    assert audit_cases.mismatches([case.pk]) == []


def test_the_other_adjudicator_waits_for_the_one_who_votes_instead(
    ana: User, bo: User, chen: User, dina: User, emil: User, adela: User
) -> None:
    case = case_in_secondary(ana)
    claim_and_submit(bo, rejection(), rejection())
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    discussing = Assignment.objects.get(case=case, physician=chen)
    assert discussing.phase == "discuss"
    assert retraction.set_aside(dina.pk, actor=adela, reason=REASON).cases == 1
    discussing.refresh_from_db()
    assert (discussing.phase, discussing.hold) == ("commit", "waiting")
    claim_and_submit(emil, rejection())
    discussing.refresh_from_db()
    assert (discussing.phase, discussing.hold) == ("discuss", "held")
    claim_and_submit(chen, approval())
    assert audit_cases.mismatches(list(Case.objects.values_list("pk", flat=True))) == []


def test_a_review_undone_while_others_are_set_aside_stops_nothing(
    ana: User, adela: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    case_in_secondary(ana)
    case_in_secondary(ana, number=2)
    last = Review.objects.filter(physician=ana).order_by("-id")[0]

    def after_an_undo(case_id: int) -> Case:
        if not hasattr(last, "retraction"):
            monkeypatch.setattr(retraction, "lock_open_case", lock_open_case)
            retraction.retract(ana, last.pk)
        return lock_open_case(case_id)

    monkeypatch.setattr(retraction, "lock_open_case", after_an_undo)
    result = retraction.set_aside(ana.pk, actor=adela, reason=REASON)
    assert (result.cases, result.built_on, result.closed) == (1, 0, 0)
