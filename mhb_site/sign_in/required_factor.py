"""People whose role needs a second factor set one up before they see anything else."""

from collections.abc import Callable
from typing import Any

from allauth.account.internal.flows.login import get_authentication_records
from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin

from mhb_site.web.errors import refusal
from review.common.second_factor import is_missing
from review.errors import SecondFactorMissing
from review.models import User

OPEN = ("accounts/second-factor/", "accounts/logout/", "accounts/reauthenticate/", "accounts/password/change/", "i18n/")


class RequiredFactorMiddleware(MiddlewareMixin):
    """Leads to the page of second factors from everywhere else; the API answers 403."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if not settings.MHB_SECOND_FACTOR_ROLES:
            raise MiddlewareNotUsed
        super().__init__(get_response)

    def process_view(self, request: HttpRequest, *_view: Any) -> HttpResponse | None:
        user, match = request.user, request.resolver_match
        if match is None or match.route.startswith(OPEN) or not isinstance(user, User):
            return None
        if not is_missing(user) or _asked_elsewhere(request, user):
            return None
        if request.path_info.startswith("/api/"):
            return refusal(request, 403, SecondFactorMissing().message)
        return redirect("mfa_index")


def _asked_elsewhere(request: HttpRequest, user: User) -> bool:
    """Whether this session began at a provider that asks for a second factor itself."""
    asking = {provider.id for provider in settings.MHB_PROVIDERS if provider.second_factor}
    return any(record.get("provider") in asking for record in get_authentication_records(request, user))
