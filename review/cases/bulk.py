"""Bulk actions of admins on cases: each applies a service of a single case row by row."""

from collections.abc import Callable

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from review.assignments import reassignment
from review.cases import services
from review.cases.forms import LANGUAGE_CODE, PriorityForm, WithdrawForm
from review.common.lists import Action
from review.people import queries as people_queries


class ReserveForm(forms.Form):
    """The physician for whom the next open role is reserved."""

    to = forms.ModelChoiceField(people_queries.reviewers(), label=_("Physician"))


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
    """The bulk actions on cases. `case_of` maps the key of a row to the key of its case.

    A form has the service's values under their names.
    """

    def action(name: str, label: Promise, service: Callable[..., object], form: type[forms.Form]) -> Action:
        return Action(name, label, lambda key, actor, data: service(case_of(key), actor=actor, **data), form)

    return (
        action("reserve", _("Reserve"), reassignment.reserve, ReserveForm),
        action("prioritise", _("Set priority"), services.prioritise, PriorityForm),
        action("specialty", _("Set specialty"), services.set_specialty, SpecialtyForm),
        action("language", _("Set language"), services.set_language, LanguageForm),
        action("withdraw", _("Withdraw"), services.withdraw, ReasonForm),
    )


ACTIONS = case_actions()
