"""Who gives back and takes the next could leaf through all that waits: only so many an hour, and admins see it."""

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


def give_back(held: Assignment) -> None:
    assert held.physician is not None
    assert held.token is not None
    claims.release(held.physician, held.pk, held.token)


def decline(held: Assignment) -> None:
    assert held.physician is not None
    assert held.token is not None
    claims.decline(held.physician, held.pk, held.token, Declined.Reason.OTHER, "Not today.")


@pytest.fixture
def leafed(ana: User, settings: Any, clock: Clock) -> Assignment:
    """The case in hand of somebody who has just looked at three others."""
    settings.MHB_RELEASES_PER_HOUR = LIMIT
    for number in range(10):
        open_case(number)
    for leave in (give_back, decline, give_back):
        leave(claim(ana))
        clock.advance(minutes=1)
    return claim(ana)


@pytest.mark.parametrize("leave", [give_back, decline])
def test_there_is_a_limit_an_hour(
    leafed: Assignment, ana: User, clock: Clock, leave: Callable[[Assignment], None]
) -> None:
    before = Event.objects.count()
    with pytest.raises(errors.TooManyReleases):
        leave(leafed)
    leafed.refresh_from_db()
    assert leafed.physician == ana
    assert Event.objects.count() == before
    clock.advance(minutes=58)  # the first of the three is an hour old
    leave(claim(ana))
    assert claim(ana) != leafed


def test_the_limit_is_each_persons_own(leafed: Assignment, bo: User) -> None:
    for _ in range(LIMIT):
        give_back(claim(bo))
    with pytest.raises(errors.TooManyReleases):
        give_back(claim(bo))


def test_the_page_and_the_api_say_what_to_do_and_the_draft_is_kept(
    leafed: Assignment, ana: User, browse: Browse
) -> None:
    client, fields = browse(ana), {"token": str(leafed.token), "revision": "0", "reason": "typed before"}
    page = client.post(reverse("review:release", args=[leafed.pk]), fields)
    assert page.status_code == 429
    assert "This case is still reserved for you: finish it, or try again later." in page.content.decode()
    assert Draft.objects.get(physician=ana, assignment=leafed).answers["reason"] == "typed before"
    answer = client.post(
        reverse("api:assignment-release", args=[leafed.pk]), {"token": str(leafed.token)}, "application/json"
    )
    assert (answer.status_code, answer.json()["type"]) == (429, "urn:mhb:too-many-releases")


def test_admins_see_who_leafs(leafed: Assignment, ana: User, adela: User, browse: Browse) -> None:
    client = browse(adela)
    people = client.get(reverse("review:people"))
    assert "Returned, 7 days" in people.content.decode()
    assert {one.username: one.left for one in people.context["page"].rows} == {"adela": 0, "ana": 3}
    page = client.get(reverse("review:person", args=[ana.pk])).content.decode()
    assert "3 in 7 days, 3 of 3 in the last hour" in page
    assert "limit reached" in page
    assert client.get(reverse("api:person", args=[ana.pk])).json()["given_back"] == 3
