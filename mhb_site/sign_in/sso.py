"""Sign-in through a provider of identities: allauth's adapter, and the addresses it needs."""

import logging
import traceback
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import requests
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base import AuthProcess
from django.conf import settings
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.db import DataError, Error
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import URLPattern, URLResolver, include, path, reverse
from django.utils.http import urlencode

from mhb_site.sign_in.limits import limit_beginnings
from mhb_site.sign_in.provider_calls import ProviderSession, read_metadata
from mhb_site.sign_in.providers import IdentityProvider, are_of_two_people, is_verified, names_nobody
from review.audit.trail import recording_events
from review.common.disk import is_disk_full
from review.errors import ProviderAway, ProviderRefused, ShownError
from review.models import User
from review.people.providers import Provided, admit
from review.rules.text import is_storable

log = logging.getLogger(__name__)
# What the site and Django answer in their own words. All else means claims that are missing, of
# another type, too long or too deep, or no XML: allauth, parsers and the database raise many kinds
# of errors, python3-saml even Exception itself.
ANSWERED = (ShownError, Http404, PermissionDenied, SuspiciousOperation)
SIGN_OUT = "saml_sls"
MODULES = {protocol: f"allauth.socialaccount.providers.{protocol}" for protocol in ("openid_connect", "saml")}


def provider_urls() -> list[URLPattern | URLResolver]:
    """The addresses of the protocols in use; none without a provider."""
    used = {provider.protocol for provider in settings.MHB_PROVIDERS}
    if "saml" in used:
        from onelogin.saml2.idp_metadata_parser import OneLogin_Saml2_IdPMetadataParser  # type: ignore[import-untyped]  # an extra

        OneLogin_Saml2_IdPMetadataParser.parse_remote = staticmethod(read_metadata)
    patterns: list[URLPattern | URLResolver] = [path("", include(f"{MODULES[name]}.urls")) for name in sorted(used)]
    _guard(patterns)
    return patterns


def _guard(patterns: Iterable[URLPattern | URLResolver]) -> None:
    """Let an address open these views so often, and refuse claims that are not of their form."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            _guard(pattern.url_patterns)
        else:
            view = refusing_malformed(pattern.callback)
            if pattern.name == SIGN_OUT:
                view = refusing_unsigned(view)
            pattern.callback = limit_beginnings(view)


def refusing_malformed(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """The view of a provider's protocol; it answers 403 where claims are missing or malformed.

    Raises ProviderAway for a provider that answers with an error.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except requests.RequestException:  # what allauth makes of a status that is an error
            raise ProviderAway from None
        except ANSWERED:
            raise
        except Exception as error:
            is_of_database = isinstance(error, Error) and not isinstance(error, DataError)
            if is_of_database or is_disk_full(error):
                raise
            place = traceback.extract_tb(error.__traceback__)[-1]
            # Not its text, which quotes the claims.
            log.warning("malformed claims of a provider: %s in %s", type(error).__name__, place.name)
            refusal: HttpResponseBase = _refusal(request, ProviderRefused())
            return refusal

    return guarded


def refusing_unsigned(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """The view at which a provider of SAML signs people out; it answers 400 without a signature.

    python3-saml checks one that is there, and takes messages without: a link on any page would sign
    its reader out, and lead on to whichever address it names.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.GET.get("Signature"):
            raise BadRequest("a sign-out that no provider signed")
        return view(request, *args, **kwargs)

    return guarded


def buttons(next_url: str = "") -> list[tuple[str, str]]:
    """(name, address) of each provider, for the sign-in page."""
    return [(provider.name, _login_url(provider, next_url)) for provider in settings.MHB_PROVIDERS]


def login_url(provider_id: str, next_url: str) -> str:
    """Where to sign in at a provider; at the site, if it is no longer declared."""
    declared = (provider for provider in settings.MHB_PROVIDERS if provider.id == provider_id)
    provider = next(declared, None)
    if provider:
        return _login_url(provider, next_url)
    return reverse("account_login")


def _login_url(provider: IdentityProvider, next_url: str) -> str:
    names = {"openid_connect": "provider_id", "saml": "organization_slug"}
    query = ""
    if next_url:
        query = f"?{urlencode({'next': next_url})}"
    return reverse(f"{provider.protocol}_login", kwargs={names[provider.protocol]: provider.id}) + query


class ProviderAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Finds or creates the account of a person who signs in elsewhere; stores no tokens."""

    def get_requests_session(self) -> ProviderSession:
        return ProviderSession()

    def list_apps(self, request: HttpRequest, **filters: Any) -> list[SocialApp]:
        """Those of the settings: secrets have no place in rows."""
        return [app for app in super().list_apps(request, **filters) if app.pk is None]

    def populate_user(self, request: HttpRequest, sociallogin: SocialLogin, data: Any) -> Any:
        sociallogin.claims, sociallogin.account.extra_data = sociallogin.account.extra_data, {}
        return super().populate_user(request, sociallogin, data)

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        account = sociallogin.account
        provider = next(each for each in settings.MHB_PROVIDERS if each.id == account.provider)
        user = None
        try:
            # An account that is signed in cannot be given a second way in.
            if sociallogin.state.get("process") == AuthProcess.LOGIN:
                with recording_events():
                    user = self._admit(provider, sociallogin)
                    if user is not None:
                        account.user = user
                        account.save()
        except ProviderRefused as error:
            raise ImmediateHttpResponse(_refusal(request, error)) from None
        if user is None:
            raise ImmediateHttpResponse(_refusal(request, ProviderRefused()))
        sociallogin.user = user

    def on_authentication_error(self, request: HttpRequest, provider: Any, error: Any = None, **more: Any) -> None:
        reason = type(more.get("exception")).__name__  # its text quotes what the provider answered
        log.warning("sign-in through %s failed: %s %s", provider.app.provider_id, error, reason)
        raise ImmediateHttpResponse(_refusal(request, ProviderRefused()))

    @staticmethod
    def _admit(provider: IdentityProvider, sociallogin: SocialLogin) -> User | None:
        account, said = sociallogin.account, sociallogin.user
        known = None
        if account.pk:
            known = User.objects.filter(pk=account.user_id).first()
        claims = sociallogin.claims
        uid_field = provider.settings.get("uid_field", "sub")
        if are_of_two_people(claims) or names_nobody(claims, uid_field):
            raise ProviderRefused
        texts = (account.uid, *((said.username, said.email, said.first_name, said.last_name) if said else ()))
        if not account.uid.strip() or not is_storable(list(texts)):
            raise ProviderRefused
        groups = provider.groups_in(claims)
        is_email_known = said is not None and is_verified(claims, unless_said=provider.verifies_emails)
        email = ""
        if is_email_known:
            email = said.email
        person = Provided(
            provider=provider.id,
            username=(said.username or email or account.uid)[:150],
            name=said.get_full_name(),
            email=email,
            role=provider.role_of(groups),
            senior=provider.is_senior(groups),
        )
        return admit(
            person,
            known,
            decides=bool(provider.roles),
            default=provider.role,
            link_by_email=provider.link_by_email,
        )


def _refusal(request: HttpRequest, error: ProviderRefused) -> Any:
    context = {"error": error, "message": error.message, "detail": error.detail}
    return render(request, "site/problem.html", context, status=error.status)
