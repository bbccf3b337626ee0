"""A new physician who set no password here is asked for their languages on the workbench."""

import pytest
from django.urls import reverse

from review.assignments import claims
from review.models import PersonEvent, User
from tests.review.factories import open_case
from tests.review.pages import Browse, text_of


@pytest.fixture
def from_provider(ana: User) -> User:
    """A physician who signs in at an identity provider only."""
    ana.set_unusable_password()
    ana.save()
    return ana


def test_somebody_from_an_identity_provider_is_asked_once(browse: Browse, from_provider: User) -> None:
    open_case(language="zh")
    english = open_case(2, language="en")
    client = browse(from_provider)
    page = client.get(reverse("review:workbench"))
    assert "Languages in which you review" in text_of(page)
    client.post(reverse("review:own-languages"), {"languages": ["en"]})
    from_provider.refresh_from_db()
    assert from_provider.languages == ["en"]
    assert PersonEvent.objects.filter(person=from_provider, kind=PersonEvent.Kind.EDITED).count() == 1
    assert "Languages in which you review" not in text_of(client.get(reverse("review:workbench")))
    assignment = claims.claim_next(from_provider)
    assert assignment is not None
    assert assignment.case == english


def test_whoever_set_a_password_was_asked_then(browse: Browse, ana: User) -> None:
    assert "Languages in which you review" not in text_of(browse(ana).get(reverse("review:workbench")))


def test_a_language_that_is_not_offered_changes_nothing(browse: Browse, from_provider: User) -> None:
    browse(from_provider).post(reverse("review:own-languages"), {"languages": ["klingon"]})
    from_provider.refresh_from_db()
    assert from_provider.languages == []
