"""Keyboard shortcuts can be switched off and reassigned."""

from django.urls import reverse

from review.models import User
from review.people.forms import KEYS
from tests.review.pages import Browse, text_of

FIELDS = {f"key-{number}": key for number, key in enumerate(KEYS)}


def test_keys_can_be_switched_off_and_reassigned(browse: Browse, ana: User) -> None:
    client, address = browse(ana), reverse("review:own-keys")
    assert "data-keys=" not in text_of(client.get(address))
    assert client.post(address, {**FIELDS, "key-0": "J"}).status_code == 302
    ana.refresh_from_db()
    assert (ana.keys_off, ana.keys) == (True, {"n": "j"})
    page = text_of(client.get(address))
    assert 'data-keys="off"' in page
    assert 'data-key-map="{&quot;n&quot;: &quot;j&quot;}"' in page
    client.post(address, {**FIELDS, "on": "on"})
    ana.refresh_from_db()
    assert (ana.keys_off, ana.keys) == (False, {})


def test_a_key_cannot_have_two_actions(browse: Browse, ana: User) -> None:
    client, address = browse(ana), reverse("review:own-keys")
    page = client.post(address, {**FIELDS, "key-0": "p"})
    assert page.status_code == 422
    assert "Each action needs its own key." in text_of(page)
    assert client.post(address, {**FIELDS, "key-0": "7"}).status_code == 422
    ana.refresh_from_db()
    assert ana.keys == {}
