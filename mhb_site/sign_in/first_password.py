"""The page of an invitation, where a new person sets the first password and is signed in."""

from allauth.account.utils import perform_login
from django import forms
from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods

from review.answers import signatures
from review.common.decorators import posted_data, render_form
from review.errors import InvitationInvalid
from review.models import User
from review.people import accounts, invitations
from review.people.forms import OwnLanguagesField, PasswordField, PasswordForm
from review.rules.permissions import UserRole

COOKIE = settings.ENV.cookie("invitation")
MINUTES = 60  # for which the page may be left open
# Counts attempts on a number, and is the name of no account: if the account's were locked,
# anybody could find out whose number this is.
BY_NUMBER = "invitation {}"


class FirstPasswordForm(PasswordForm):
    """A new password, typed twice."""

    password = PasswordField(
        label=gettext_lazy("Password"), max_length=4096, help_text=gettext_lazy("Use at least 10 characters.")
    )
    again = PasswordField(label=gettext_lazy("Password (again)"), max_length=4096)
    languages = OwnLanguagesField()

    def __init__(self, data: QueryDict | None, *, user: User) -> None:
        super().__init__(data, user=user)
        self.fields["password"].widget.attrs["autofocus"] = True
        if user.role != UserRole.PHYSICIAN or user.languages:
            del self.fields["languages"]

    def clean_again(self) -> str:
        again: str = self.cleaned_data["again"]
        if self.cleaned_data.get("password", again) != again:
            raise forms.ValidationError(gettext("The two passwords differ."))
        return again


@require_GET
def invitation(request: HttpRequest, person_id: int, token: str) -> HttpResponse:
    """Move the token into a cookie for the password page alone, and redirect there.

    So the address of that page has no secret. Nothing is checked or used up here, because programs
    that scan the links of a message open this address, too.
    """
    response = redirect("first-password")
    response.set_cookie(
        COOKIE,
        signing.dumps([person_id, token]),
        max_age=MINUTES * 60,
        path=reverse("first-password"),
        secure=request.is_secure(),
        httponly=True,
        samesite="Lax",
    )
    return response


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def first_password(request: HttpRequest) -> HttpResponse:
    """Ask for the password, set it, and sign in. An invalid link counts as a failed sign-in."""
    person_id, token = _cookie_token(request)
    if not token:
        raise InvitationInvalid
    user = User.objects.filter(pk=person_id).first()
    attempted = User(username=BY_NUMBER.format(person_id))
    with signatures.count_refusals(request, attempted, InvitationInvalid()):
        if user is None or not invitations.is_valid(user, token):
            raise InvitationInvalid
    form = FirstPasswordForm(posted_data(request), user=user)
    if not form.is_valid():
        context = {"form": form, "invited": user}
        return render_form(request, "account/first_password.html", context, refused=form.is_bound)
    languages = form.cleaned_data.get("languages", [])
    user = accounts.accept_invitation(user.pk, token, form.cleaned_data["password"], languages)
    response: HttpResponse = perform_login(request, user, email_verification="none")
    response.delete_cookie(COOKIE, path=reverse("first-password"), samesite="Lax")
    return response


def _cookie_token(request: HttpRequest) -> tuple[int, str]:
    """(account id, token) from the cookie; (0, '') without a valid cookie."""
    try:
        person_id, token = signing.loads(request.COOKIES.get(COOKIE, ""), max_age=MINUTES * 60)
    except signing.BadSignature:
        return 0, ""
    return int(person_id), str(token)
