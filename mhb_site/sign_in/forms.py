"""The sign-in form, and the form that asks for the password again."""

from typing import Any

from allauth.account.forms import LoginForm, ReauthenticateForm

from mhb_site.sign_in.sso import buttons


class SignInForm(LoginForm):  # type: ignore[misc]
    """allauth's form with the focus on the name, as the page has no other purpose."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].widget.attrs["autofocus"] = True

    def providers(self) -> list[tuple[str, str]]:
        """(name, address) of each provider through which people can sign in."""
        return buttons(self.request.GET.get("next", ""))


class ConfirmPasswordForm(ReauthenticateForm):  # type: ignore[misc]
    """allauth's form with the focus on the password, without the link to a reset page."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].widget.attrs["autofocus"] = True
        self.fields["password"].help_text = ""
