"""The home page, the health check and the style guide."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _

from review.charts import bars, heat_map, radar
from review.rules.permissions import Can, allowed, may_read, may_request


@login_required
def home(request: HttpRequest) -> HttpResponse:
    """Redirect to the start page of the reader's role."""
    if allowed(request.user, Can.REVIEW):
        return redirect("review:workbench")
    return redirect("review:overview" if may_read(request.user, Can.OVERSEE) else "evaluation:runs")


def gone(request: HttpRequest, rest: str = "") -> HttpResponse:  # noqa: ARG001
    """404 for pages of allauth that we do not offer: only admins reset passwords."""
    raise Http404


def health(request: HttpRequest) -> JsonResponse:  # noqa: ARG001
    """For load balancers: the process responds and the database is reachable."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"status": "ok"})


class _Example(forms.Form):
    """One field of each kind, for the style guide."""

    name = forms.CharField(label=_("Name"), help_text=_("The name used in reports."))
    temperature = forms.FloatField(label=_("Temperature"), min_value=0, max_value=2)
    role = forms.ChoiceField(label=_("Role"), choices=[("generator", _("generator")), ("judge", _("judge"))])
    note = forms.CharField(label=_("Note"), widget=forms.Textarea(attrs={"rows": 3}), required=False)
    natural = forms.ChoiceField(
        label=_("Naturalness"),
        widget=forms.RadioSelect,
        choices=[("1", _("artificial")), ("2", _("acceptable")), ("3", _("natural"))],
    )
    paid = forms.BooleanField(label=_("Calls cost money"), required=False)


def styleguide(request: HttpRequest) -> HttpResponse:
    """All page components with fixed sample data. For admins, and for everyone if DEBUG is on."""
    if not (settings.DEBUG or may_request(request.user, Can.OVERSEE, request.method)):
        raise Http404
    if "message" in request.GET:
        messages.success(request, _("Release 'spring' is frozen."))
        messages.error(request, _("Row 14 of pmc.csv has no patient text."))
    context = {
        "simulated": True,
        "form": _Example({"name": "", "temperature": "0.7", "role": "judge", "natural": "2"}),
        "states": ["primary", "secondary", "adjudication", "approved", "rejected", "withdrawn"],
        "work_states": ["queued", "running", "paused", "finished", "failed", "cancelled"],
        "sort": request.GET.get("sort", "-rate"),
        "steps": [
            {"label": _("Generated"), "count": 312, "note": _("batch 7"), "href": "#funnel"},
            {"label": _("Primary"), "count": 118, "note": _("oldest: 3 d"), "href": "#funnel"},
            {"label": _("Secondary"), "count": 41, "note": _("oldest: 1 d"), "href": "#funnel"},
            {"label": _("Adjudication"), "count": 6, "note": _("oldest: 5 d"), "href": "#funnel"},
            {"label": _("Approved"), "count": 129, "href": "#funnel"},
            {"label": _("Rejected"), "count": 18, "href": "#funnel"},
        ],
        "swatches": ["page", "surface", "sunken", "ink", "ink-2", "accent", "added", "removed", "warning", "trap"],
        **_example_charts(),
    }
    return render(request, "site/styleguide.html", context)


def _example_charts() -> dict[str, object]:
    models = ["sim-careful", "sim-average", "sim-reckless"]
    overall = [
        bars.Bar("sim-careful", 0.165, 0.119, 0.224, 31, 188, "#charts"),
        bars.Bar("sim-average", 0.357, 0.292, 0.428, 67, 188, "#charts"),
        bars.Bar("sim-reckless", 0.793, 0.729, 0.845, 149, 188, "#charts"),
        bars.Bar("sim-silent", None, href="#charts"),
    ]
    rates = {"Dialogue": (0.165, 0.357, 0.793), "Report": (0.346, 0.323, 0.624), "Combined": (0.291, 0.333, 0.675)}
    grouped = []
    for data_set, row in rates.items():
        for model, rate in zip(models, row, strict=True):
            grouped.append(bars.Bar(data_set, rate, rate - 0.05, rate + 0.05, round(rate * 200), 200, "#charts", model))
    traps = ["Fabricated test result", "Wrong medication dose", "Reversed laterality", "False family history",
             "Invented guideline", "Timeline conflict"]  # fmt: skip
    values: list[list[float | None]] = [
        [0.08, 0.15, 0.22, 0.12, 0.31, 0.09],
        [0.41, 0.33, None, 0.28, 0.52, 0.37],
        [0.88, 0.79, 0.64, 0.91, 0.97, 0.58],
    ]
    links = [["#charts"] * len(traps)] * len(models)
    return {
        "bars": bars.bars(overall, name="bars-overall", title=str(_("Hallucination rate, dialogue"))),
        "grouped": bars.bars(grouped, name="bars-grouped", title=str(_("Hallucination rate by data set"))),
        "radar": radar.radar(
            traps,
            [radar.Series(m, v, links[0]) for m, v in zip(models, values, strict=True)],
            name="radar-traps",
            title=str(_("Hallucination rate by trap")),
        ),
        "distribution": bars.amounts(
            [
                bars.BarAmount(trap, samples, samples * 2 + 3, "#charts", "A" if place < 3 else "B")
                for place, (trap, samples) in enumerate(zip(traps, (34, 28, 11, 19, 42, 7), strict=True))
            ],
            (str(_("samples")), str(_("rubrics"))),
            name="distribution-traps",
            title=str(_("Samples and rubrics by trap")),
        ),
        "heat": heat_map.heat(models, traps, values, links, name="heat-traps", title=str(_("Rate by model and trap"))),
    }
