"""Every way to end a session signs its account out at once."""

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from review.models import User
from tests.review.pages import Browse

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def signed_in_as(client: Client) -> str:
    """The username of the account that a page is shown to; empty if nobody is signed in."""
    response = client.get(reverse("review:mine"))
    return response.context["user"].username if response.status_code == 200 else ""


def test_the_session_decides_the_account(browse: Browse, ana: User, bo: User) -> None:
    client = browse(ana)
    signed_in_as(client)
    session = client.session
    session[SESSION_KEY] = str(bo.pk)  # the session still holds the hash of ana's password
    session.save()
    assert signed_in_as(client) == ""


def test_every_way_to_end_a_session_signs_out(browse: Browse, ana: User, bo: User) -> None:
    for end in ("deleted", "expired", "closed", "ended"):
        client = browse(ana)
        assert signed_in_as(client) == ana.username
        stored = Session.objects.filter(pk=client.session.session_key)
        match end:
            case "deleted":
                stored.delete()
            case "expired":
                stored.update(expire_date=timezone.now())
            case "closed":
                User.objects.filter(pk=ana.pk).update(is_active=False)
            case "ended":
                User.objects.filter(pk=ana.pk).update(is_active=True, sessions_ended=1)
        assert signed_in_as(client) == "", end
        User.objects.filter(pk=ana.pk).update(is_active=True)
        ana.refresh_from_db()
