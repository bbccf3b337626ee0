"""Bulk actions of admins on cases: each applies a service of a single case row by row."""

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
    """The physician for whom the next open role is reserved."""

    physician = forms.ModelChoiceField(User.objects.none(), label=_("Physician"), required=True)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["physician"].queryset = people_queries.reviewers()  # type: ignore[attr-defined]


class SpecialtyForm(forms.Form):
    """The specialty that reviewers need; empty for any."""

    specialty = forms.CharField(label=_("Specialty"), max_length=100, required=False)


class LanguageForm(forms.Form):
    """The language that reviewers must read; empty for any."""

    language = forms.RegexField(
        LANGUAGE_CODE,
        label=_("Language"),
        max_length=16,
        required=False,
        error_messages={"invalid": _("Enter a language code, for example en or zh.")},
    )


class ReasonForm(WithdrawForm):
    """A reason in a one-line field, which fits into a list."""

    reason = forms.CharField(label=_("Reason"), max_length=2000)


def case_actions(case_of: Callable[[int], int] = int) -> tuple[Action, ...]:
    """The bulk actions on cases. `case_of` maps the key of a row to the key of its case."""
    Act = Callable[[int, User, Mapping[str, Any]], object]

    def on_case(act: Act) -> Act:
        return lambda key, actor, data: act(case_of(key), actor, data)

    return (
        Action(
            "reserve",
            _("Reserve"),
            on_case(lambda key, actor, data: claims.reserve(key, to=data["physician"], actor=actor)),
            ReserveForm,
        ),
        Action(
            "prioritise",
            _("Set priority"),
            on_case(lambda key, actor, data: services.prioritise(key, actor=actor, priority=data["priority"])),
            PriorityForm,
        ),
        Action(
            "specialty",
            _("Set specialty"),
            on_case(lambda key, actor, data: services.set_specialty(key, data["specialty"], actor=actor)),
            SpecialtyForm,
        ),
        Action(
            "language",
            _("Set language"),
            on_case(lambda key, actor, data: services.set_language(key, data["language"], actor=actor)),
            LanguageForm,
        ),
        Action(
            "withdraw",
            _("Withdraw"),
            on_case(lambda key, actor, data: services.withdraw(key, actor=actor, reason=data["reason"])),
            ReasonForm,
        ),
    )


ACTIONS = case_actions()
