"""Accounts whose owners sign in at a provider of identities."""

from datetime import timedelta

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.utils import timezone

from review.models import User


def signs_in_elsewhere(user: User) -> bool:
    """Whether one of the site's providers decides who signs in to this account.

    A password or passkey of the site's own would be a way in that nobody there can close.
    """
    declared = [provider.id for provider in settings.MHB_PROVIDERS]
    return bool(declared) and SocialAccount.objects.filter(user=user, provider__in=declared).exists()


def is_confirmed(user: User) -> bool:
    """Whether somebody signed in to an account of a provider within `MHB_SSO_TOKEN_HOURS`.

    Groups that they have lost take effect in no other way. Not when allauth last saw them there: it
    stores that of a sign-in that is refused, too.
    """
    if not SocialAccount.objects.filter(user=user).exists():
        return True
    since = timezone.now() - timedelta(hours=settings.MHB_SSO_TOKEN_HOURS)
    return user.last_login is not None and user.last_login > since
