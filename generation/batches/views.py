"""Pages of batches."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from generation.batches import attention, forms, launch, queries, review_results, rounds
from generation.batches import estimate as batches_estimate
from generation.batches.kind import BATCHES
from generation.endpoints import queries as endpoints_queries
from generation.jobs import queries as jobs_queries
from generation.jobs.views import Launch, job_context
from generation.models import Source
from generation.models.work import Work
from generation.probes import queries as probes_queries
from generation.recipes import registry
from generation.releases import queries as releases_queries
from generation.samples import funnel
from generation.samples import queries as samples_queries
from generation.sources import services as sources_services
from review.common.decorators import posted_data, requires, signed_in_account
from review.common.lists import list_context
from review.common.paging import keyset_page
from review.rules.permissions import Can

Status = Work.Status
FAILURES_SHOWN = 20
SAMPLES_SHOWN = 50


@requires(Can.PRODUCE, "POST")
def import_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Cancel an import. No confirmation is needed, because the file can be imported again."""
    run = sources_services.cancel_import(pk)
    messages.success(request, _("Import cancelled. Records that were already added are kept."))
    return redirect("generation:source", run.source.name)


@requires(Can.PRODUCE, "GET")
def batches(request: HttpRequest) -> HttpResponse:
    """All batches with their progress and what they made."""
    filters = forms.BatchFilters(request.GET)
    rows = queries.batches(**filters.active).order_by("-pk")
    context = list_context(request, filters, rows, ("created_at", "cost"))
    context["has_sources"] = Source.objects.exists()
    return render(request, "generation/batches/batches.html", context)


@requires(Can.PRODUCE, acting=True)
def batch_new(request: HttpRequest) -> HttpResponse:
    """Launch a batch, in three steps.

    Choose benchmark and source, then endpoints and settings, then confirm the estimate.
    """
    if request.method == "POST":
        submitted = request.POST
    else:
        submitted = request.GET
    choice = forms.BenchmarkAndSourceForm(_with_defaults(submitted))
    if not choice.is_valid():
        return render(request, "generation/batches/batch_new.html", {"choice": choice})
    benchmark, source = choice.cleaned_data["benchmark"], choice.cleaned_data["source"]
    unused = queries.unused_record_counts(source, benchmark)
    last, initial = None, dict[str, Any]()
    if request.method != "POST" and "defaults" not in request.GET:
        last, initial = launch.last_settings(signed_in_account(request), benchmark)
    form = forms.BatchForm(posted_data(request), benchmark=benchmark, source=source, kinds=unused, initial=initial)
    context = {
        "choice": choice,
        "benchmark": benchmark,
        "source": source,
        "left": sum(unused.values()),
        "has_discarded": not unused and queries.has_discarded_records(source, benchmark),
        "presets": queries.presets(benchmark),
        "last": last,
        "no_endpoint": not endpoints_queries.endpoints().exists() and form.needs_endpoint,
    }
    return _LAUNCH.respond(request, form, context)


def _launch(settings: launch.BatchSettings, **by: Any) -> str:
    """Launch a batch, or two to compare."""
    if settings.compare is None:
        return BATCHES.address("", launch.launch_batch(settings, **by).pk)
    return reverse("generation:comparison", args=[launch.launch_comparison(settings, **by).pk])


_LAUNCH = Launch(
    "generation/batches/batch_new.html",
    "generation/batches/batch_estimate.html",
    batches_estimate.estimate_batch,
    _launch,
)


def _with_defaults(submitted: QueryDict) -> dict[str, str]:
    """The choice from the query string, completed by what can still be used."""
    benchmark, name = submitted.get("benchmark", ""), submitted.get("source", "")
    if name:
        source = Source.objects.filter(name=name).first()
    else:
        source = queries.suggested_source(benchmark)
        if source:
            name = source.name
    return {"benchmark": benchmark or queries.suggested_benchmark(source), "source": name}


@requires(Can.PRODUCE, "GET")
def batch(request: HttpRequest, pk: int) -> HttpResponse:
    """One batch: progress, composition by trap, failed calls, dropped drafts, samples."""
    batch = BATCHES.get_with_status(pk, request.user)
    failed = list(queries.drafts(batch, Status.FAILED).order_by("pk")[:FAILURES_SHOWN])
    calls = samples_queries.calls_by_subject(f"draft:{draft.pk}" for draft in failed)
    counts = releases_queries.composition(batch)

    def role_name(role: str) -> str:
        return registry.role_name(batch.benchmark, role)

    context = {
        **job_context(BATCHES, batch, request),
        "batch": batch,
        "models": jobs_queries.with_role_names(queries.models_asked(batch), role_name),
        "simulated": queries.is_simulated(pk),
        "shared": queries.shared_roles(batch),
        "preset": queries.preset_of(batch),
        "settings": queries.setting_texts(batch),
        "has_merges": rounds.has_barrier(batch),
        "has_analysis": registry.recipe(batch.benchmark).analysis is not None,
        "fruitless": attention.without_sample().filter(pk=pk).first(),
        "out_of_reach": attention.cases_out_of_reach().get(pk, 0),
        "judgments": review_results.judgments(batch),
        "found": probes_queries.shown(batch, with_held_out=True),
        "can_be_probed": probes_queries.can_be_probed(batch),
        "counts": counts,
        "funnel": funnel.funnel(batch.benchmark, [batch.pk]),
        "figure": reverse("generation:batch-funnel", args=[pk]),
        "planted": releases_queries.term_counts(batch.benchmark, counts),
        "plans": queries.plan_progress(batch),
        "plan_label": registry.plan_label(batch.benchmark, batch.plan.get("name", "")),
        "checked": queries.check_counts(batch),
        "failed": [(draft, calls[f"draft:{draft.pk}"]) for draft in failed],
        "dropped": queries.drafts(batch, Status.DROPPED).order_by("pk")[:FAILURES_SHOWN],
        "made": keyset_page(samples_queries.samples(batch=batch), request, size=SAMPLES_SHOWN, newest_first=True),
    }
    return render(request, "generation/batches/batch.html", context)


@requires(Can.PRODUCE, "GET")
def batch_funnel(request: HttpRequest, pk: int) -> HttpResponse:
    """The funnel of a batch, or of one data set or trap in it, as a figure (SVG)."""
    batch = BATCHES.get(pk)
    report = funnel.funnel(batch.benchmark, [pk])
    simulated = queries.is_simulated(pk)
    return funnel.as_figure(report, request.GET, [_("Batch %(n)s") % {"n": pk}], simulated=simulated)


@requires(Can.PRODUCE, "GET")
def batch_analysis(request: HttpRequest, pk: int) -> HttpResponse:
    """The recipe's analysis of all drafts of a batch; an error if the recipe has none."""
    batch = BATCHES.get(pk)
    context = {
        "batch": batch,
        "blocks": queries.analysis(batch),
        "simulated": queries.is_simulated(pk),
        "remakes": registry.recipe(batch.benchmark).max_versions > 1,
    }
    return render(request, "generation/batches/analysis.html", context)


@requires(Can.PRODUCE, "GET")
def batch_costs(request: HttpRequest, pk: int) -> HttpResponse:
    """The costs of a batch by stage (prompt and endpoint)."""
    batch = BATCHES.get(pk)
    context = {
        "batch": batch,
        "stages": jobs_queries.stage_costs(batch),
        "simulated": queries.is_simulated(pk),
    }
    return render(request, "generation/batches/costs.html", context)
