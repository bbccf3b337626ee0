"""The forms of run pages."""

from typing import Any

from django import forms
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from evaluation import errors, registry
from evaluation.models import MAX_SEED, Run
from evaluation.runs import queries
from evaluation.runs.plan import MAX_MINIMUM
from evaluation.runs.settings import RunSettings
from evaluation.statistics.intervals import MINIMUM
from generation.jobs.forms import SpendingForm
from generation.models import Endpoint, Release
from generation.prompts import queries as prompts_queries


class ReleaseField(forms.ModelChoiceField[Release]):
    """A choice of releases, labelled with their size, which determines the cost of a run."""

    def label_from_instance(self, obj: Release) -> str:
        samples = ngettext("%(n)d sample", "%(n)d samples", obj.samples_count) % {"n": obj.samples_count}
        rubrics = ngettext("%(n)d rubric", "%(n)d rubrics", obj.rubrics_count) % {"n": obj.rubrics_count}
        return f"{obj} ({samples}, {rubrics})"


class LaunchForm(SpendingForm):
    """The settings of a run: release, models under test, judges and plan."""

    records = ("release", "datasets", "seed", "answers")

    release = ReleaseField(label=_("Release"), queryset=Release.objects.order_by("-pk"))
    endpoints = forms.ModelMultipleChoiceField(
        label=_("Models to test"),
        queryset=Endpoint.objects.exclude(url="").order_by("name"),
        to_field_name="name",
        widget=forms.CheckboxSelectMultiple,
    )
    datasets = forms.MultipleChoiceField(
        label=_("Data sets"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_(
            "Each data set asks the question in a different way and costs one call per sample "
            "and model. Choose none to use all of them."
        ),
    )
    seed = forms.IntegerField(
        label=_("Seed"),
        required=False,
        initial=0,
        min_value=0,
        max_value=MAX_SEED,
        help_text=_("Fixes this benchmark's random choices. The same seed asks the same questions."),
    )
    judge = forms.ModelChoiceField(
        label=_("Judge"), queryset=Endpoint.objects.exclude(url="").order_by("name"), to_field_name="name"
    )
    further_judges = forms.ModelMultipleChoiceField(
        label=_("Further judges"),
        queryset=Endpoint.objects.exclude(url="").order_by("name"),
        to_field_name="name",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Each judge votes on every criterion. Choose none to let one judge decide."),
    )
    panel = forms.ChoiceField(
        label=_("Panel decision"),
        choices=Run.Panel.choices,
        initial=Run.Panel.MAJORITY,
        required=False,
        help_text=_("Without a majority a criterion stays unjudged. Used with several judges or several judgments."),
    )
    judgments = forms.IntegerField(
        label=_("Judgments per criterion"),
        required=False,
        initial=1,
        min_value=1,
        max_value=queries.MAX_REPEATS,
        help_text=_("How often each judge judges the same answer. The majority counts."),
    )
    answers = forms.IntegerField(
        label=_("Answers per question"),
        required=False,
        initial=1,
        min_value=1,
        max_value=queries.MAX_REPEATS,
        help_text=_("Several answers show how much a model's answers vary. Each costs a call and its judgments."),
    )
    judge_temperature = forms.FloatField(label=_("Judge temperature"), required=False, min_value=0, max_value=2)
    transport = forms.ChoiceField(
        label=_("Request mode"), choices=Run.Transport.choices, initial=Run.Transport.LIVE, required=False
    )
    sampling = forms.ChoiceField(
        label=_("Sampling (temperature, top_p, token limit)"),
        choices=Run.Sampling.choices,
        initial=Run.Sampling.PROTOCOL,
        required=False,
        help_text=_(
            "Choose endpoint settings for models that refuse the benchmark's settings or need more "
            "tokens to think than it allows. The numbers then no longer follow the published protocol."
        ),
    )
    judging = forms.ChoiceField(
        label=_("Judging"),
        choices=Run.Judging.choices,
        initial=Run.Judging.PER_RUBRIC,
        help_text=_(
            "One call per sample is cheaper, but a judge that sees all rubrics at once may decide differently."
        ),
    )

    prompts = forms.ChoiceField(
        label=_("Prompts"),
        required=False,
        help_text=_("A prompt set of your own replaces the benchmark's questions and the judge's prompts."),
    )
    preset = forms.ChoiceField(
        label=_("Counting rules"),
        required=False,
        help_text=_("How failures are counted. They also set the primary metric if you choose none."),
    )
    metric = forms.ChoiceField(
        label=_("Primary metric"),
        required=False,
        help_text=_("The analysis plan is frozen at launch. The report marks everything else as exploratory."),
    )
    minimum = forms.IntegerField(
        label=_("Samples needed for an interval"),
        required=False,
        initial=MINIMUM,
        min_value=MINIMUM,
        max_value=MAX_MINIMUM,
        help_text=_("Rates based on fewer samples are shown without an interval and are not drawn."),
    )
    comparisons = forms.CharField(
        label=_("Planned comparisons"),
        required=False,
        max_length=2000,
        help_text=_("MODEL:MODEL, separated by commas. Leave empty for every pair."),
    )
    outcomes = forms.CharField(
        label=_("Rules for responses without an answer or a verdict"),
        required=False,
        max_length=500,
        help_text=_(
            "OUTCOME=RULE, separated by commas; for example refused=excluded. Outcomes: refused, empty, filtered, cut_off, "
            "failed; of the judge: unparsed, judge_failed. Rules: judged, excluded, or a verdict. Leave empty for the "
            "benchmark's rules."
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.chosen = self._release()
        self._adapt(self.chosen)
        order = [
            "release",
            "endpoints",
            "datasets",
            "seed",
            "answers",
            "judge",
            "further_judges",
            "panel",
            "judgments",
            "judge_temperature",
            "judging",
            "sampling",
            "transport",
            "prompts",
            "preset",
            "metric",
            "minimum",
            "comparisons",
            "outcomes",
        ]
        self.order_fields(order)

    def _release(self) -> Release | None:
        """The chosen release, as far as it can be read before validation."""
        value = self.data.get("release") if self.is_bound else self.initial.get("release")
        if isinstance(value, Release):
            return value
        number = str(value or "")
        return Release.objects.filter(pk=int(number)).first() if number.isdecimal() and len(number) < 19 else None

    def _adapt(self, release: Release | None) -> None:
        """Adapt fields and choices to the benchmark of this release."""
        self.fields["judge_temperature"].help_text = _temperature_help()
        datasets = queries.data_sets_in(release) if release else ()
        if any(dataset.variant for dataset in datasets):
            self.fields["datasets"].choices = [  # type: ignore[attr-defined]
                (dataset.name, gettext(dataset.label)) for dataset in datasets
            ]
        else:
            del self.fields["datasets"], self.fields["seed"]
        protocol = registry.protocol(release.benchmark) if release else None
        own = prompts_queries.choices(release.benchmark) if release else []
        if own:
            choices = [("", gettext("default prompts")), *((name, name) for name in own)]
            self.fields["prompts"].choices = choices  # type: ignore[attr-defined]
        else:
            del self.fields["prompts"]
        rates = [(rate.name, gettext(rate.label)) for rate in protocol.rates] if protocol else []
        if protocol and protocol.presets:
            presets = [(name, gettext(preset.label)) for name, preset in protocol.presets.items()]
            self.fields["preset"].choices = presets  # type: ignore[attr-defined]
            rates = [("", gettext("Set by the counting rules")), *rates]
        else:
            del self.fields["preset"]
        self.fields["metric"].choices = rates  # type: ignore[attr-defined]
        if protocol and protocol.judge is None:
            for name in ("judge", "further_judges", "panel", "judgments", "judge_temperature", "judging"):
                del self.fields[name]

    @property
    def settings(self) -> RunSettings:
        """The settings to launch. Requires a valid form."""
        data = self.cleaned_data
        return RunSettings(
            release=data["release"],
            endpoints=list(data["endpoints"]),
            judge=data.get("judge"),
            further_judges=list(data.get("further_judges", ())),
            panel=data.get("panel") or Run.Panel.MAJORITY,
            judgments=data.get("judgments") or 1,
            answers=data.get("answers") or 1,
            judge_temperature=data.get("judge_temperature"),
            judging=data.get("judging", Run.Judging.PER_RUBRIC),
            transport=data["transport"],
            sampling=data.get("sampling") or Run.Sampling.PROTOCOL,
            seed=data.get("seed") or 0,
            variants=data.get("datasets", ()),
            prompts=data.get("prompts") or "",
            preset=data.get("preset") or "",
            metric=data.get("metric") or "",
            minimum=data.get("minimum") or MINIMUM,
            comparisons=_parts(data.get("comparisons", "")),
            outcomes=_parts(data.get("outcomes", "")),
            **{name: data[name] for name in SpendingForm.base_fields},
        )

    def clean_transport(self) -> str:
        """Live, unless batches are chosen; these need an endpoint that offers them."""
        transport: str = self.cleaned_data["transport"] or Run.Transport.LIVE
        endpoints = [*self.cleaned_data.get("endpoints", ()), self.cleaned_data.get("judge")]
        if transport == Run.Transport.BATCH and not any(endpoint and endpoint.batches for endpoint in endpoints):
            raise forms.ValidationError(str(errors.NoBatches()))
        return transport


def _parts(text: str) -> list[str]:
    return [part for part in (item.strip() for item in text.split(",")) if part]


def _temperature_help() -> str:
    """The help text with the published temperature of each benchmark that has a release."""
    names = Release.objects.order_by("benchmark").values_list("benchmark", flat=True).distinct()
    protocols = [registry.protocol(name) for name in names]
    published = [
        f"{gettext(protocol.label)}: {protocol.judge_temperature}"
        for protocol in protocols
        if protocol.judge_temperature is not None
    ]
    text = gettext("Leave empty for the published setting (%(settings)s).") % {"settings": "; ".join(published) or "–"}
    # Not inline: xgettext does not read f-strings.
    note = gettext("A temperature set on the judge's endpoint is used only where none is published.")
    return f"{text} {note}"
