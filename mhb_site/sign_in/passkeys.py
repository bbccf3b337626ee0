"""allauth's forms of passkeys, which read what a browser says of one without trusting it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from allauth.mfa.adapter import get_adapter
from allauth.mfa.webauthn import forms
from allauth.mfa.webauthn.internal import auth
from django.forms import HiddenInput
from fido2.webauthn import UserVerificationRequirement

from generation.common.fields import JSONValueField

# Base64 in a credential. fido2 makes bytes of whatever is there: a number of so many bytes, too.
TEXTS = ("clientDataJSON", "authenticatorData", "signature", "userHandle", "attestationObject")
# What fido2 raises where its own forms are broken, without a key, or with one of an unknown kind.
MALFORMED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)


class _PasskeyForm:
    """A form with a credential; a malformed one is an incorrect code."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["credential"] = JSONValueField(widget=HiddenInput)  # type: ignore[attr-defined]

    def clean_credential(self) -> Any:
        credential = self.cleaned_data["credential"]  # type: ignore[attr-defined]
        if not _is_of_texts(credential):
            raise get_adapter().validation_error("incorrect_code")
        with _refusing_malformed():
            read = getattr(super(), "clean_credential", lambda: credential)
            return read()

    def clean(self) -> Any:
        with _refusing_malformed():
            return super().clean()  # type: ignore[misc]


class AddPasskeyForm(_PasskeyForm, forms.AddWebAuthnForm):  # type: ignore[misc]
    """Adds a passkey."""


class SignInPasskeyForm(_PasskeyForm, forms.LoginWebAuthnForm):  # type: ignore[misc]
    """Signs in with a passkey alone, which must have asked for a PIN or a finger.

    What it is asked as a second factor need not, and a session keeps one question for both.
    """

    def clean_credential(self) -> Any:
        asked = auth.get_state() or {}
        if asked.get("user_verification") != UserVerificationRequirement.REQUIRED:
            raise get_adapter().validation_error("incorrect_code")
        return super().clean_credential()


class SecondPasskeyForm(_PasskeyForm, forms.AuthenticateWebAuthnForm):  # type: ignore[misc]
    """Completes a sign-in with a passkey."""


class ConfirmPasskeyForm(_PasskeyForm, forms.ReauthenticateWebAuthnForm):  # type: ignore[misc]
    """Asks for a passkey again before the account is changed."""


def _is_of_texts(credential: object) -> bool:
    if not isinstance(credential, dict) or not isinstance(response := credential.get("response"), dict):
        return False
    values = [credential.get("id"), credential.get("rawId"), *map(response.get, TEXTS)]
    return all(value is None or isinstance(value, str) for value in values)


@contextmanager
def _refusing_malformed() -> Iterator[None]:
    try:
        yield
    except MALFORMED as error:
        raise get_adapter().validation_error("incorrect_code") from error
