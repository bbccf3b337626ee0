"""Accounts whose owners sign in at a provider of identities."""

from datetime import timedelta

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from review.models import User


def signs_in_elsewhere(user: User) -> bool:
    """Whether one of the site's providers decides who signs in to this account.

    A password or passkey of the site's own would be a way in that nobody there can close.
    """
    declared = [provider.id for provider in settings.MHB_PROVIDERS]
    return bool(declared) and SocialAccount.objects.filter(user=user, provider__in=declared).exists()


def is_confirmed(user: User) -> bool:
    """Whether the provider of an account, if it has one, confirmed it within `MHB_SSO_TOKEN_HOURS`.

    It does at each sign-in. Groups that somebody has lost take effect in no other way.
    """
    last = SocialAccount.objects.filter(user=user).aggregate(last=Max("last_login"))["last"]
    return last is None or last > timezone.now() - timedelta(hours=settings.MHB_SSO_TOKEN_HOURS)
