"""The forms of the admins' pages. What physicians answer is read by `review.sheet`."""

from typing import Any

from django import forms
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy
from django.utils.translation import gettext_lazy as _

from review.labels import FINDINGS, STAGES, VERDICTS
from review.machine import State, Verdict
from review.models import Declined, User
from review.permissions import UserRole
from review.questions import Answer, Answers, Form, RubricAnswer
from review.sheet import said


class WithdrawForm(forms.Form):
    """Why a case is taken away from the physicians."""

    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2000, widget=forms.Textarea(attrs={"rows": 3}))


class PriorityForm(forms.Form):
    """Cases of higher priority are handed out first."""

    priority = forms.IntegerField(label=gettext_lazy("Priority"), min_value=-100, max_value=100)


class PasswordForm(forms.Form):
    """A password that an admin types for somebody; the rules of `AUTH_PASSWORD_VALIDATORS` apply."""

    password = forms.CharField(
        label=gettext_lazy("Password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("At least 10 characters. Hand it over in person; it can be changed after sign-in."),
    )

    def __init__(self, data: QueryDict | None = None, *, user: User) -> None:
        self.user = user
        super().__init__(data)

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        validate_password(password, self.user)
        return password


class LanguagesField(forms.CharField):
    """ISO 639 codes with commas between, as a list."""

    def __init__(self) -> None:
        super().__init__(
            label=gettext_lazy("Languages"),
            required=False,
            help_text=gettext_lazy("Codes with commas between, such as: en, zh. Empty: any."),
        )

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        codes = [code.strip().lower() for code in super().clean(value).split(",") if code.strip()]
        if wrong := [code for code in codes if not (code.isascii() and code.isalpha() and 2 <= len(code) <= 3)]:
            raise ValidationError(
                gettext("Not a language code: %(code)s"), code="language", params={"code": ", ".join(wrong)}
            )
        return codes


class AboutForm(forms.ModelForm[User]):
    """What is recorded about a physician: it decides which cases the person is offered."""

    languages = LanguagesField()
    stages = forms.MultipleChoiceField(
        label=gettext_lazy("Stages"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("The stages this physician works in. None marked: any."),
    )
    daily_cap = forms.IntegerField(
        label=gettext_lazy("Cases a day"),
        required=False,
        min_value=1,
        max_value=1000,
        help_text=gettext_lazy(
            "No further case is handed out on a day (UTC) with so many answered ones. Empty: no limit."
        ),
    )

    class Meta:
        model = User
        fields = ["first_name", "last_name", "hospital", "specialty", "languages", "stages", "daily_cap"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["stages"].choices = [(s.value, STAGES[s]) for s in State if not s.final]  # type: ignore[attr-defined]
        self.fields["hospital"].label = gettext("Hospital")
        self.fields["specialty"].label = gettext("Specialty")
        self.fields["specialty"].help_text = gettext("Empty: cases of any specialty.")


class PersonForm(AboutForm):
    """A new account. Nobody signs up: admins make accounts and hand over the first password."""

    password = forms.CharField(
        label=gettext_lazy("First password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("At least 10 characters. Hand it over in person; it can be changed after sign-in."),
    )

    class Meta(AboutForm.Meta):
        fields = ["username", "first_name", "last_name", "role", *AboutForm.Meta.fields[2:]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        labels: dict[UserRole, Promise] = {
            UserRole.PHYSICIAN: _("Physician"),
            UserRole.RESEARCHER: _("Researcher"),
            UserRole.ADMIN: _("Admin"),
        }
        self.fields["role"] = forms.ChoiceField(
            label=gettext("Role"), choices=[(role.value, label) for role, label in labels.items()]
        )

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # fills self.instance, which the password is compared with
        password = self.cleaned_data.get("password")
        if password:
            try:
                validate_password(password, self.instance)
            except ValidationError as error:
                self.add_error("password", error)


class DeclineForm(forms.Form):
    """Why a physician will not take a case."""

    reason = forms.ChoiceField(label=gettext_lazy("Reason"), choices=Declined.Reason.choices, widget=forms.RadioSelect)
    text = forms.CharField(
        label=gettext_lazy("In your words"), required=False, max_length=2000, widget=forms.Textarea(attrs={"rows": 3})
    )


class ProblemForm(forms.Form):
    """What is wrong with a case."""

    text = forms.CharField(
        label=gettext_lazy("What is wrong"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("The admins are told. You keep the case, and can go on with it or give it back."),
    )


class ExpectedForm(forms.Form):
    """The known answers of a calibration case: the verdict, and a value for each question and rubric; blank is not asked."""

    def __init__(self, data: QueryDict | None = None, *, form: Form, expected: Answers) -> None:
        super().__init__(data)
        verdicts = [(value, VERDICTS[value]) for value in Verdict]
        self._add("verdict", gettext("Verdict"), verdicts, expected.verdict)
        for question in form.questions:
            choices = [(choice.value, said(choice.label)) for choice in question.choices]
            given = expected.questions.get(question.key, Answer())
            self._add(f"question.{question.key}", said(question.label), choices, given.value)
        for rubric in form.rubrics:
            finding = expected.rubrics.get(rubric.key, RubricAnswer())
            self._add(f"rubric.{rubric.key}", rubric.criterion, list(FINDINGS.items()), finding.value)

    def _add(self, name: str, label: str, choices: list[Any], value: str) -> None:
        self.fields[name] = forms.ChoiceField(
            label=label, choices=[("", gettext("not asked")), *choices], required=False, initial=value
        )

    def answers(self) -> Answers:
        """What was chosen, as answers."""
        chosen = self.cleaned_data

        def under(prefix: str) -> dict[str, str]:
            return {name.removeprefix(prefix): chosen[name] for name in self.fields if name.startswith(prefix)}

        return Answers(
            questions={key: Answer(value) for key, value in under("question.").items()},
            rubrics={key: RubricAnswer(value) for key, value in under("rubric.").items()},
            verdict=chosen["verdict"],
        )
