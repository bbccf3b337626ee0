"""allauth's adapters and forms: no registration, and second factors that count failures."""

import base64
import secrets
from datetime import timedelta
from functools import cache
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter, get_adapter
from allauth.mfa.base import forms
from allauth.mfa.totp.forms import ActivateTOTPForm
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.forms import TextInput
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import override, pgettext_lazy

from mhb_site.sign_in import language
from mhb_site.sign_in.limits import client_address
from review.answers import signatures
from review.audit.trail import record_person, recording_events, require_own_act
from review.common.provider_accounts import signs_in_elsewhere
from review.errors import AccessChanged, SignsInElsewhere
from review.models import PersonEvent, User
from review.people.accounts import set_own_password

BEGUN_FOR = "sign_in_begun_for"  # in the session: which access of the account


class ClosedAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """allauth's adapter without registration; a service that records events sets passwords."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def set_password(self, user: User, password: str) -> None:
        set_own_password(user, password)

    def pre_login(self, request: HttpRequest, user: User, **options: Any) -> Any:
        """Raises TooManyOwnActs; SignsInElsewhere for a way in that a provider could not close."""
        if "sociallogin" not in (options.get("signal_kwargs") or {}) and signs_in_elsewhere(user):
            raise SignsInElsewhere
        with transaction.atomic():  # of some at once, all may be the last: a sign-in has limits of its own
            require_own_act(user, PersonEvent.Kind.SIGNED_IN)
        request.session[BEGUN_FOR] = user.get_session_auth_hash()
        return super().pre_login(request, user, **options)

    def login(self, request: HttpRequest, user: User) -> None:
        """Raises AccessChanged if an admin ended the access while a second factor was awaited."""
        if request.session.pop(BEGUN_FOR, "") != user.get_session_auth_hash():
            raise AccessChanged
        super().login(request, user)

    def post_login(self, request: HttpRequest, user: User, **options: Any) -> Any:
        with recording_events():
            record_person(user, PersonEvent.Kind.SIGNED_IN, user)
        if "sociallogin" in (options.get("signal_kwargs") or {}):
            # The provider decides again soon, however busy the session is.
            request.session.set_expiry(timezone.now() + timedelta(hours=settings.MHB_SSO_SESSION_HOURS))
        own = language.keep_at_sign_in(request, user)
        with override(own):  # the message about the sign-in, too
            response = super().post_login(request, user, **options)
        return language.follow(request, response, own)

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request) or "0.0.0.0"  # noqa: S104 -- sessions are stored with one


class SecondFactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    """allauth's adapter that encrypts the secrets of authenticator apps in the database.

    The key is derived from the site's secret.
    """

    def encrypt(self, text: str) -> str:
        return _fernet(settings.SECRET_KEY).encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        try:
            return _fernet(settings.SECRET_KEY).decrypt(encrypted_text.encode()).decode()
        except InvalidToken:
            # The site's secret has changed. No code matches a random secret; with an empty one, a
            # code could.
            return base64.b32encode(secrets.token_bytes(20)).decode()


@cache
def _fernet(secret: str) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"mhb second factor").derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(derived))


class CodeInput(TextInput):
    """An input with the focus, emptied after a wrong code so that the next one can be typed."""

    def format_value(self, value: object) -> None:
        return None


class _CodeField:
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["code"]  # type: ignore[attr-defined]
        # A code in a taxonomy is another word in Chinese.
        field.label = pgettext_lazy("of a second factor", "Code")
        field.widget = CodeInput({"autocomplete": "one-time-code", "autofocus": True})


class SetUpForm(_CodeField, ActivateTOTPForm):  # type: ignore[misc]
    """Asks for the first code of an app, which proves that it was set up."""


class _RateLimitedCode(_CodeField):
    """A wrong or used code counts as a failed sign-in; too many lock the account out (axes)."""

    def clean_code(self) -> str:
        with signatures.count_refusals(context.request, self.user, ValidationError("")):  # type: ignore[attr-defined]
            code: str = super().clean_code()  # type: ignore[misc]
            if not signatures.is_first_use(self.authenticator, code):  # type: ignore[attr-defined]
                raise get_adapter().validation_error("incorrect_code")
            return code


class SignInCodeForm(_RateLimitedCode, forms.AuthenticateForm):  # type: ignore[misc]
    """Asks for the code that completes the sign-in."""


class ConfirmCodeForm(_RateLimitedCode, forms.ReauthenticateForm):  # type: ignore[misc]
    """Asks for a code again before the account is changed."""
