"""Forms for imports, added models and comparisons."""

from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from evaluation import registry
from evaluation.interchange.importing import StudySettings
from evaluation.models import PolicyAnswer, Run
from evaluation.policies import POLICIES
from evaluation.runs import adding
from evaluation.runs.forms import ReleaseField
from evaluation.runs.settings import MAX_POLICY_SAMPLES, POLICY_SAMPLES, RunSettings
from generation.jobs.forms import SettingsForm, SpendingForm
from generation.jobs.settings import Budget
from generation.models import Endpoint, Release

MAX_CHOICES = 200  # the newest runs are offered for comparison


class ImportResultsForm(SettingsForm):
    """A file of verdicts made elsewhere, with their release and study."""

    settings_class = StudySettings
    field_order = ("release", "study", "sha256", "file", "models")

    release = ReleaseField(queryset=Release.objects.order_by("-pk"))
    file = forms.FileField(
        label=_("File"),
        help_text=_(
            "JSON Lines or a CSV table with one verdict per line, a log of Inspect, the logged samples of lm-eval, or"
            " results of promptfoo, simple-evals, OpenAI Evals, Langfuse or LangSmith with verdicts on criteria."
        ),
    )


class AddModelForm(SpendingForm):
    """A model to add to a finished run."""

    settings_class = Budget

    endpoint = forms.ModelChoiceField(label=_("Model"), queryset=Endpoint.objects.none(), to_field_name="name")

    def __init__(self, *args: Any, run: Run, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._run = run
        available = Endpoint.objects.usable().exclude(pk__in=run.tested.values("endpoint"))
        self.fields["endpoint"].queryset = available  # type: ignore[attr-defined]

    @property
    def settings(self) -> RunSettings:
        """The settings of a run of this model alone. Raises what `adding.add_model` does."""
        return adding.check_model(self._run, self.cleaned_data["endpoint"])


class ChecksForm(SpendingForm):
    """How a finished run is to be checked: by fixed texts, and by asking or judging again."""

    settings_class = Budget
    shown = ("policies", "again", "samples")

    policies = forms.MultipleChoiceField(
        label=_("Fixed texts"),
        help_text=_(
            "Judged as if a model gave each of them to every question. A benchmark on which one wins can be beaten blindly."
        ),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    again = forms.MultipleChoiceField(
        label=_("Repeat"),
        help_text=_(
            "How often a verdict turns where only the asking changes. The numbers of the run stay as they are."
        ),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    samples = forms.IntegerField(
        label=_("Samples"),
        help_text=_("Drawn by the seed from each data set."),
        min_value=1,
        max_value=MAX_POLICY_SAMPLES,
        initial=POLICY_SAMPLES,
    )

    def __init__(self, *args: Any, run: Run, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._run = run
        protocol = registry.protocol(run.release.benchmark)
        texts = []
        for name in protocol.policies:
            if name not in run.policies:
                texts.append((name, gettext(POLICIES[name].label)))
        self._offer("policies", texts, is_offered=bool(texts and run.judge))
        if run.judge:
            kinds = PolicyAnswer.Again.choices
        else:
            kinds = [PolicyAnswer.Again.choices[0]]
        self._offer("again", kinds)

    def clean(self) -> dict[str, Any]:
        """Nothing chosen is no check."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if not data.get("policies") and not data.get("again"):
            raise forms.ValidationError(_("Choose a fixed text, or what to repeat."))
        return data

    @property
    def settings(self) -> adding.Checks:
        """The checks, without a budget."""
        data = self.cleaned_data
        policies = data.get("policies", ())
        return adding.Checks(run=self._run, policies=policies, again=data["again"], samples=data["samples"])


class CompareForm(forms.Form):
    """The run to compare with."""

    run = forms.ChoiceField(
        label=_("Compare with"),
        error_messages={
            "invalid_choice": _(
                "Run %(value)s cannot be compared with this one: it is the same, of another benchmark, or gone."
            )
        },
    )

    def __init__(self, *args: Any, of: Run, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        others = Run.objects.filter(release__benchmark=of.release.benchmark).exclude(pk=of.pk)
        newest = others.select_related("release").order_by("-pk")[:MAX_CHOICES]
        self.choices = [(str(run.pk), _title(run)) for run in newest]
        self.fields["run"].choices = self.choices  # type: ignore[attr-defined]


def _title(run: Run) -> str:
    title = gettext("Run %(n)s") % {"n": run.pk}
    title += f" · {run.release}"
    for name in (run.title, run.study):
        if name:
            title += f" · {name}"
    return title
