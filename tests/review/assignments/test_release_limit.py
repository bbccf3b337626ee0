"""Releases are limited per hour, so that nobody can leaf through the queue, and admins see them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from review import errors
from review.assignments import claims
from review.models import Assignment, Declined, Draft, Event, User
from tests.conftest import Clock
from tests.review.factories import claim, open_case
from tests.review.pages import Browse

LIMIT = 3


def give_back(assignment: Assignment) -> None:
    assert assignment.physician is not None
    assert assignment.token is not None
    claims.release(assignment.physician, assignment.pk, assignment.token)


def decline(assignment: Assignment) -> None:
    assert assignment.physician is not None
    assert assignment.token is not None
    claims.decline(assignment.physician, assignment.pk, assignment.token, Declined.Reason.OTHER, "Not today.")


@pytest.fixture
def assignment_at_limit(ana: User, settings: Any, clock: Clock) -> Assignment:
    """The assignment that Ana holds right after leaving three others."""
    settings.MHB_RELEASES_PER_HOUR = LIMIT
    for number in range(10):
        open_case(number)
    for leave in (give_back, decline, give_back):
        leave(claim(ana))
        clock.advance(minutes=1)
    return claim(ana)


@pytest.mark.parametrize("leave", [give_back, decline])
def test_releases_are_limited_per_hour(
    assignment_at_limit: Assignment, ana: User, clock: Clock, leave: Callable[[Assignment], None]
) -> None:
    before = Event.objects.count()
    with pytest.raises(errors.TooManyReleases):
        leave(assignment_at_limit)
    assignment_at_limit.refresh_from_db()
    assert assignment_at_limit.physician == ana
    assert Event.objects.count() == before
    clock.advance(minutes=58)  # the first of the three is an hour old
    leave(claim(ana))
    assert claim(ana) != assignment_at_limit


def test_the_limit_is_per_person(assignment_at_limit: Assignment, bo: User) -> None:
    for _ in range(LIMIT):
        give_back(claim(bo))
    with pytest.raises(errors.TooManyReleases):
        give_back(claim(bo))


def test_page_and_api_explain_the_limit_and_the_draft_is_kept(
    assignment_at_limit: Assignment, ana: User, browse: Browse
) -> None:
    client, fields = browse(ana), {"token": str(assignment_at_limit.token), "revision": "0", "reason": "typed before"}
    page = client.post(reverse("review:release", args=[assignment_at_limit.pk]), fields)
    assert page.status_code == 429
    assert "This case is still reserved for you: finish it, or try again later." in page.content.decode()
    assert Draft.objects.get(physician=ana, assignment=assignment_at_limit).answers["reason"] == "typed before"
    answer = client.post(
        reverse("api:assignment-release", args=[assignment_at_limit.pk]),
        {"token": str(assignment_at_limit.token)},
        "application/json",
    )
    assert (answer.status_code, answer.json()["type"]) == (429, "urn:mhb:too-many-releases")


def test_admins_see_how_often_somebody_released(
    assignment_at_limit: Assignment, ana: User, adela: User, browse: Browse
) -> None:
    client = browse(adela)
    people = client.get(reverse("review:people"))
    assert "Returned, 7 days" in people.content.decode()
    assert {row.username: row.left for row in people.context["page"].rows} == {"adela": 0, "ana": 3}
    page = client.get(reverse("review:person", args=[ana.pk])).content.decode()
    assert "3 in 7 days, 3 of 3 in the last hour" in page
    assert "limit reached" in page
    assert client.get(reverse("api:person", args=[ana.pk])).json()["given_back"] == 3
