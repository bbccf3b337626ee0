"""Forms of budgets and spending, for every kind of job."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from generation.jobs.estimate import Estimate
from generation.jobs.life_cycle import MOST_CALLS
from generation.models.jobs import Job
from review.labels import labelled

BUDGET = ("budget_money", "budget_calls")
LAUNCH_KEY = "launch_key"  # a hidden field of the estimate's page, another each time: pressed twice it launches once


class BudgetForm(forms.Form):
    """What the calls of a job may cost, and how many there may be."""

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
        max_value=MOST_CALLS,
        help_text=_("Retries and repairs count. Leave empty for no limit."),
    )

    @property
    def said(self) -> str:
        """What is wrong with it, in one line."""
        return " ".join(labelled(self[name].label, " ".join(map(str, wrong))) for name, wrong in self.errors.items())

    @classmethod
    def of(cls, job: Job) -> Self:
        """The budget of a job, to be changed."""
        return cls(initial={"budget_money": job.budget_money, "budget_calls": job.budget_calls})

    @classmethod
    def proposed(cls, estimate: Estimate, typed: Mapping[str, Any]) -> Self:
        """The budget that goes with an estimate: what was typed, else what is proposed."""
        given = {name: typed.get(name) for name in BUDGET}
        if given == dict.fromkeys(BUDGET):
            given = {"budget_money": estimate.budget_money, "budget_calls": estimate.budget_calls}
        return cls(initial=given)


class SpendingForm(BudgetForm):
    """A launch form. A launch is three steps: records, models, and limits, which are confirmed beside the estimate.

    `records`: the fields of the first step, in their order; the second has the others.
    """

    records: ClassVar[tuple[str, ...]] = ()

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
        """The budget, where what was typed is wrong; else the page of the estimate asks for it."""
        wrong = any(name in self.errors for name in BUDGET) if self.is_bound else False
        return [self[name] for name in BUDGET] if wrong else []

    @property
    def carried(self) -> list[tuple[str, str]]:
        """What was sent besides the budget, for the page of the estimate to send again."""
        if not isinstance(self.data, QueryDict):
            return []
        wanted = [name for name in self.fields if name not in BudgetForm.base_fields]
        return [(name, value) for name in wanted for value in self.data.getlist(name)]
