"""Which accounts must have a second factor, and whether they do."""

from allauth.mfa.models import Authenticator
from django.conf import settings

from review.models import User

KINDS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)  # recovery codes only stand in for one


def has_factor(user: User) -> bool:
    """Whether the user has an authenticator app or a passkey."""
    return bool(Authenticator.objects.filter(user=user, type__in=KINDS).exists())


def is_missing(user: User) -> bool:
    """Whether `MHB_SECOND_FACTOR_ROLES` names the user's role, and no second factor is set up."""
    return user.role in settings.MHB_SECOND_FACTOR_ROLES and not has_factor(user)
