"""The filters of the response browser."""

from collections.abc import Collection, Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from evaluation import registry
from evaluation.answers import queries
from evaluation.answers.search import MAX_LETTERS
from evaluation.labels import verdict_label
from evaluation.models import Run
from evaluation.numbers.report_numbers import POLARITIES
from evaluation.numbers.rules import POLARITY, UNJUDGED
from evaluation.protocol import FacetView
from evaluation.reports import queries as reports_queries
from evaluation.reports.figures import excluded_verdicts
from evaluation.runs import queries as runs_queries
from generation.models import Sample
from generation.samples import queries as samples_queries

ALWAYS_SHOWN = ("endpoint", "dataset", "value", "verdict")


def _values(view: FacetView, present: Collection[str], terms: Mapping[str, str]) -> list[tuple[str, str]]:
    if view.values:
        return [(value, gettext(label)) for value, label in view.values if value in present]
    values = []
    for value in present:
        label = ""
        if value in terms:
            label = gettext(terms[value])
        values.append((value, f"{value} {label}"))
    return values


class JudgmentFilters(forms.Form):
    """Filters for the judgments of a run. Unknown values are ignored.

    A URL may name a `facet` beside `value`, for values that several facets share.
    """

    endpoint = forms.ChoiceField(label=_("Model"), required=False)
    dataset = forms.ChoiceField(label=_("Data set"), required=False)
    value = forms.ChoiceField(label=_("Breakdown"), required=False)
    verdict = forms.ChoiceField(label=_("Verdict"), required=False)
    outcome = forms.ChoiceField(label=_("Outcome"), required=False)
    severity = forms.ChoiceField(label=_("Harm"), required=False)
    judges = forms.ChoiceField(label=_("Panel"), required=False)
    text = forms.CharField(
        label=_("Search text"),
        required=False,
        max_length=MAX_LETTERS,
        widget=forms.TextInput(attrs={"type": "search"}),
    )
    arm = forms.ChoiceField(label=_("Samples"), required=False)

    def __init__(self, *args: Any, run: Run, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._counts = run.release.counts
        protocol = registry.protocol(run.release.benchmark)
        terms = samples_queries.term_labels(run.release.benchmark)
        groups: list[tuple[str, Any]] = []
        severities: list[Any] = []
        for view in protocol.facets:
            values_of = _values(view, self._counts.get(view.name, {}), terms)
            groups.append((gettext(view.label), values_of))
            if view.name == queries.SEVERITY:
                severities = values_of
        if polarities := reports_queries.polarities(run):
            groups.append((gettext(POLARITIES.label), _values(POLARITIES, polarities, terms)))
        self._polarities = polarities
        words = (*protocol.known_verdicts, UNJUDGED)
        verdicts: list[tuple[str, Any]] = [(word, verdict_label(word, protocol)) for word in words]
        # The choices so far. A choice of several verdicts is joined by commas.
        offered = set[str](words)
        for rate in protocol.rates:
            parts = [
                (",".join(sorted(rate.hits)), gettext("numerator")),
                (",".join(sorted(rate.counted)), gettext("counted")),
                (",".join(excluded_verdicts(protocol, rate)), gettext("excluded")),
            ]
            new = [part for part in parts if part[0] not in offered]
            if new:
                verdicts.append((gettext(rate.label), new))
                offered.update(dict(new))
        judges, arms = list[Any](), list[Any]()
        if run.panel:
            judges = [(queries.DISAGREE, _("judges disagree"))]
        if reports_queries.has_controls(run):
            arms = Sample.Arm.choices
        choices: dict[str, list[Any]] = {
            "endpoint": [(endpoint.name, endpoint.name) for endpoint in run.endpoints.all()],
            "dataset": [(dataset.name, gettext(dataset.label)) for dataset in runs_queries.data_sets_of(run)],
            "value": groups,
            "verdict": verdicts,
            "outcome": queries.outcomes(run),
            "judges": judges,
            "arm": arms,
            "severity": severities,
        }
        for field, values in choices.items():
            if values or field in ALWAYS_SHOWN:
                self.fields[field].choices = [("", _("all")), *values]  # type: ignore[attr-defined]
            else:
                del self.fields[field]  # the run has nothing to filter by it

    @property
    def chosen(self) -> dict[str, str]:
        """The arguments of `evaluation.answers.queries.judgments`."""
        self.is_valid()
        value = self.cleaned_data.get("value", "")
        named = self.data.get("facet", "")
        known = {**self._counts, POLARITY: self._polarities}
        facets = []
        for name, values in known.items():
            if value and value in values:
                facets.append(name)
        facet = ""
        if named in facets:
            facet = named
        elif facets:
            facet = facets[0]
        return {**self.cleaned_data, "facet": facet}
