"""Pages of releases."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_safe
from django_htmx.http import HttpResponseClientRefresh

from generation import tasks
from generation.batches import queries as batches_queries
from generation.errors import GenerationError
from generation.jobs.live_status import live_workers
from generation.models import Erratum, Freeze, Release, ReleasedRubric, ReleasedSample, SampleVersion
from generation.outcomes import services as outcomes_services
from generation.recipes import forms as recipes_forms
from generation.recipes.configuration import configuration
from generation.releases import archive, export, forms, queries, ratings, services
from generation.samples import errata, funnel
from review.common.decorators import requires, signed_in_account
from review.common.paging import keyset_page
from review.common.waking import wake_after_commit
from review.rules.permissions import Can, may_read, require


@requires(Can.READ_RESULTS)
def releases(request: HttpRequest) -> HttpResponse:
    """All releases, and for producers the form to freeze the next one."""
    defaults = {"benchmark": batches_queries.latest_benchmark()}
    form = forms.FreezeForm(request.POST if request.method == "POST" else None, initial=defaults)
    if request.method == "POST":
        require(request.user, Can.PRODUCE)
    if form.is_valid():
        outcomes_services.apply_outcomes()  # include the latest decisions of physicians
        data = form.cleaned_data
        settings: dict[str, Any] = {"benchmark": data["benchmark"]}
        try:
            settings["composition"] = form.composition()
            preview = services.preview(data["name"], **settings)
            if data["seen"] != preview.seen:
                return _preview(request, form, preview)
            row = services.start_freeze(data["name"], **settings, card=form.card(), actor=signed_in_account(request))
        except GenerationError as error:
            form.add_error(None, str(error))
        else:
            wake_after_commit(tasks.run_freeze, row.pk)
            messages.success(request, _("%(release)s is being frozen.") % {"release": preview.release})
            return redirect("generation:releases")
    approved = queries.approved_counts()
    context = {
        "page": keyset_page(queries.releases(), request, size=25, newest_first=True),
        "form": form,
        "approved": [(label, *approved.get(name, (0, 0))) for name, label in recipes_forms.benchmark_choices()],
        **_freezes(),
    }
    return render(request, "generation/releases/releases.html", context, status=422 if form.errors else 200)


@require_safe
@requires(Can.PRODUCE)
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
    chosen = configuration(data["benchmark"], data["configuration"])
    context = {
        "preview": preview,
        "data": data,
        "fields": fields,
        "configuration": _(chosen.rule) if chosen else "",
        "tasks": [(task, n, preview.shares[task]) for task, n in preview.counts["task"].items()],
    }
    return render(request, "generation/releases/freeze_preview.html", context)


def _release(name: str, version: int) -> Release:
    return get_object_or_404(queries.releases(), name=name, version=version)


@require_safe
@requires(Can.READ_RESULTS)
def release(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """One release: composition, sources, models, checksum, exports, and the runs on it."""
    release = _release(name, version)
    chosen = configuration(release.benchmark, release.composition.get("configuration", ""))
    context = {
        "release": release,
        "simulated": release.simulated,
        "simulated_reviewers": release.simulated_samples,
        "planted": queries.term_counts(release.benchmark, release.counts),
        "texts": queries.card_texts(release),
        "funnel": queries.funnel_of(release),
        "figure": reverse("generation:release-funnel", args=[name, version]),
        "errata": list(errata.errata_of(release)),
        "formats": [(name, label, export.stages_of(release, name)) for name, label in export.fitting_formats(release)],
        "withheld": queries.withheld_sources(release),
        "configuration": _(chosen.rule) if chosen else "",
        "shares": queries.task_shares(release) if chosen else {},
        "judgments": queries.judgments(release),
        "by_reference": export.fitting_formats(release, by_reference=True),
    }
    return render(request, "generation/releases/release.html", context)


@require_safe
@requires(Can.READ_RESULTS)
def release_funnel(request: HttpRequest, name: str, version: int) -> HttpResponse:  # noqa: ARG001
    """The funnel of a release as a figure (SVG)."""
    release = _release(name, version)
    report = queries.funnel_of(release)
    if report is None:
        raise Http404
    notes = [_("Release %(release)s, SHA-256 %(sha)s…") % {"release": release, "sha": release.sha256[:12]}]
    return funnel.as_figure(report, notes, simulated=release.simulated or bool(release.simulated_samples))


@require_safe
@requires(Can.READ_RESULTS)
def release_samples(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """The samples of a release: a list, and the selected one."""
    release = _release(name, version)
    rows = queries.released_samples(release, with_held_out=may_read(request.user, Can.PRODUCE))
    page = keyset_page(rows.defer("exported"), request, size=25)
    selected = request.GET.get("selected", "")
    chosen = rows.filter(pk=int(selected)).first() if selected.isdecimal() and len(selected) < 19 else None
    if chosen is None and page.rows:
        chosen = rows.get(pk=page.rows[0].pk)
    index = next((i for i, row in enumerate(page.rows) if chosen and row.pk == chosen.pk), None)
    context: dict[str, object] = {
        "release": release,
        "page": page,
        "chosen": chosen,
        "place": index,
        "simulated": release.simulated,
        "simulated_reviewers": release.simulated_samples,
    }
    if chosen is not None:
        sample_version = SampleVersion.objects.select_related("case", "sample").get(pk=chosen.version_id)
        rubrics = ReleasedRubric.objects.filter(sample=chosen).order_by("pk")
        last = errata.history(sample_version.sample).last()
        erratum = last if last is not None and last.kind != Erratum.Kind.DISMISSED else None
        context |= {
            "made": sample_version,
            "blocks": sample_version.case.frozen.blocks,
            "rubrics": rubrics,
            "erratum": erratum,
        }
    return render(request, "generation/releases/release_samples.html", context)


@require_GET
@requires(Can.READ_RESULTS)
def release_export(request: HttpRequest, name: str, version: int, format_name: str) -> HttpResponseBase:
    """One split of a release (`?split=`) in one format, as a zip.

    With `?by-reference=1`, without the text of its sources; with `?stages=V+K`, those stages, for a
    training format.
    """
    release, split = _release(name, version), _split(request)
    by_reference = request.GET.get("by-reference") == "1"
    stages = request.GET.get("stages", "").replace(" ", "+")  # an unquoted + in an address is a space
    blocks = archive.stream(release, format_name, split=split, by_reference=by_reference, stages=stages)
    file_name = archive.file_name(release, format_name, split, by_reference=by_reference, stages=stages)
    return archive.as_download(blocks, file_name)


def _split(request: HttpRequest) -> str:
    """The requested split; the held-out one is for admins only."""
    if request.GET.get("split") != ReleasedSample.Split.HELD_OUT:
        return ReleasedSample.Split.PUBLIC
    require(request.user, Can.PRODUCE, reading=True)
    return ReleasedSample.Split.HELD_OUT


@require_GET
@requires(Can.READ_RESULTS)
def release_ratings(request: HttpRequest, name: str, version: int) -> HttpResponseBase:
    """Physicians' answers about one split of a release, as CSV."""
    release = _release(name, version)
    return archive.as_table(ratings.lines(release, _split(request)), release, "ratings")
