"""Budget and launch forms for every kind of job."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from generation.jobs.estimate import Estimate
from generation.jobs.life_cycle import MAX_CALLS
from generation.models.jobs import Job
from review.labels import with_label

BUDGET = ("budget_money", "budget_calls")
LAUNCH_KEY = "launch_key"  # a hidden field, new on each estimate page, so that a double click launches once


class BudgetForm(forms.Form):
    """The budget of a job: its cost and its number of calls."""

    budget_money = forms.DecimalField(
        label=_("Cost budget"),
        required=False,
        min_value=0,
        max_digits=14,
        decimal_places=4,
        help_text=_(
            "In the currency of the endpoint prices. No new calls start once this amount is "
            "spent. Leave empty for no limit."
        ),
    )
    budget_calls = forms.IntegerField(
        label=_("Call budget"),
        required=False,
        min_value=0,
        max_value=MAX_CALLS,
        help_text=_("Retries and repairs count. Leave empty for no limit."),
    )

    @property
    def error_text(self) -> str:
        """All errors of the form, in one line."""
        return " ".join(
            with_label(self[name].label, " ".join(map(str, errors))) for name, errors in self.errors.items()
        )

    @classmethod
    def for_job(cls, job: Job) -> Self:
        """A form to change the budget of a job."""
        return cls(initial={"budget_money": job.budget_money, "budget_calls": job.budget_calls})

    @classmethod
    def for_estimate(cls, estimate: Estimate, typed: Mapping[str, Any]) -> Self:
        """A form beside an estimate: with the budget typed earlier, else the proposed one."""
        budget = {name: typed.get(name) for name in BUDGET}
        if budget == dict.fromkeys(BUDGET):
            budget = {"budget_money": estimate.budget_money, "budget_calls": estimate.budget_calls}
        return cls(initial=budget)


class SpendingForm(BudgetForm):
    """A launch form, in three steps: records, models, and limits beside the estimate.

    `records`: the fields of the first step in order; the second step has all others.
    """

    records: ClassVar[tuple[str, ...]] = ()

    first_only = forms.BooleanField(
        label=_("One record first"),
        required=False,
        help_text=_(
            "Pauses when the first record has ended, so that you can look at its result before the rest is paid for."
        ),
    )
    fresh = forms.BooleanField(
        label=_("Ignore cached replies"),
        required=False,
        help_text=_("If this is off, a request that the same model has already answered is not sent again."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in BUDGET:
            self.fields[name].help_text = _("If you leave both empty, the estimate on the next page suggests a budget.")

    @property
    def step_records(self) -> list[forms.BoundField]:
        return [self[name] for name in self.records if name in self.fields]

    @property
    def step_models(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in (*self.records, *BUDGET)]

    @property
    def step_limits(self) -> list[forms.BoundField]:
        """The budget if it has errors; otherwise the estimate page asks for it."""
        has_errors = any(name in self.errors for name in BUDGET) if self.is_bound else False
        return [self[name] for name in BUDGET] if has_errors else []

    @property
    def carried(self) -> list[tuple[str, str]]:
        """The submitted values without the budget, which the estimate page submits again."""
        if not isinstance(self.data, QueryDict):
            return []
        names = [name for name in self.fields if name not in BudgetForm.base_fields]
        return [(name, value) for name in names for value in self.data.getlist(name)]
