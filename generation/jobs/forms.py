"""Budget and launch forms for every kind of job."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Self

from django import forms
from django.conf import settings
from django.core.validators import RegexValidator
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from generation.jobs.endpoint_choices import EndpointChoice, EndpointChoices
from generation.jobs.settings import RECORDS, Budget, JobLimits, Setting, Settings, settings_of
from generation.models import Endpoint
from generation.models.jobs import Job
from review.common.row_fields import ADD_ROW, GrowingForm, RowsWidget

MAX_TEXTS = 2_000  # characters of a field with several texts
LAUNCH_KEY = "launch_key"  # a hidden field, new on each estimate page, so that a double click launches once
BUDGET = tuple(Budget.model_fields)


class TextsField(forms.CharField):
    """Several texts, separated by commas."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return ", ".join(value)
        return value

    def clean(self, value: Any) -> Any:
        parts = map(str.strip, super().clean(value).split(","))
        return [part for part in parts if part]


def form_field(each: Setting) -> forms.Field:
    """The form field of a setting."""
    common: dict[str, Any] = {"label": each.label, "help_text": each.help, "required": each.required}
    if each.many:
        return _list_field(each, common)
    if each.kind is Endpoint:
        return EndpointChoice(**common)
    common["initial"] = each.default
    if each.choices is not None:
        return forms.ChoiceField(choices=each.choices, **common)
    if each.kind is bool:
        return forms.BooleanField(**common)
    if each.kind is str:
        return _text_field(each, common)
    limits: dict[str, Any] = {"min_value": each.bounds.get("ge"), "max_value": each.bounds.get("le")}
    if each.kind is Decimal:
        return forms.DecimalField(max_digits=14, decimal_places=4, **limits, **common)
    if each.kind is int:
        return forms.IntegerField(**limits, **common)
    return forms.FloatField(**limits, **common)


def _list_field(each: Setting, common: dict[str, Any]) -> forms.Field:
    if each.kind is Endpoint:
        return EndpointChoices(**common)
    if each.choices is not None:
        return forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, choices=each.choices, **common)
    common["help_text"] = format_lazy("{} {}", _("Separate several by commas."), each.help)
    return TextsField(max_length=min(each.bounds.get("max_length", 0) * each.entries, MAX_TEXTS), **common)


def _text_field(each: Setting, common: dict[str, Any]) -> forms.Field:
    if each.asked.rows:
        common["widget"] = forms.Textarea(attrs={"rows": each.asked.rows})
    if "pattern" in each.bounds:
        common["validators"] = [RegexValidator(each.bounds["pattern"])]
    return forms.CharField(max_length=each.bounds.get("max_length"), **common)


class SettingsForm(forms.Form):
    """A form with a field for each setting of `settings_class`; fields that differ are declared."""

    settings_class: ClassVar[type[Settings]]
    omitted: ClassVar[tuple[str, ...]] = ()  # settings that the form does not ask for

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields = {}
        for each in settings_of(self.settings_class):
            if each.name not in self.omitted:
                fields[each.name] = self.fields.get(each.name) or form_field(each)
                fields[each.name].label = each.label  # type: ignore[assignment]  # as Django takes lazy texts
        self.fields = {**fields, **self.fields}
        self.order_fields(self.field_order)

    @property
    def values(self) -> dict[str, Any]:
        """The settings that a valid form gives; the others have their defaults."""
        given = {}
        for name in self.settings_class.model_fields:
            value = self.cleaned_data.get(name)
            if isinstance(value, QuerySet):
                value = list(value)
            if value is not None and value != "":
                given[name] = value
        return given

    @property
    def settings(self) -> Any:
        """The settings of a valid form."""
        return self.settings_class(**self.values)


class BudgetForm(SettingsForm):
    """The budget of a job: its cost and its number of calls."""

    settings_class = Budget

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if settings.MHB_CURRENCY:
            cost = self.fields["budget_money"]
            cost.label = f"{cost.label} ({settings.MHB_CURRENCY})"


class LimitsForm(BudgetForm):
    """What may be changed while a job runs: its budget, its priority, its worker processes."""

    settings_class = JobLimits

    @classmethod
    def for_job(cls, job: Job) -> Self:
        return cls(initial={name: getattr(job, name) for name in JobLimits.model_fields})


@dataclass(frozen=True, slots=True)
class FormStep:
    """A step of a launch form. `folded`: behind *Advanced settings*; `open`: these are shown."""

    title: Promise
    fields: list[forms.BoundField]
    folded: list[forms.BoundField] = field(default_factory=list)
    open: bool = False


class SpendingForm(GrowingForm, SettingsForm):
    """A launch form, in two steps: records and models. The estimate's page asks for the budget.

    Its settings are to be estimated or, with a budget, launched.
    """

    omitted = BUDGET
    records_title: ClassVar[Promise] = _("Records")
    also_records: ClassVar[tuple[str, ...]] = ()  # fields of the first step that are no settings by themselves
    shown: ClassVar[tuple[str, ...]] = ()  # optional fields that are not folded away

    @property
    def steps(self) -> list[FormStep]:
        """Records and models."""
        of_settings = {each.name for each in settings_of(self.settings_class) if each.asked.section == RECORDS}
        records = [name for name in self.fields if name in {*of_settings, *self.also_records}]
        models = [name for name in self.fields if name not in records]
        return [self._step(self.records_title, records), self._step(_("Models"), models)]

    def _step(self, title: Promise, names: list[str]) -> FormStep:
        """A step whose optional fields are folded away, unless they are to be shown."""
        folded = [name for name in names if self._is_folded(name)]
        fields = [self[name] for name in names if name not in folded]
        growing = self.data.get(ADD_ROW) in folded
        changed = growing or any(self[name].errors or self._differs(self[name]) for name in folded)
        return FormStep(title, fields, [self[name] for name in folded], changed)

    def _is_folded(self, name: str) -> bool:
        return not self.fields[name].required and name not in self.shown and not self[name].is_hidden

    @staticmethod
    def _differs(field: forms.BoundField) -> bool:
        """Whether a field has another value than the default one."""
        return (field.value() or "") not in ((default := field.field.initial) or "", str(default))

    def _offer(self, name: str, choices: Sequence[Any], *, is_offered: bool = True) -> None:
        """Offer these choices of a setting, or do not ask for it."""
        if is_offered:
            self.fields[name].choices = choices  # type: ignore[attr-defined]
        else:
            del self.fields[name]

    @property
    def carried(self) -> list[tuple[str, str]]:
        """The submitted values, which the estimate page submits again."""
        if not isinstance(self.data, QueryDict):
            return []
        carried = []
        for field_name, form_field in self.fields.items():
            names: Iterable[str] = [field_name]
            if isinstance(form_field.widget, RowsWidget):
                names = form_field.widget.names(field_name)
            for name in names:
                carried += [(name, value) for value in self.data.getlist(name)]
        return carried
