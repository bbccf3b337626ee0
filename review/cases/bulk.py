"""What admins do to many cases at once: the services of one case, row by row."""

from collections.abc import Callable, Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from review.assignments import claims
from review.cases import services
from review.cases.forms import LANGUAGE_CODE, PriorityForm, WithdrawForm
from review.common.lists import Action
from review.models import User
from review.people import queries as people_queries


class ReserveForm(forms.Form):
    """For whom the next open role is reserved."""

    physician = forms.ModelChoiceField(User.objects.none(), label=_("Physician"), required=True)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["physician"].queryset = people_queries.reviewers()  # type: ignore[attr-defined]


class SpecialtyForm(forms.Form):
    """The specialty asked for; empty for any."""

    specialty = forms.CharField(label=_("Specialty"), max_length=100, required=False)


class LanguageForm(forms.Form):
    """The language that reviewers have to read; empty for any."""

    language = forms.RegexField(
        LANGUAGE_CODE,
        label=_("Language"),
        max_length=16,
        required=False,
        error_messages={"invalid": _("Enter a language code, for example en or zh.")},
    )


class ReasonForm(WithdrawForm):
    """A reason in one line, as there is room in a list."""

    reason = forms.CharField(label=_("Reason"), max_length=2000)


def case_actions(case_of: Callable[[int], int] = int) -> tuple[Action, ...]:
    """The actions on cases; `case_of` leads from a row of the list to its case."""
    Act = Callable[[int, User, Mapping[str, Any]], object]

    def on_case(act: Act) -> Act:
        return lambda key, actor, said: act(case_of(key), actor, said)

    return (
        Action(
            "reserve",
            _("Reserve"),
            on_case(lambda key, actor, said: services.reserve(key, to=said["physician"], actor=actor)),
            ReserveForm,
        ),
        Action(
            "prioritise",
            _("Set priority"),
            on_case(lambda key, actor, said: services.prioritise(key, actor=actor, priority=said["priority"])),
            PriorityForm,
        ),
        Action(
            "specialty",
            _("Set specialty"),
            on_case(lambda key, actor, said: claims.set_specialty(key, said["specialty"], actor=actor)),
            SpecialtyForm,
        ),
        Action(
            "language",
            _("Set language"),
            on_case(lambda key, actor, said: claims.set_language(key, said["language"], actor=actor)),
            LanguageForm,
        ),
        Action(
            "withdraw",
            _("Withdraw"),
            on_case(lambda key, actor, said: services.withdraw(key, actor=actor, reason=said["reason"])),
            ReasonForm,
        ),
    )


ACTIONS = case_actions()
