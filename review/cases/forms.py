"""Forms of the admin pages on cases, and the bulk actions that use them."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from review.assignments import reassignment
from review.assignments.annotation_formats import ARGILLA, LABEL_STUDIO
from review.cases import queries, services
from review.common.lists import ALL, BulkAction, Filters, any_of
from review.common.row_fields import GrowingForm, RowsField
from review.labels import CASE_STATES, benchmark_label, language_label
from review.models import Case
from review.people import queries as people_queries
from review.rules import limits

LANGUAGE_CODE = r"^[a-z]{2,3}$"  # ISO 639
TOOL_LABELS = [(LABEL_STUDIO, "Label Studio"), (ARGILLA, "Argilla")]
STATES = [ALL, *CASE_STATES.items(), (queries.IDLE, gettext_lazy("no activity for a week"))]


class WithdrawForm(forms.Form):
    """The reason for withdrawing a case."""

    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2000, widget=forms.Textarea(attrs={"rows": 3}))


class PriorityForm(forms.Form):
    """The priority of a case; cases with a higher one are assigned first."""

    priority = forms.IntegerField(
        label=gettext_lazy("Priority"), min_value=limits.LEAST_PRIORITY, max_value=limits.MOST_PRIORITY
    )


class ReserveForm(forms.Form):
    """The physician for whom the next open role is reserved."""

    to = forms.ModelChoiceField(
        people_queries.reviewers(),
        label=gettext_lazy("Physician"),
        help_text=gettext_lazy("Not listed: who has not accepted the invitation yet."),
    )


class SpecialtyForm(forms.Form):
    """The specialty that reviewers need; empty for any."""

    specialty = forms.CharField(label=gettext_lazy("Specialty"), max_length=100, required=False)


class LanguageForm(forms.Form):
    """The language that reviewers must read; empty for any."""

    language = forms.RegexField(
        LANGUAGE_CODE,
        label=gettext_lazy("Language"),
        max_length=16,
        required=False,
        error_messages={"invalid": gettext_lazy("Enter a language code, for example en or zh.")},
    )


class ReasonForm(WithdrawForm):
    """A reason in a one-line field, which fits into a list."""

    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2000)


class AnnotationsForm(GrowingForm):
    """A file of annotations from another tool, and whose they are."""

    tool = forms.ChoiceField(label=gettext_lazy("Tool"), choices=TOOL_LABELS)
    file = forms.FileField(
        label=gettext_lazy("File"), max_length=300, help_text=gettext_lazy("The tool's export in JSON, at most 16 MB.")
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["accounts"] = RowsField(
            {
                "name": forms.CharField(label=gettext_lazy("Name in the tool"), max_length=200),
                "account": forms.ModelChoiceField(people_queries.reviewers(), label=gettext_lazy("Account")),
            },
            keys=1,
            label=gettext_lazy("Accounts of annotators"),
            help_text=gettext_lazy("Where the tool knows a physician by another name than the account's."),
        )

    @property
    def accounts(self) -> list[str]:
        """NAME=ACCOUNT each; only of a valid form."""
        return [f"{name}={account.username}" for name, account in self.cleaned_data["accounts"]]


class CaseFilters(Filters):
    """Filters of the list of cases."""

    text = forms.CharField(label=gettext_lazy("Title or sample"), required=False, widget=forms.SearchInput)
    state = forms.ChoiceField(label=gettext_lazy("Status"), required=False, choices=STATES)
    benchmark = any_of(
        gettext_lazy("Benchmark"), lambda: [(name, benchmark_label(name)) for name in queries.benchmarks()]
    )
    specialty = forms.ChoiceField(label=gettext_lazy("Specialty"), required=False)
    language = forms.ChoiceField(label=gettext_lazy("Language"), required=False)
    assignee = forms.ModelChoiceField(
        people_queries.active_physicians(), label=gettext_lazy("Assigned to"), required=False, empty_label=ALL[1]
    )
    kind = forms.ChoiceField(label=gettext_lazy("Kind"), required=False, choices=Case.Kind.choices)

    def full_clean(self) -> None:
        # Keep a value from the address as a choice even after its last open case has closed, so
        # that the list is then empty instead of unfiltered.
        specialties = [(name, name) for name in self._with_requested("specialty", queries.specialties())]
        self.fields["specialty"].choices = [ALL, *specialties]  # type: ignore[attr-defined]
        languages = [(code, language_label(code)) for code in self._with_requested("language", queries.languages())]
        self.fields["language"].choices = [ALL, *languages]  # type: ignore[attr-defined]
        super().full_clean()

    def _with_requested(self, name: str, known: list[str]) -> list[str]:
        requested = self.data.get(name, "")
        if not requested or requested in known:
            return known
        return [*known, requested]


def case_actions(case_of: Callable[[int], int] = int) -> tuple[BulkAction, ...]:
    """The bulk actions on cases. `case_of` maps the key of a row to the key of its case.

    A form has the service's values under their names.
    """

    def action(name: str, label: Promise, service: Callable[..., object], form: type[forms.Form]) -> BulkAction:
        return BulkAction(name, label, lambda key, actor, data: service(case_of(key), actor=actor, **data), form)

    return (
        action("reserve", gettext_lazy("Assign"), reassignment.reserve, ReserveForm),
        action("prioritise", gettext_lazy("Set priority"), services.prioritise, PriorityForm),
        action("specialty", gettext_lazy("Set specialty"), services.set_specialty, SpecialtyForm),
        action("language", gettext_lazy("Set language"), services.set_language, LanguageForm),
        action("withdraw", gettext_lazy("Withdraw"), services.withdraw, ReasonForm),
    )


ACTIONS = case_actions()
