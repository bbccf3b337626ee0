"""Forms of the pages on batches."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from generation.batches import launch
from generation.batches import queries as batches_queries
from generation.batches.draw import FIELDS, FIRST, RANDOM, STRATIFIED, draw_fields, draw_values
from generation.errors import WrongPlan, WrongSetting
from generation.jobs.endpoint_choices import EndpointChoice, EndpointChoices
from generation.jobs.forms import BUDGET, SpendingForm
from generation.models import Batch, Endpoint, Source
from generation.prompts import queries as prompts_queries
from generation.recipes import registry
from generation.recipes.forms import benchmark_choices
from generation.recipes.recipe import ModelRole, Recipe, Term, TrapPlan
from generation.samples import queries
from review.common.lists import Filters, any_of
from review.common.row_fields import RowsField


class BenchmarkAndSourceForm(forms.Form):
    """The benchmark and source of a new batch; they decide which roles the launch form asks for."""

    benchmark = forms.ChoiceField(label=_("Benchmark"), choices=benchmark_choices)
    source = forms.ModelChoiceField(label=_("Source"), queryset=Source.objects.none(), to_field_name="name")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["source"].queryset = Source.objects.filter(archived_at=None).order_by("name")  # type: ignore[attr-defined]
        benchmark = str(self["benchmark"].value() or "")
        left = {}
        if benchmark in dict(benchmark_choices()):
            left = batches_queries.unused_by_source(benchmark)
        self.fields["source"].label_from_instance = (  # type: ignore[attr-defined]
            lambda source: _with_records_left(source, left.get(source.pk, 0))
        )


class BatchFilters(Filters):
    """Which batches to list."""

    text = forms.CharField(label=_("Number or source"), required=False, widget=forms.SearchInput)
    benchmark = any_of(_("Benchmark"), benchmark_choices)
    status = any_of(_("Status"), lambda: [*Batch.Status.choices, (batches_queries.ARCHIVED, _("archived"))])


def _with_records_left(source: Source, left: int) -> str:
    """A source and how many of its records the benchmark has not used yet."""
    return ngettext("%(source)s (%(n)s record left)", "%(source)s (%(n)s records left)", left) % {
        "source": source.name,
        "n": number_format(left, force_grouping=True),
    }


SEVERAL_HELP = _("Choose one or more. Each record gets one draft per endpoint.")
NO_CHOICE = ("", "---------")
IN_ALL = "samples"  # in place of a trap: the number of samples that the targets are for


class BatchForm(SpendingForm):
    """The endpoint for each role of a recipe, the record limit, and how to make samples."""

    settings_class = launch.BatchSettings
    omitted = (*BUDGET, "benchmark", "source", "roles", "further_endpoints", "checks", "where", "changes")
    shown = ("preset", "limit", "plan")
    also_records = ("stratify_by", "targets")

    draw = forms.ChoiceField(
        required=False,
        choices=[
            (FIRST, _("in order of import")),
            (RANDOM, _("drawn at random")),
            (STRATIFIED, _("drawn at random, in proportion to the values of a field")),
        ],
    )
    stratify_by = forms.ChoiceField(
        label=_("Field for strata"), required=False, help_text=_("Only used by a draw in proportion to a field.")
    )
    plan = forms.ChoiceField(
        required=False,
        help_text=_("A preference for the generator. The record decides which traps fit."),
    )
    compare = forms.ChoiceField(
        required=False,
        help_text=_("Runs a second batch over the same records with different prompts."),
    )
    skip = forms.MultipleChoiceField(
        label=_("Skip these checks"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("All other checks run before physicians see a sample."),
    )

    def __init__(self, *args: Any, benchmark: str, source: Source, kinds: Collection[str], **kwargs: Any) -> None:
        """`kinds`: the kinds of the unused records; only the roles that these need are offered."""
        super().__init__(*args, **kwargs)
        self._benchmark, self._source = benchmark, source
        recipe = registry.recipe(benchmark)
        needed = registry.roles_for(benchmark, kinds or recipe.kinds)
        for role in needed:
            self.fields[f"role-{role.name}"] = _endpoint_field(benchmark, role)
        self._checking = [role for role in needed if role.checks and not (role.default or role.optional)]
        for role in self._checking:  # required by the checks that run, not by the browser
            self.fields[f"role-{role.name}"].widget.is_asked_for = True
        known = draw_fields(source)
        self.fields["stratify_by"].choices = _choices(known)  # type: ignore[attr-defined]
        self.fields["where"] = RowsField(
            {
                "field": forms.ChoiceField(label=_("Field"), choices=[NO_CHOICE, *_choices(known)]),
                "value": forms.CharField(label=_("Value"), max_length=launch.MAX_VALUE),
            },
            draw_values(source, known),
            label=_("Only records with"),
            help_text=_("Several values of a field: a record needs one of them. 'unknown': records without a value."),
        )
        self._offer_presets(recipe)
        plans = [(plan.name, registry.plan_label(benchmark, plan.name)) for plan in recipe.plans]
        self._offer("plan", [*plans, (registry.NO_PLAN, _("none"))], is_offered=bool(plans))
        terms = queries.terms(benchmark)
        if any(term.parent for term in terms):  # a plan is distributed over subtypes
            self.fields["targets"] = self._targets_field(terms)
        sets = _choices([*recipe.prompt_sets, *prompts_queries.choices(benchmark)])
        sets.insert(0, ("", _("default prompts")))
        self._offer("prompts", sets, is_offered=len(sets) > 1)
        compare_choices = [(f"={name}", label) for name, label in sets]  # "" compares nothing, "=" the default
        self._offer("compare", [("", _("nothing")), *compare_choices], is_offered=len(sets) > 1)
        checks = [(name, gettext(registry.check_label(benchmark, name))) for name in registry.check_names(benchmark)]
        self._offer("skip", checks, is_offered=bool(checks))
        self.order_fields(
            [
                *(f"role-{role.name}" for role in needed),
                "one_model",
                "preset",
                "changes",
                "limit",
                "draw",
                "stratify_by",
                "seed",
                "where",
                "again",
                "plan",
                "targets",
                "prompts",
                "compare",
                "skip",
            ]
        )

    def _offer_presets(self, recipe: Recipe) -> None:
        shown = "<span><strong>{}</strong><br><span class='quiet'>{}</span></span>"
        presets = []
        for preset in recipe.presets:
            label = format_html(shown, gettext(preset.label), gettext(preset.rule))
            presets.append((preset.name, label))
        self._offer("preset", presets, is_offered=bool(presets))
        if presets:
            field = cast("forms.ChoiceField", self.fields["preset"])
            field.initial, field.widget = presets[0][0], forms.RadioSelect(choices=presets)
            self.fields["changes"] = self._changes_field(recipe)

    def _changes_field(self, recipe: Recipe) -> RowsField:
        """Rows of a setting and its value, which is a word or JSON."""
        names = list(recipe.presets[0].values)
        settings = [(name, registry.setting_label(self._benchmark, name)) for name in names]
        known = []
        for name in names:
            known += [(_typed(value), name) for value in registry.known_values(self._benchmark, name)]
        return RowsField(
            {
                "name": forms.ChoiceField(label=_("Setting"), choices=[NO_CHOICE, *settings]),
                "value": forms.CharField(label=_("Value"), max_length=500),
            },
            list(dict.fromkeys(known)),
            keys=1,
            label=_("Overrides"),
            help_text=_("Override values of the preset. A list is written as [0.3, 0.7]."),
        )

    def _targets_field(self, terms: Iterable[Term]) -> RowsField:
        """Rows of a trap and its number of samples, by task if the benchmark has several."""
        traps = [(term.code, f"{term.code} {gettext(term.label)}") for term in terms]
        all_traps = (IN_ALL, _("all samples of the plan"))
        columns: dict[str, forms.Field] = {
            "trap": forms.ChoiceField(label=_("Trap"), choices=[NO_CHOICE, *traps, all_traps]),
            "samples": forms.IntegerField(label=_("Samples"), min_value=0, max_value=10**9),
        }
        if tasks := self._planned_tasks():
            labels = [(name, gettext(registry.task_label(name))) for name in tasks]
            choices = [("", _("all tasks")), *labels]
            columns = {"task": forms.ChoiceField(label=_("Task"), choices=choices, required=False), **columns}
        return RowsField(
            columns,
            keys=len(columns) - 1,
            label=_("Custom plan"),
            help_text=_("It replaces the plan above. A cluster's number is divided among its traps."),
        )

    def _planned_tasks(self) -> list[str]:
        """The tasks for which a plan may have targets of their own; none if there is only one."""
        kinds = sorted(registry.recipe(self._benchmark).kinds)
        if len(kinds) > 1:
            return kinds
        return []

    def get_initial_for_field(self, field: forms.Field, field_name: str) -> Any:
        """The initial value of a field; rows of overrides and targets from what a batch has."""
        value = super().get_initial_for_field(field, field_name)
        if field_name == "changes":
            return [(name, _typed(given)) for name, given in (value or {}).items()]
        if field_name == "targets":
            by_task = self._planned_tasks()
            rows: list[tuple[Any, ...]] = []
            for task, targets in (value or {}).items():
                for target in targets.items():
                    if by_task:
                        rows.append((task, *target))
                    else:
                        rows.append(target)
            return rows
        return value

    def clean_targets(self) -> TrapPlan | None:
        """The custom plan. Raises ValidationError if it is invalid."""
        targets: dict[str, dict[str, int]] = {}
        for *task, trap, samples in self.cleaned_data["targets"]:
            targets.setdefault("".join(task), {})[trap] = samples
        if not targets:
            return None
        plan: Mapping[str, Any] = targets
        if not any(targets):
            plan = targets[""]
        try:
            return registry.resolve_plan(self._benchmark, plan)
        except WrongPlan as mistake:
            raise ValidationError(str(mistake)) from mistake

    def clean_where(self) -> dict[str, list[str]]:
        """The filter: field -> values."""
        accepted: dict[str, list[str]] = {}
        for name, value in self.cleaned_data["where"]:
            accepted.setdefault(name, []).append(value)
        return accepted

    def clean(self) -> dict[str, Any]:
        """Ask for the endpoints of roles that only checks need, unless all of these are skipped."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        for role in self._checking:
            field = f"role-{role.name}"
            if role.checks.difference(data.get("skip", ())) and not data.get(field) and field not in self.errors:
                self.add_error(field, self.fields[field].error_messages["required"])
        return data

    def clean_changes(self) -> dict[str, Any]:
        """The overrides. Raises ValidationError for a value that the setting cannot have."""
        recipe = registry.recipe(self._benchmark)
        changes: dict[str, Any] = {}
        for name, text in self.cleaned_data["changes"]:
            if text in recipe.choices.get(name, ()):
                changes[name] = text
            else:
                changes[name] = registry.read_setting(text)
        try:
            registry.resolve_settings(self._benchmark, self.cleaned_data.get("preset", ""), changes)
        except WrongSetting as mistake:
            raise ValidationError(str(mistake)) from mistake
        return changes

    def _is_folded(self, name: str) -> bool:
        return super()._is_folded(name) and not name.startswith("role-")

    @property
    def carried(self) -> list[tuple[str, str]]:
        return [("benchmark", self._benchmark), ("source", self._source.name), *super().carried]

    @property
    def needs_endpoint(self) -> bool:
        """Whether any role must have an endpoint."""
        return any(field.required for name, field in self.fields.items() if name.startswith("role-"))

    @property
    def settings(self) -> launch.BatchSettings:
        """The settings to estimate or launch, without a budget. Requires a valid form."""
        data = self.cleaned_data
        plan = data.get("targets") or registry.plan(self._benchmark, data.get("plan", ""))
        checks = [name for name in registry.check_names(self._benchmark) if name not in data.get("skip", ())]
        compare = None
        if data.get("compare"):
            compare = data["compare"].removeprefix("=")
        endpoints: dict[str, Any] = {}
        for name, endpoint in data.items():
            if name.startswith("role-") and endpoint:
                endpoints[name.removeprefix("role-")] = endpoint
        further_endpoints: list[Endpoint] = []
        several = registry.recipe(self._benchmark).multiple_role
        if several in endpoints:
            endpoints[several], *further_endpoints = endpoints[several]
        draw = data["draw"]
        if draw == STRATIFIED:
            draw = f"{STRATIFIED}:{data['stratify_by'] or FIELDS[0]}"
        values = {
            "benchmark": self._benchmark,
            "source": self._source,
            "roles": endpoints,
            "further_endpoints": further_endpoints,
            "draw": draw,
            "where": data["where"],
            "plan": plan,
            "compare": compare,
            "changes": data.get("changes") or {},
            "checks": checks,
        }
        return launch.BatchSettings(**self.values | values)


def _choices(names: Iterable[str]) -> list[tuple[str, Any]]:
    """Choices whose labels are their values."""
    return [(name, name) for name in names]


def _endpoint_field(benchmark: str, role: ModelRole) -> EndpointChoice | EndpointChoices:
    """The field in which the endpoint of a role is chosen, or its endpoints."""
    required = not (role.default or role.optional or role.checks)
    if role.multiple:
        return EndpointChoices(label=gettext(role.label), required=required, help_text=SEVERAL_HELP)
    empty_label = _empty_label(benchmark, role)
    return EndpointChoice(label=gettext(role.label), required=required, empty_label=empty_label)


def _empty_label(benchmark: str, role: ModelRole) -> str:
    """The label for choosing no endpoint for a role."""
    if role.default:
        return gettext("same as role %(role)s") % {"role": registry.role_name(benchmark, role.default)}
    if role.optional:
        return gettext("none (this role is optional)")
    return NO_CHOICE[1]


def _typed(value: Any) -> str:
    """The value of a setting as it is typed: a word as it is, others as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value)
