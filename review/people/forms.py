"""Forms of the pages about people."""

from typing import Any

from django import forms
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import get_language, get_language_info, gettext, gettext_lazy, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from review.cases import queries
from review.common.language_names import language_code
from review.common.lists import ALL, Filters
from review.labels import STAGES, USER_ROLES
from review.models import User
from review.models.people import split_list
from review.people.accounts import CHANGEABLE
from review.people.roster import MAX_BYTES, is_language_code
from review.rules.case_spec import UNDETERMINED
from review.rules.permissions import UserRole
from review.rules.state_machine import State


class PasswordField(forms.CharField):
    """A new password, which is kept as it is typed."""

    def __init__(self, **options: Any) -> None:
        widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
        super().__init__(strip=False, widget=widget, **options)


class PasswordForm(forms.Form):
    """A password set by an admin; the rules of `AUTH_PASSWORD_VALIDATORS` apply."""

    password = PasswordField(
        label=gettext_lazy("Password"),
        help_text=gettext_lazy(
            "Use at least 10 characters. Share the password in person; it can be changed after sign-in."
        ),
    )

    def __init__(self, data: QueryDict | None = None, *, user: User) -> None:
        self.user = user
        super().__init__(data)

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        validate_password(password, self.user)
        return password


class LanguagesField(forms.CharField):
    """A list of ISO 639 codes, typed with commas between them."""

    def __init__(self) -> None:
        super().__init__(
            label=gettext_lazy("Languages"),
            required=False,
            help_text=gettext_lazy(
                "Comma-separated language codes, for example: en, zh. Leave empty for any language."
            ),
        )

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, list):
            return ", ".join(value)
        return value

    def clean(self, value: Any) -> list[str]:
        codes = list(dict.fromkeys(map(language_code, split_list(super().clean(value)))))
        if invalid := [code for code in codes if not is_language_code(code)]:
            raise ValidationError(
                gettext("Not a language code: %(code)s"), code="language", params={"code": ", ".join(invalid)}
            )
        return codes


class OwnLanguagesField(forms.MultipleChoiceField):
    """The languages in which somebody reviews, asked of a new physician. The page's is chosen."""

    def __init__(self) -> None:
        super().__init__(
            label=gettext_lazy("Languages in which you review"),
            required=False,
            choices=_language_choices,
            initial=lambda: [_page_language()],
            widget=forms.CheckboxSelectMultiple,
            help_text=gettext_lazy("You are offered cases in these languages only; without a choice, in any language."),
        )


def _page_language() -> str:
    return (get_language() or "en").partition("-")[0]


def _language_choices() -> list[tuple[str, str]]:
    codes = {_page_language(), "en", "zh", *queries.languages()} - {UNDETERMINED}
    return [(code, _language_name(code)) for code in sorted(codes)]


def _language_name(code: str) -> str:
    if code == "zh":
        return "中文"  # Django knows its two scripts only
    try:
        return str(get_language_info(code)["name_local"])
    except KeyError:
        return code


class OwnLanguagesForm(forms.Form):
    """The languages of a physician who set no password here, such as one from single sign-on."""

    languages = OwnLanguagesField()


class AboutForm(forms.ModelForm[User]):
    """The profile of a physician, which decides which cases the person is offered."""

    languages = LanguagesField()
    stages = forms.MultipleChoiceField(
        label=gettext_lazy("Stages"),
        required=False,
        choices=[(state.value, STAGES[state]) for state in State if not state.final],
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("Stages that this physician reviews. Leave all unchecked for any stage."),
    )
    daily_cap = forms.IntegerField(
        label=gettext_lazy("Daily case limit"),
        required=False,
        min_value=1,
        max_value=1000,
        help_text=gettext_lazy(
            "No more cases are assigned after this many answered cases in one day (UTC). Leave empty for no limit."
        ),
    )

    class Meta:
        model = User
        fields = list(CHANGEABLE)
        labels = {
            "email": _("E-mail"),
            "institution": _("Institution"),
            "hospital": _("Hospital"),
            "specialty": _("Specialties"),
            "senior": _("Senior physician"),
        }
        help_texts = {
            "specialty": _("Several with commas between. Leave empty for cases of any specialty."),
            "senior": _("May decide where the policy of a case asks for senior physicians."),
        }

    def clean_specialty(self) -> str:
        return ", ".join(split_list(self.cleaned_data["specialty"]))


class PersonForm(AboutForm):
    """A new account, created by an admin with an initial password or an invitation."""

    role = forms.ChoiceField(label=gettext_lazy("Role"), choices=list(USER_ROLES.items()))
    password = PasswordField(
        label=gettext_lazy("Initial password"),
        required=False,
        help_text=gettext_lazy("Leave empty to get an invitation link, with which the person sets the password."),
    )

    class Meta(AboutForm.Meta):
        fields = ["username", "first_name", "last_name", "role", *AboutForm.Meta.fields[2:]]

    def clean_username(self) -> str:
        """Refuse a name that has an account, as when the page with an invitation is reloaded."""
        username: str = self.cleaned_data["username"]
        existing = User.objects.filter(username=username).first()
        if existing is None:
            return username
        page = reverse("review:person", args=[existing.pk])
        refusal = gettext("The account %(name)s exists already. Open it to change it or to invite its owner again.")
        raise ValidationError(format_html('<a href="{}">{}</a>', page, refusal % {"name": existing.username}))

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # fills self.instance, against which the password is validated
        password = self.cleaned_data.get("password")
        if password:
            try:
                validate_password(password, self.instance)
            except ValidationError as error:
                self.add_error("password", error)


class PeopleFilters(Filters):
    """Filters of the list of accounts."""

    text = forms.CharField(label=_("Name or hospital"), required=False, widget=forms.SearchInput)
    role = forms.ChoiceField(
        label=_("Role"), required=False, choices=[ALL, *((role.value, USER_ROLES[role]) for role in UserRole)]
    )
    specialty = forms.CharField(label=_("Specialty"), required=False, max_length=100)
    status = forms.ChoiceField(
        label=_("Status"),
        required=False,
        choices=[
            ALL,
            ("active", _("active")),
            ("invited", _("invited")),
            ("paused", _("paused")),
            ("closed", _("closed")),
        ],
    )


class RosterForm(forms.Form):
    """A file of people: uploaded for the preview, whose form then sends its text again."""

    file = forms.FileField(
        label=_("CSV file"),
        widget=forms.FileInput(attrs={"accept": ".csv,text/csv"}),
        help_text=_(
            "First row: name, role, specialties, languages, institution, hospital, email, senior; only name is required. "
            "Separate several specialties or languages with semicolons. Senior: yes or no."
        ),
    )
    name = forms.CharField(required=False, max_length=200, widget=forms.HiddenInput)
    text = forms.CharField(required=False, strip=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["file"].required = not self.data.get("text")

    def clean(self) -> dict[str, Any]:
        """`name` and `data` of the uploaded file, or of the text that the preview sends."""
        upload = self.cleaned_data.get("file")
        if "file" in self.errors:
            return {}
        if upload is None:
            return {"name": self.cleaned_data.get("name", ""), "data": self.cleaned_data["text"].encode()}
        return {"name": upload.name, "data": upload.read(MAX_BYTES + 1)}


KEYS: dict[str, Promise] = {
    "n": _("Next question"),
    "p": _("Previous question"),
    "a": _("Mark the rest adequate"),
    "e": _("Add source"),
    "q": _("Cite selected text"),
    "i": _("Add rubric"),
    "]": _("Next change"),
    "[": _("Previous change"),
    "t": _("Next trap"),
    "v": _("As shown"),
    "c": _("Changes"),
    "s": pgettext_lazy("of a changed text", "Source"),
    "r": _("Comment"),
    "h": _("Guideline for this stage"),
    "b": _("Return to queue"),
    "z": _("Undo submission"),
    "m": _("Select words"),
}


class KeysForm(forms.Form):
    """The user's single-key shortcuts: switched off, or with other keys than the default ones."""

    on = forms.BooleanField(label=_("Use single-key shortcuts"), required=False)

    def __init__(self, data: QueryDict | None = None, *, user: User) -> None:
        super().__init__(data, initial={"on": not user.keys_off})
        for number, (key, label) in enumerate(KEYS.items()):
            self.fields[f"key-{number}"] = forms.CharField(
                label=str(label),
                initial=user.keys.get(key, key),
                max_length=1,
                widget=forms.TextInput(attrs={"size": 2, "autocomplete": "off", "autocapitalize": "off"}),
            )

    def clean(self) -> dict[str, Any]:
        typed = {key: self.cleaned_data.get(f"key-{number}", key).lower() for number, key in enumerate(KEYS)}
        for number, key in enumerate(KEYS):
            if typed[key].isdigit() or typed[key] in "g?":
                self.add_error(f"key-{number}", gettext("This key is reserved: digits, g and ? have other uses."))
            elif list(typed.values()).count(typed[key]) > 1:
                self.add_error(f"key-{number}", gettext("Each action needs its own key."))
        changed = {key: chosen for key, chosen in typed.items() if chosen != key}
        return {"off": not self.cleaned_data["on"], "keys": changed}
