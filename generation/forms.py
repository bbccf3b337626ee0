"""What people type on the pages of generation, checked."""

import os
from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from generation import benchmarks, importers, queries
from generation.models import VARIABLE, Endpoint, Sample, Source
from generation.recipe import Recipe


def benchmark_choices() -> list[tuple[str, str]]:
    """(name, label) of every benchmark."""
    return [(name, gettext(benchmarks.recipe(name).label)) for name in benchmarks.names()]


def _formats() -> list[tuple[str, str]]:
    return [(name, importers.load(name).label) for name in importers.available()]


class ImportForm(forms.Form):
    """A file to be read into a source."""

    format = forms.ChoiceField(label=_("Format"), choices=_formats)
    name = forms.SlugField(
        label=_("Name of the source"),
        max_length=100,
        help_text=_(
            "Letters, digits and hyphens. An existing name adds the file to that source; nothing is added twice."
        ),
    )
    file = forms.FileField(label=_("File"), help_text=_("As its authors publish it, unpacked."))


class EndpointForm(forms.ModelForm[Endpoint]):
    """A model's address and settings."""

    url = forms.CharField(label=_("Base URL"), max_length=500, help_text=_("Up to and including /v1."))
    key_env = forms.RegexField(
        label=_("Variable that holds the key"),
        regex=VARIABLE,
        required=False,
        max_length=100,
        help_text=_("The NAME of an environment variable of the server, never the key itself. Empty: no key is sent."),
        error_messages={
            "invalid": _("This is no name of a variable: capitals, digits and underscores. Not the key itself.")
        },
    )

    class Meta:
        model = Endpoint
        fields = [
            "name",
            "url",
            "model",
            "key_env",
            "temperature",
            "max_tokens",
            "price_in",
            "price_out",
            "concurrency",
            "timeout",
            "batches",
        ]
        labels = {
            "name": _("Name"),
            "model": _("Model"),
            "temperature": _("Temperature"),
            "max_tokens": _("Max. tokens"),
            "price_in": _("Price in"),
            "price_out": _("Price out"),
            "concurrency": _("Concurrency"),
            "timeout": _("Time-out (s)"),
            "batches": _("Offers batches"),
        }
        help_texts = {
            "name": _("Letters, digits and hyphens; results name it."),
            "model": _("As the endpoint itself calls it."),
            "temperature": _("Empty: the model's own default."),
            "max_tokens": _("Empty: the model's own limit."),
            "price_in": _("Per million prompt tokens."),
            "price_out": _("Per million completion tokens."),
            "concurrency": _("Requests at the same time."),
            "batches": _("It speaks the batch protocol (files and batches): cheaper, and answered within a day."),
        }

    def __init__(self, *args: Any, called: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].disabled = self.instance.pk is not None
        for name in ("url", "model"):
            self.fields[name].disabled = called

    @property
    def key_state(self) -> str:
        """'set' or 'missing': whether this server's environment has the variable named; '' where none is."""
        return key_state(self.instance)


def key_state(endpoint: Endpoint) -> str:
    """'set' or 'missing' for the endpoint's variable in the environment of this process, '' where it names none."""
    if not endpoint.key_env:
        return ""
    return "set" if os.environ.get(endpoint.key_env, "").strip() else "missing"


class ChoiceOfWork(forms.Form):
    """What a batch is to be made of; its choice decides which roles are asked for."""

    benchmark = forms.ChoiceField(label=_("Benchmark"), choices=benchmark_choices)
    source = forms.ModelChoiceField(label=_("Source"), queryset=Source.objects.order_by("name"), to_field_name="name")


class LaunchForm(forms.Form):
    """The endpoint for each role of a recipe, and how many records."""

    limit = forms.IntegerField(
        label=_("At most so many records"), min_value=1, required=False, help_text=_("Empty: all that are left.")
    )

    def __init__(self, *args: Any, recipe: Recipe, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for role in recipe.roles:
            self.fields[f"role-{role.name}"] = forms.ModelChoiceField(
                label=gettext(role.label), queryset=Endpoint.objects.all(), to_field_name="name"
            )

    @property
    def roles(self) -> Mapping[str, Endpoint]:
        """The endpoints by role, of a valid form."""
        chosen = self.cleaned_data.items()
        return {name.removeprefix("role-"): endpoint for name, endpoint in chosen if name.startswith("role-")}


class SampleFilters(forms.Form):
    """Which samples to list; what is not understood is left out."""

    benchmark = forms.ChoiceField(label=_("Benchmark"), required=False)
    task = forms.ChoiceField(label=_("Task"), required=False)
    status = forms.ChoiceField(label=_("Status"), required=False, choices=[("", _("all")), *Sample.Status.choices])
    text = forms.CharField(label=_("Text"), required=False, widget=forms.SearchInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tasks = [(task, task) for task in queries.sample_tasks()]
        self.fields["benchmark"].choices = [("", _("all")), *benchmark_choices()]  # type: ignore[attr-defined]
        self.fields["task"].choices = [("", _("all")), *tasks]  # type: ignore[attr-defined]


class FreezeForm(forms.Form):
    """A release to be frozen."""

    name = forms.SlugField(
        label=_("Name"),
        max_length=100,
        help_text=_("Letters, digits and hyphens. A name that exists gets its next version."),
    )
    benchmark = forms.ChoiceField(label=_("Benchmark"), choices=benchmark_choices)
