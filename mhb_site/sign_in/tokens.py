"""The page of your own API tokens, as an alternative to the API's sign-in."""

import time
from datetime import timedelta

from allauth.account import app_settings as account_settings
from allauth.account.authentication import get_authentication_records
from allauth.account.decorators import reauthentication_required
from allauth.socialaccount.models import SocialAccount
from django import forms
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST
from knox.models import AuthToken

from mhb_site.api import LIMIT, TTL, issue_token, revoke_tokens
from mhb_site.sign_in import sso
from review.common.decorators import posted_data, redirect_saying, render_form, show_at, signed_in_account


class TokenForm(forms.Form):
    """Asks what a new token is for, and how long it should last."""

    name = forms.CharField(label=gettext_lazy("Name"), required=False, max_length=80)
    days = forms.IntegerField(label=gettext_lazy("Valid for (days)"), min_value=1, max_value=TTL.days, initial=TTL.days)


@login_required
@reauthentication_required  # type: ignore[untyped-decorator]  # a token outlives its session
def tokens(request: HttpRequest) -> HttpResponse:
    """List your tokens and create new ones; a new token is shown only once.

    Who signs in through a provider is sent there again first: its word may have changed.
    """
    me = signed_in_account(request)
    provider = SocialAccount.objects.filter(user=me).values_list("provider", flat=True).first()
    if provider is not None and not _is_recent(request):
        return redirect(sso.login_url(provider, reverse("tokens")))
    form = TokenForm(posted_data(request))
    issued = ""
    if form.is_valid():
        _token, issued = issue_token(me, timedelta(days=form.cleaned_data["days"]), form.cleaned_data["name"])
        form = TokenForm()
        show_at(request, request.path)  # a reload makes no other one
    rows = AuthToken.objects.filter(user=me, expiry__gt=timezone.now()).select_related("named")
    context = {"form": form, "issued": issued, "tokens": rows.order_by("-created", "-pk"), "limit": LIMIT}
    return render_form(request, "account/tokens.html", context, refused=form.errors)


def _is_recent(request: HttpRequest) -> bool:
    """Whether a provider has confirmed the account within the time of reauthentication."""
    since = time.time() - account_settings.REAUTHENTICATION_TIMEOUT
    records = get_authentication_records(request, signed_in_account(request))
    return any(record["method"] == "socialaccount" and record["at"] > since for record in records)


@login_required
@require_POST
def revoke_token(request: HttpRequest) -> HttpResponse:
    """Revoke one of your tokens, or all of them."""
    which = {}
    if "all" not in request.POST:
        which = {"token_key": request.POST.get("token", "")}
    revoke_tokens(signed_in_account(request), **which)
    return redirect_saying(request, _("Revoked. Programs that use it are signed out."), "tokens")
