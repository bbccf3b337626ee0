"""Passkeys of a program that signs as an authenticator does: whose they are, and what they open."""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import pytest
from allauth.account.utils import user_pk_to_url_str
from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from django.test import Client
from django.urls import reverse
from fido2.cbor import encode
from fido2.cose import ES256
from fido2.utils import websafe_encode

from review.models import User
from tests.review.factories import PASSWORD

pytestmark = pytest.mark.django_db
PRESENT, VERIFIED, WITH_KEY = 0x01, 0x04, 0x40  # flags of an answer
ALGORITHM = 3  # of a key, as COSE numbers it
NO_KEY = {ALGORITHM: 0}


class Passkey:
    """An authenticator with one key, of `owner` once it was added to an account."""

    def __init__(self, owner: User) -> None:
        self.owner, self.id = owner, os.urandom(16)
        self._private = ec.generate_private_key(ec.SECP256R1())

    def made(self, options: Mapping[str, Any], changes: Mapping[int, int]) -> str:
        """What a browser posts to add the passkey. `changes`: of its key, by COSE's numbers."""
        public = {**ES256.from_cryptography_key(self._private.public_key()), **changes}
        data = self._data(PRESENT | VERIFIED)
        if changes != NO_KEY:
            key = bytes(16) + len(self.id).to_bytes(2) + self.id + encode(public)
            data = self._data(PRESENT | VERIFIED | WITH_KEY) + key
        attestation = encode({"fmt": "none", "attStmt": {}, "authData": data})
        asked = _client_data("webauthn.create", options)
        return self._credential(clientDataJSON=asked, attestationObject=attestation)

    def answer(self, options: Mapping[str, Any], *, verified: bool = True) -> str:
        """What a browser posts to sign in. `verified`: by a PIN or a finger, too."""
        flags = PRESENT
        if verified:
            flags |= VERIFIED
        data, asked = self._data(flags), _client_data("webauthn.get", options)
        signature = self._private.sign(data + hashlib.sha256(asked).digest(), ec.ECDSA(SHA256()))
        handle = user_pk_to_url_str(self.owner).encode()
        return self._credential(clientDataJSON=asked, authenticatorData=data, signature=signature, userHandle=handle)

    def _data(self, flags: int) -> bytes:
        return hashlib.sha256(b"testserver").digest() + bytes([flags]) + bytes(4)

    def _credential(self, **response: bytes) -> str:
        parts = {name: websafe_encode(value) for name, value in response.items()}
        key = websafe_encode(self.id)
        return json.dumps(
            {"id": key, "rawId": key, "type": "public-key", "response": parts, "clientExtensionResults": {}}
        )


def _client_data(kind: str, options: Mapping[str, Any]) -> bytes:
    about = {"type": kind, "challenge": options["publicKey"]["challenge"], "origin": "https://testserver"}
    return json.dumps(about).encode()


def sign_in(name: str, client: Client) -> Any:
    return client.post(reverse("account_login"), {"login": name, "password": PASSWORD}, secure=True)


def add(passkey: Passkey, changes: Mapping[int, int]) -> Any:
    """The answer to its owner, who adds the passkey to the account."""
    client, page = Client(), reverse("mfa_add_webauthn")
    sign_in(passkey.owner.username, client)
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD}, secure=True)
    options = client.get(page, secure=True).context["js_data"]["creation_options"]
    return client.post(page, {"name": "key", "credential": passkey.made(options, changes)}, secure=True)


def added(owner: User) -> Passkey:
    """A passkey that `owner` has added to the account."""
    passkey = Passkey(owner)
    assert add(passkey, {}).status_code == 302
    return passkey


def asked_to_sign_in(client: Client) -> Mapping[str, Any]:
    answer = client.get(reverse("mfa_login_webauthn"), headers={"x-requested-with": "XMLHttpRequest"}, secure=True)
    return answer.json()["request_options"]  # type: ignore[no-any-return]


def asked_as_second(client: Client) -> Mapping[str, Any]:
    return client.get(reverse("mfa_authenticate"), secure=True).context["js_data"]["request_options"]  # type: ignore[no-any-return]


def post(client: Client, name: str, credential: str) -> Any:
    return client.post(reverse(name), {"credential": credential}, secure=True)


def who(client: Client) -> str:
    """The name of the account that is signed in; "" if none is."""
    return str(client.get(reverse("api:me"), secure=True).json().get("username", ""))


def test_a_passkey_signs_its_owner_in_once(ana: User, bo: User) -> None:
    passkey, client = added(ana), Client()
    credential = passkey.answer(asked_to_sign_in(client))
    post(client, "mfa_login_webauthn", credential)
    assert who(client) == "ana"
    again = Client()
    asked_to_sign_in(again)
    post(again, "mfa_login_webauthn", credential)
    client.logout()
    post(client, "mfa_login_webauthn", credential)
    assert (who(again), who(client)) == ("", ""), "its question was another"


def test_a_passkey_opens_no_other_account(ana: User, bo: User) -> None:
    passkey = added(ana)
    added(bo)
    passkey.owner = bo
    client = Client()
    post(client, "mfa_login_webauthn", passkey.answer(asked_to_sign_in(client)))
    assert who(client) == ""
    sign_in("bo", client)
    post(client, "mfa_authenticate", passkey.answer(asked_as_second(client)))
    assert who(client) == ""


def test_a_passkey_alone_asks_for_a_pin_or_a_finger(ana: User, bo: User) -> None:
    """The question to a second factor does not; a session keeps the last one asked."""
    stolen = added(ana)
    added(bo)
    client = Client()
    post(client, "mfa_login_webauthn", stolen.answer(asked_to_sign_in(client), verified=False))
    assert who(client) == ""
    sign_in("bo", client)
    credential = stolen.answer(asked_as_second(client), verified=False)
    session = client.session
    del session["account_login"]  # as after some minutes; the question stays
    session.save()
    post(client, "mfa_login_webauthn", credential)
    assert who(client) == ""
    client = Client()
    sign_in("ana", client)
    post(client, "mfa_authenticate", stolen.answer(asked_as_second(client), verified=False))
    assert who(client) == "ana", "with the password, the key is enough"


def test_what_holds_no_key_or_one_of_another_kind_is_refused(ana: User) -> None:
    assert add(Passkey(ana), NO_KEY).status_code == 200
    assert not Authenticator.objects.exists()
    passkey, client = Passkey(ana), Client()
    add(passkey, {ALGORITHM: -999})
    answer = post(client, "mfa_login_webauthn", passkey.answer(asked_to_sign_in(client)))
    assert (answer.headers["Location"], who(client)) == (reverse("account_login"), "")
