"""The forms that sign in, and ask once more who is there."""

from typing import Any

from allauth.account.forms import LoginForm, ReauthenticateForm


class SignInForm(LoginForm):  # type: ignore[misc]
    """allauth's, with the focus in the name's field: there is nothing else to do on its page."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].widget.attrs["autofocus"] = True


class ConfirmPasswordForm(ReauthenticateForm):  # type: ignore[misc]
    """The same for the password, without a link to a reset that this site does not have."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].widget.attrs["autofocus"] = True
        self.fields["password"].help_text = ""
