"""Pages of releases."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django_htmx.http import HttpResponseClientRefresh

from generation.batches import queries as batches_queries
from generation.errors import GenerationError
from generation.jobs.live_status import live_workers
from generation.models import Erratum, Freeze, Release, ReleasedRubric, ReleasedSample, SampleVersion
from generation.probes import queries as probes_queries
from generation.recipes import forms as recipes_forms
from generation.recipes.configuration import configuration
from generation.releases import archive, comparing, data_card, export, forms, queries, ratings, services
from generation.releases.citing import bibtex
from generation.samples import errata, funnel
from generation.samples.queries import sees_held_out
from review.common.decorators import posted_data, refusals_on, render_form, requires, signed_in_account
from review.common.lists import list_context
from review.common.paging import keyset_page, page_url
from review.rules.permissions import Can, may_read
from review.rules.text import whole_number

CHANGES_SHOWN = 25


@requires(Can.READ_RESULTS, "GET")
def releases(request: HttpRequest) -> HttpResponse:
    """All releases, and those being frozen."""
    filters = forms.ReleaseFilters(request.GET)
    rows = queries.releases(**filters.active).order_by("-pk")
    context = list_context(request, filters, rows, ("name", "samples_count", "created_at"))
    return render(request, "generation/releases/releases.html", {**context, **_freezes()})


@requires(Can.PRODUCE, acting=True)
def release_new(request: HttpRequest) -> HttpResponse:
    """The form to freeze a release, and what would go in."""
    defaults = {"benchmark": batches_queries.latest_benchmark()}
    form = forms.FreezeForm(posted_data(request), initial=defaults)
    if form.is_valid():
        data = form.cleaned_data
        settings: dict[str, Any] = {"benchmark": data["benchmark"]}
        with refusals_on(form, GenerationError):
            settings["composition"] = form.composition()
            preview = services.preview(data["name"], **settings)
            if data["seen"] != preview.seen:
                return _preview(request, form, preview)
            services.start_freeze(data["name"], **settings, card=form.card(), actor=signed_in_account(request))
            messages.success(request, _("%(release)s is being frozen.") % {"release": preview.release})
            return redirect("generation:releases")
    approved = queries.approved_counts()
    context = {
        "form": form,
        "nothing_approved": not (approved or form.is_bound),
        "approved": [(label, *approved.get(name, (0, 0))) for name, label in recipes_forms.benchmark_choices()],
    }
    return render_form(request, "generation/releases/release_new.html", context, refused=form.errors)


@requires(Can.PRODUCE, "GET")
def freezes(request: HttpRequest) -> HttpResponse:
    """The releases being frozen; reloads the page when none is left."""
    context = _freezes()
    if not context["freezing"]:
        return HttpResponseClientRefresh()
    return render(request, "generation/releases/_freezes.html", context)


def _freezes() -> dict[str, object]:
    rows = queries.shown_freezes()
    freezing = any(row.status in (Freeze.Status.QUEUED, Freeze.Status.RUNNING) for row in rows)
    return {"freezes": rows, "freezing": freezing, "idle": freezing and not live_workers(runs_tasks=True).exists()}


def _preview(request: HttpRequest, form: forms.FreezeForm, preview: services.FreezePreview) -> HttpResponse:
    """What would be frozen, for confirmation."""
    fields = [field for field in form if field.name != "seen"]
    data = form.cleaned_data
    rule = ""
    if chosen := configuration(data["benchmark"], data["configuration"]):
        rule = _(chosen.rule)
    context = {
        "preview": preview,
        "data": data,
        "fields": fields,
        "configuration": rule,
        "tasks": [(task, n, preview.shares[task]) for task, n in preview.counts["task"].items()],
    }
    return render(request, "generation/releases/freeze_preview.html", context)


@requires(Can.READ_RESULTS, "GET")
def release(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """One release: composition, sources, models, checksum, exports, and the runs on it."""
    release = queries.release(name, version)
    rule, shares = "", {}
    if chosen := configuration(release.benchmark, release.composition.get("configuration", "")):
        rule, shares = _(chosen.rule), queries.task_shares(release)
    context = {
        "release": release,
        "simulated": release.simulated,
        "simulated_reviewers": release.simulated_samples,
        "planted": queries.term_counts(release.benchmark, release.counts),
        "texts": queries.card_texts(release),
        "funnel": queries.funnel_of(release),
        "figure": reverse("generation:release-funnel", args=[name, version]),
        "errata": list(errata.errata_of(release, request.user)),
        "citation": bibtex(release),
        "formats": [(name, label, export.stages_of(release, name)) for name, label in export.fitting_formats(release)],
        "withheld": queries.withheld_sources(release),
        "configuration": rule,
        "shares": shares,
        "judgments": queries.judgments(release),
        "found": probes_queries.shown(release, with_held_out=may_read(request.user, Can.PRODUCE)),
        "by_reference": export.fitting_formats(release, by_reference=True),
    }
    return render(request, "generation/releases/release.html", context)


@requires(Can.READ_RESULTS, "GET")
def release_funnel(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """The funnel of a release, or of one data set or trap in it, as a figure (SVG)."""
    release = queries.release(name, version)
    report = queries.funnel_of(release)
    if report is None:
        raise Http404
    notes = [_("Release %(release)s, SHA-256 %(sha)s…") % {"release": release, "sha": release.sha256[:12]}]
    return funnel.as_figure(report, request.GET, notes, simulated=release.simulated or bool(release.simulated_samples))


@requires(Can.READ_RESULTS, "GET")
def release_samples(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """The samples of a release: a list, and the selected one."""
    release = queries.release(name, version)
    filters = forms.ReleasedFilters(request.GET, release, with_held_out=sees_held_out(request.user))
    rows = queries.released_samples(release, request.user, **filters.active)
    page = keyset_page(rows.defer("exported"), request, size=25)
    chosen = rows.filter(pk=whole_number(request.GET.get("selected", "")) or 0).first()
    if chosen is None and page.rows:
        chosen = rows.get(pk=page.rows[0].pk)
    place = None
    if chosen in page.rows:
        place = page.rows.index(chosen)
    context: dict[str, object] = {
        "filters": filters,
        "total": rows.order_by().count(),
        "page": page,
        "place": place,
        **_sample_context(release, chosen),
    }
    return render(request, "generation/releases/release_samples.html", context)


@requires(Can.READ_RESULTS, "GET")
def release_sample(request: HttpRequest, name: str, version: int, key: str) -> HttpResponse:
    """One sample of a release."""
    release = queries.release(name, version)
    rows = queries.released_samples(release, request.user)
    chosen = get_object_or_404(rows, key=key)
    return render(request, "generation/releases/release_sample.html", _sample_context(release, chosen))


def _sample_context(release: Release, chosen: ReleasedSample | None) -> dict[str, object]:
    """Context: a release, and one of its samples."""
    context: dict[str, object] = {
        "release": release,
        "chosen": chosen,
        "simulated": release.simulated,
        "simulated_reviewers": release.simulated_samples,
    }
    if chosen is None:
        return context
    sample_version = SampleVersion.objects.select_related("case", "sample").get(pk=chosen.version_id)
    erratum = errata.history(sample_version.sample).last()
    if erratum is not None and erratum.kind == Erratum.Kind.DISMISSED:
        erratum = None
    return context | {
        "made": sample_version,
        "blocks": sample_version.case.frozen.blocks,
        "rubrics": ReleasedRubric.objects.filter(sample=chosen).order_by("pk"),
        "erratum": erratum,
    }


@requires(Can.READ_RESULTS, "GET")
def release_card(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """The data card of a release."""
    release = queries.release(name, version)
    context = {"release": release, "card": data_card.data_card(release), "simulated": release.simulated}
    return render(request, "generation/releases/release_card.html", context)


@requires(Can.READ_RESULTS, "GET")
def release_changes(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """How a release differs from another (`?since=NAME@VERSION`; default: the version before)."""
    release = queries.release(name, version)
    since = request.GET.get("since", "")
    others = queries.releases(benchmark=release.benchmark).exclude(pk=release.pk)
    earlier = others.filter(name=release.name, version__lt=release.version).order_by("-version")
    if since:
        before: Release | None = queries.release(since)
    else:
        before = earlier.first()
    context: dict[str, object] = {"release": release, "others": others, "before": before}
    if before is not None:
        difference = comparing.compare(before, release, request.user)
        change = request.GET.get("change", "")
        start = whole_number(request.GET.get("cursor", ""), 9) or 0
        rows = difference.samples(change, start, CHANGES_SHOWN + 1)
        newer, older = "", ""
        if start:
            newer = page_url(request, "cursor", max(start - CHANGES_SHOWN, 0))
        if len(rows) > CHANGES_SHOWN:
            older = page_url(request, "cursor", start + CHANGES_SHOWN)
        context |= {
            "difference": difference,
            "change": change,
            "rows": rows[:CHANGES_SHOWN],
            "newer": newer,
            "older": older,
        }
    return render(request, "generation/releases/release_changes.html", context)


@requires(Can.READ_RESULTS, "GET")
def release_export(request: HttpRequest, name: str, version: int, format_name: str) -> HttpResponseBase:
    """One split of a release (`?split=`) in one format, as a zip.

    With `?by-reference=1`, without the text of its sources; with `?stages=V+K`, those stages, for a
    training format.
    """
    release, split = queries.release(name, version), _split(request)
    by_reference, stages = request.GET.get("by-reference") == "1", request.GET.get("stages", "")
    return archive.download(export.Export(release, format_name, split, by_reference, stages))


def _split(request: HttpRequest) -> str:
    wanted = request.GET.get("split")
    if wanted in ReleasedSample.Split.values:
        known = wanted
    else:
        known = ReleasedSample.Split.PUBLIC.value
    return queries.readable_split(request.user, known)


@requires(Can.READ_RESULTS, "GET")
def release_ratings(request: HttpRequest, name: str, version: int) -> HttpResponseBase:
    """Physicians' answers about one split of a release, as CSV."""
    release = queries.release(name, version)
    return ratings.download_of(release, _split(request))
