"""Pages of generation: sources, endpoints, batches, samples, releases. Each parses, calls one service or query, answers."""

from collections.abc import Mapping
from functools import partial
from itertools import zip_longest
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.crypto import get_random_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST, require_safe
from django_htmx.http import HttpResponseClientRefresh

from generation import (
    archive,
    benchmarks,
    charts,
    estimates,
    exporters,
    forms,
    importers,
    outcomes,
    queries,
    services,
    tasks,
    uploads,
)
from generation import releases as release_services
from generation.errors import GenerationError, KeyReused, SourceExists
from generation.estimates import Estimate
from generation.jobs import advice
from generation.live import endpoint_now
from generation.models import (
    Batch,
    BatchRole,
    Draft,
    ImportRefusal,
    Release,
    ReleasedRubric,
    Sample,
    SampleVersion,
    Source,
)
from generation.paging import keyset
from generation.work import Work
from review.access import person, requires
from review.blocks import Dialogue, Text, Turn
from review.diffing import align, words
from review.permissions import Can, require

Status = Work.Status
FAILURES_SHOWN = 20
CALLS_SHOWN = 5  # of those that failed, with what came back
DAYS_SHOWN = 30
SAMPLES_SHOWN = 50
REFERRING_SHOWN = 20  # records that refer to one


# ---------------------------------------------------------------------------------------------------------- sources


@requires(Can.PRODUCE)
def sources(request: HttpRequest) -> HttpResponse:
    """All sources, and the form that imports a file into one."""
    form = forms.ImportForm(request.POST, request.FILES) if request.method == "POST" else forms.ImportForm()
    if form.is_valid():
        data = form.cleaned_data
        try:
            run = uploads.start_import(
                data["file"], format_name=data["format"], name=data["name"], actor=person(request)
            )
        except GenerationError as error:
            form.add_error("name" if isinstance(error, SourceExists) else "file", str(error))
        else:
            transaction.on_commit(partial(tasks.wake, tasks.run_import, run.pk))
            return redirect("generation:source", data["name"])
    formats = [(name, importers.load(name)) for name in importers.available()]
    context = {"sources": queries.sources(), "form": form, "formats": formats}
    return render(request, "generation/sources.html", context, status=422 if form.errors else 200)


@require_safe
@requires(Can.PRODUCE)
def source(request: HttpRequest, name: str) -> HttpResponse:
    """One source: its terms, imports, refusals and records."""
    found = queries.source(name)
    refusals = ImportRefusal.objects.filter(run__source=found).select_related("run")
    context = {
        "source": found,
        **_imports(found),
        "records": keyset(queries.records(found), request, size=25),
        "refusals": keyset(refusals, request, size=25, newest_first=True, name="refusal"),
    }
    return render(request, "generation/source.html", context)


@require_safe
@requires(Can.PRODUCE)
def source_imports(request: HttpRequest, name: str) -> HttpResponse:
    """The imports of a source as they stand; once all have ended, the page is loaded afresh."""
    found = queries.source(name)
    context = _imports(found)
    if not context["importing"]:
        return HttpResponseClientRefresh()
    return render(request, "generation/_imports.html", {"source": found, **context})


@require_POST
@requires(Can.PRODUCE)
def import_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Read no further in a file; it may be imported again, so the page does not ask first."""
    run = services.cancel_import(pk)
    messages.success(request, _("The import was cancelled. The records that were already added stay."))
    return redirect("generation:source", run.source.name)


def _imports(source: Source) -> dict[str, object]:
    imports = list(queries.imports().filter(source=source)[:20])
    importing = any(run.status in (Status.QUEUED, Status.RUNNING) for run in imports)
    return {"imports": imports, "importing": importing, "idle": importing and not queries.worker_lives()}


@require_safe
@requires(Can.PRODUCE)
def record(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """One record as it may be shown; its private part is not even read."""
    found = queries.source(name)
    row = get_object_or_404(queries.records(found), pk=pk)
    referring = list(queries.referring(row)[: REFERRING_SHOWN + 1])
    context = {
        "source": found,
        "record": row,
        "passages": _passages(row.content),
        "partners": queries.partners([row])[row.pk],
        "referring": referring[:REFERRING_SHOWN],
        "more_referring": len(referring) > REFERRING_SHOWN,
        "samples": queries.samples().filter(record=row),
    }
    return render(request, "generation/record.html", context)


def _passages(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name or '', text) of the passages that a question is put with."""
    texts = content.get("contexts") or content.get("knowledge") or []
    return list(zip_longest(content.get("sections") or [], texts, fillvalue=""))


# -------------------------------------------------------------------------------------------------------- endpoints


@requires(Can.CONNECT)
def endpoints(request: HttpRequest) -> HttpResponse:
    """All endpoints, and the form that makes one."""
    form = forms.EndpointForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        made = services.add_endpoint(actor=person(request), **form.cleaned_data)
        messages.success(request, _("Endpoint %(name)s is ready to be used.") % {"name": made})
        return redirect("generation:endpoints")
    rows = [(endpoint, forms.key_state(endpoint)) for endpoint in queries.endpoints()]
    context = {"rows": rows, "form": form}
    return render(request, "generation/endpoints.html", context, status=422 if form.errors else 200)


@requires(Can.CONNECT)
def endpoint(request: HttpRequest, name: str) -> HttpResponse:
    """Change one endpoint. What has answered already keeps its address and model."""
    found = queries.endpoint(name)
    called = queries.has_answered(found)
    form = forms.EndpointForm(request.POST if request.method == "POST" else None, instance=found, called=called)
    if form.is_valid():
        services.change_endpoint(found, **form.cleaned_data)
        messages.success(request, _("Endpoint %(name)s was changed.") % {"name": found})
        return redirect("generation:endpoints")
    whole, days = queries.usage(found, days=DAYS_SHOWN)
    context = {
        "endpoint": found,
        "called": called,
        "form": form,
        "key": forms.key_state(found),
        "now": endpoint_now(found),
        "whole": whole,
        "chart": charts.days(days),
        "days": [day for day in reversed(days) if day.calls or day.hits],
    }
    return render(request, "generation/endpoint.html", context, status=422 if form.errors else 200)


# ---------------------------------------------------------------------------------------------------------- batches


@require_safe
@requires(Can.PRODUCE)
def batches(request: HttpRequest) -> HttpResponse:
    """All batches with how far each is."""
    page = keyset(queries.batches(), request, size=25, newest_first=True)
    context = {"page": page, "has_sources": Source.objects.exists()}
    return render(request, "generation/batches.html", context)


@requires(Can.PRODUCE)
def batch_new(request: HttpRequest) -> HttpResponse:
    """Launch a batch: first what of, then which endpoint plays which role, then what it may cost."""
    asked = request.POST if request.method == "POST" else request.GET
    chosen = forms.ChoiceOfWork(_with_defaults(asked))
    if not chosen.is_valid():
        return render(request, "generation/batch_new.html", {"choice": chosen})
    benchmark, source = chosen.cleaned_data["benchmark"], chosen.cleaned_data["source"]
    left = queries.kinds_left(source, benchmark)
    sent = (request.POST, request.FILES) if request.method == "POST" else ()
    form = forms.LaunchForm(*sent, benchmark=benchmark, kinds=left)
    if form.is_valid():
        asked_for: dict[str, Any] = {
            "benchmark": benchmark,
            "source": source,
            "roles": form.roles,
            "limit": form.cleaned_data["limit"],
            "setting": form.setting,
            "actor": person(request),
            "key": request.POST.get(forms.LAUNCH_KEY, ""),
        }
        sets = (form.setting.prompts, *([] if form.compared_with is None else [form.compared_with]))
        try:
            if "confirmed" not in request.POST:
                estimate = estimates.of_batch(
                    benchmark=benchmark,
                    source=source,
                    roles=form.roles,
                    limit=form.cleaned_data["limit"],
                    prompts=sets,
                    checks=form.setting.checks,
                    plan=form.setting.plan,
                    preset=form.setting.preset,
                    changes=form.setting.changes,
                )
                return _estimated(request, estimate, form, [("benchmark", benchmark), ("source", source.name)])
            if form.compared_with is None:
                made = [services.launch_batch(**asked_for)]
                there = reverse("generation:batch", args=[made[0].pk])
            else:
                comparison = services.launch_comparison(prompts=(sets[0], sets[1]), **asked_for)
                made = list(comparison.batches.order_by("arm"))
                there = reverse("generation:comparison", args=[comparison.pk])
        except KeyReused:
            raise
        except GenerationError as error:
            form.add_error(None, str(error))
        else:
            for batch in made:
                transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, batch.pk))
            return redirect(there)
    context = {
        "choice": chosen,
        "form": form,
        "benchmark": benchmark,
        "source": source,
        "left": sum(left.values()),
        "presets": queries.presets(benchmark),
        "no_endpoint": not queries.endpoints().exists() and form.wants_endpoint,
    }
    return render(request, "generation/batch_new.html", context, status=422 if form.errors else 200)


def _estimated(
    request: HttpRequest, estimate: Estimate, form: forms.LaunchForm, chosen: list[tuple[str, str]]
) -> HttpResponse:
    """The page between form and launch: what it would come to, with a budget to be confirmed."""
    context = {
        "estimate": estimate,
        "carried": [*chosen, *form.carried, (forms.LAUNCH_KEY, get_random_string(32))],
        "form": forms.BudgetForm.proposed(estimate, form.cleaned_data),
    }
    return render(request, "generation/batch_estimate.html", context)


def _with_defaults(asked: QueryDict) -> dict[str, str]:
    """The choice in the address, completed by the newest source and a benchmark that it is for."""
    sources = Source.objects.order_by("-pk")
    source = sources.filter(name=asked["source"]).first() if asked.get("source") else sources.first()
    return {
        "benchmark": asked.get("benchmark") or queries.fitting_benchmark(source),
        "source": asked.get("source") or (source.name if source else ""),
    }


def _watched(pk: int) -> Batch:
    return get_object_or_404(queries.watched_batches(), pk=pk)


def _batch(pk: int) -> Batch:
    return get_object_or_404(Batch.objects.select_related("source", "created_by"), pk=pk)


@require_safe
@requires(Can.PRODUCE)
def batch(request: HttpRequest, pk: int) -> HttpResponse:
    """One batch: progress, what it came to by trap, what failed with the words of the models, what was dropped and made."""
    found = _watched(pk)
    failed = list(queries.drafts(found, Status.FAILED).order_by("pk")[:FAILURES_SHOWN])
    calls = queries.calls_by_subject(f"draft:{draft.pk}" for draft in failed)
    counts = queries.composition(found)
    context = {
        **_progress(found),
        "advice": advice(found),
        "behind": queries.behind_the_pause(found, queries.endpoints_of(found)),
        "budget": forms.BudgetForm.of(found),
        "roles": BatchRole.objects.filter(batch=found).select_related("endpoint").order_by("pk"),
        "simulated": BatchRole.objects.filter(batch=found, endpoint__simulated=True).exists(),
        "preset": queries.preset_of(found),
        "settings": queries.setting_texts(found),
        "has_analysis": benchmarks.recipe(found.benchmark).analysis is not None,
        "counts": counts,
        "planted": queries.planted(found.benchmark, counts),
        "plans": queries.plan_against_reached(found),
        "checked": queries.checked(found),
        "failed": [(draft, calls[f"draft:{draft.pk}"]) for draft in failed],
        "failures": queries.failed_calls(found.job)[:CALLS_SHOWN],
        "dropped": queries.drafts(found, Status.DROPPED).order_by("pk")[:FAILURES_SHOWN],
        "made": keyset(queries.samples(batch=found), request, size=SAMPLES_SHOWN, newest_first=True),
    }
    return render(request, "generation/batch.html", context)


@require_safe
@requires(Can.PRODUCE)
def batch_progress(request: HttpRequest, pk: int) -> HttpResponse:
    """How far a batch is, in one statement; once it has ended, the page is loaded afresh."""
    found = _watched(pk)
    if found.status != Batch.Status.RUNNING:
        return HttpResponseClientRefresh()
    return render(request, "generation/_batch_progress.html", _progress(found))


def _progress(batch: Batch) -> dict[str, object]:
    running, now = batch.status == Batch.Status.RUNNING, queries.batch_live(batch)
    return {
        "batch": batch,
        "job": batch,
        "progress": queries.batch_progress(batch),
        "live": now,
        "failures_page": reverse("generation:batch-failures", args=[batch.pk]),
        "running": running,
        "idle": running and not now.worker_lives,
    }


@require_safe
@requires(Can.PRODUCE)
def batch_analysis(request: HttpRequest, pk: int) -> HttpResponse:
    """What the data of all drafts of a batch show together; no such page where the recipe has nothing to say."""
    found = _batch(pk)
    context = {
        "batch": found,
        "blocks": queries.analysis(found),
        "simulated": BatchRole.objects.filter(batch=found, endpoint__simulated=True).exists(),
    }
    return render(request, "generation/analysis.html", context)


@require_safe
@requires(Can.PRODUCE)
def batch_failures(request: HttpRequest, pk: int) -> HttpResponse:
    """Every call of a batch that ended in an error, or those of one class (`?error=`), with what came back."""
    found = _batch(pk)
    error = request.GET.get("error", "")
    page = keyset(queries.failed_calls(found.job, error), request, size=25, newest_first=True)
    return render(request, "generation/failures.html", {"batch": found, "page": page, "error": error})


@requires(Can.PRODUCE)
def batch_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Take no further draft of it; it cannot be taken back, so the page asks first."""
    found = _batch(pk)
    if request.method != "POST":
        return render(request, "generation/batch_cancel.html", {"batch": found, **_progress(found)})
    services.cancel_batch(found.pk)
    messages.success(request, _("The batch was cancelled. What it made stays."))
    return redirect("generation:batch", pk)


@require_POST
@requires(Can.PRODUCE)
def batch_pause(request: HttpRequest, pk: int) -> HttpResponse:
    """Start no further call of it."""
    services.pause_batch(_batch(pk).pk)
    messages.success(request, _("It is paused. What was under way is brought to its end and kept."))
    return redirect("generation:batch", pk)


@require_POST
@requires(Can.PRODUCE)
def batch_resume(request: HttpRequest, pk: int) -> HttpResponse:
    """Go on with it."""
    services.resume_batch(_batch(pk).pk)
    transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
    messages.success(request, _("It goes on."))
    return redirect("generation:batch", pk)


@require_POST
@requires(Can.PRODUCE)
def batch_budget(request: HttpRequest, pk: int) -> HttpResponse:
    """Give it another budget; one that had paused for want of it goes on."""
    found = _batch(pk)
    form = forms.BudgetForm(request.POST)
    if not form.is_valid():
        messages.error(request, form.said)
        return redirect("generation:batch", pk)
    data = form.cleaned_data
    services.set_batch_budget(found.pk, money=data["budget_money"], calls=data["budget_calls"])
    transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
    messages.success(request, _("The budget was changed."))
    return redirect("generation:batch", pk)


@require_POST
@requires(Can.PRODUCE)
def batch_retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Try again what failed."""
    count = services.retry_failed(_batch(pk).pk)
    transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
    said = ngettext("%(count)d draft is tried again.", "%(count)d drafts are tried again.", count)
    messages.success(request, said % {"count": count})
    return redirect("generation:batch", pk)


# ------------------------------------------------------------------------------------------------------------ checks


@require_safe
@requires(Can.PRODUCE)
def findings(request: HttpRequest, pk: int) -> HttpResponse:
    """What the checks found in the drafts of a batch, filtered by what the address says."""
    found = _batch(pk)
    filters = forms.FindingFilters(request.GET, benchmark=found.benchmark)
    filters.is_valid()
    page = keyset(queries.findings(found, **filters.wanted), request, newest_first=True)
    return render(request, "generation/findings.html", {"batch": found, "filters": filters, "page": page})


@require_safe
@requires(Can.PRODUCE)
def draft(request: HttpRequest, pk: int) -> HttpResponse:
    """One draft: what it came to, what checks found, what was decided about it; for a stopped one, the decision."""
    rows = Draft.objects.select_related("batch", "record", "sample").defer("record__private", "record__content")
    found = get_object_or_404(rows, pk=pk)
    version = SampleVersion.objects.filter(draft=found).select_related("sample").first()
    made = queries.made_by(found) if found.gate or version else None
    context = {
        "draft": found,
        "made": made,
        "blocks": benchmarks.case_spec(found.batch.benchmark, made, "", found.version).blocks if made else (),
        "lineage": queries.lineage(found.batch.benchmark, found),
        "findings": found.findings.select_related("other").order_by("pk"),
        "events": found.gate_events.select_related("actor").order_by("pk"),
        "version": version,
        "form": forms.DecisionForm(),
        "simulated": BatchRole.objects.filter(batch=found.batch_id, endpoint__simulated=True).exists(),
        "stopped": found.gate == Draft.Gate.STOPPED,
    }
    return render(request, "generation/draft.html", context)


@require_POST
@requires(Can.PRODUCE)
def draft_let_through(request: HttpRequest, pk: int) -> HttpResponse:
    """Put before physicians what a check had stopped."""
    found = get_object_or_404(Draft, pk=pk)
    version = services.let_through(found.pk, actor=person(request), reason=request.POST.get("reason", ""))
    messages.success(request, _("It goes before physicians as %(sample)s.") % {"sample": version.sample.key})
    return redirect("generation:draft", pk)


@require_POST
@requires(Can.PRODUCE)
def draft_discard(request: HttpRequest, pk: int) -> HttpResponse:
    """Give up what a check had stopped."""
    found = get_object_or_404(Draft, pk=pk)
    services.discard_stopped(found.pk, actor=person(request), reason=request.POST.get("reason", ""))
    messages.success(request, _("It was discarded."))
    return redirect("generation:draft", pk)


# ----------------------------------------------------------------------------------------------- prompts and attempts


@require_safe
@requires(Can.PRODUCE)
def attempts(request: HttpRequest) -> HttpResponse:
    """Attempts to approval by trap, prompt and generator."""
    asked = request.GET.copy()
    if not asked.get("benchmark"):
        asked["benchmark"] = queries.latest_benchmark()
    if not asked.getlist("by"):
        asked.setlist("by", ["prompt", "generator"])
    filters = forms.AttemptFilters(asked)
    if not filters.is_valid():
        raise Http404
    by = [name for name in outcomes.BY if name in filters.cleaned_data["by"]]
    benchmark = filters.cleaned_data["benchmark"]
    context = {
        "filters": filters,
        "by": by,
        "rows": outcomes.attempts(benchmark, by),
        "simulated": SampleVersion.objects.filter(sample__benchmark=benchmark, simulated=True).exists(),
    }
    return render(request, "generation/attempts.html", context)


@require_safe
@requires(Can.PRODUCE)
def comparisons(request: HttpRequest) -> HttpResponse:
    """All comparisons of two sets of prompts."""
    page = keyset(outcomes.comparisons(), request, size=25, newest_first=True)
    return render(request, "generation/comparisons.html", {"page": page})


@require_safe
@requires(Can.PRODUCE)
def comparison(request: HttpRequest, pk: int) -> HttpResponse:
    """One comparison: both batches, their paired counts, and each record with both outcomes."""
    found = get_object_or_404(outcomes.comparisons(), pk=pk)
    page = keyset(outcomes.records_of(found), request, size=SAMPLES_SHOWN)
    context = {
        "comparison": found,
        "compared": outcomes.compared(found),
        "simulated": BatchRole.objects.filter(batch__comparison=found, endpoint__simulated=True).exists(),
        "page": page,
        "pairs": outcomes.pairs(found, page.rows),
    }
    return render(request, "generation/comparison.html", context)


@require_safe
@requires(Can.PRODUCE)
def comparison_record(request: HttpRequest, pk: int, record_id: int) -> HttpResponse:
    """What both sets of prompts made of one record: side by side, the differences marked."""
    found = get_object_or_404(outcomes.comparisons(), pk=pk)
    record = get_object_or_404(outcomes.records_of(found).select_related("source"), pk=record_id)
    [pair] = outcomes.pairs(found, [record])
    versions = [
        SampleVersion.objects.select_related("case").prefetch_related("rubrics").get(pk=side.version.pk)
        if side.version
        else None
        for side in pair.sides
    ]
    shown = [_turns(version) if version else () for version in versions]
    context = {
        "comparison": found,
        "record": record,
        "simulated": any(version.simulated for version in versions if version),
        "sides": list(zip(pair.sides, versions, strict=True)),
        "aligned": align(shown[0], shown[1]) if all(shown) else (),
    }
    return render(request, "generation/comparison_record.html", context)


def _turns(version: SampleVersion) -> tuple[Turn, ...]:
    """A version's text as a model under test sees it, turn by turn."""
    spec = version.case.frozen
    turns: list[Turn] = []
    for block in spec.first_look or spec.blocks:
        if isinstance(block, Dialogue):
            turns += block.turns
        elif isinstance(block, Text):
            turns.append(Turn(block.title, block.text))
    return tuple(turns)


# ---------------------------------------------------------------------------------------------------------- samples


@require_safe
@requires(Can.PRODUCE)
def samples(request: HttpRequest) -> HttpResponse:
    """Every sample, filtered by what the address says."""
    filters = forms.SampleFilters(request.GET)
    filters.is_valid()
    page = keyset(queries.samples(**filters.cleaned_data), request, newest_first=True)
    return render(request, "generation/samples.html", {"filters": filters, "page": page})


@require_safe
@requires(Can.PRODUCE)
def sample(request: HttpRequest, pk: int) -> HttpResponse:
    """One sample: the version asked for (`?version=`, else the newest), or two side by side (`?beside=`)."""
    rows = Sample.objects.select_related("record__source", "batch").defer("record__private", "record__content")
    found = get_object_or_404(rows, pk=pk)
    versions = queries.versions(found)
    numbers = {str(version.number): version for version in versions}
    chosen = numbers.get(request.GET.get("version", ""), versions[-1])
    beside = numbers.get(request.GET.get("beside", ""))
    shown = [chosen] if beside is None or beside == chosen else sorted((beside, chosen), key=lambda v: v.number)
    context = {
        "sample": found,
        "versions": versions,
        "chosen": chosen,
        "beside": beside if len(shown) == 2 else None,
        "shown": [
            (version, version.case.frozen.blocks, _wordings(version), queries.lineage(found.benchmark, version.draft))
            for version in shown
        ],
        "simulated": any(version.simulated for version in versions),
        "held": queries.held_of(found),
    }
    return render(request, "generation/sample.html", context)


def _wordings(version: SampleVersion) -> list[dict[str, object]]:
    """Each rubric with what physicians made of it."""
    return [
        {
            "key": rubric.key,
            "traps": rubric.traps,
            "severity": rubric.severity,
            "removed": rubric.removed,
            "added": rubric.added,
            "criterion": rubric.criterion,
            "diff": words(rubric.criterion, rubric.approved)
            if rubric.approved and rubric.approved != rubric.criterion
            else (),
        }
        for rubric in version.rubrics.all()
    ]


@require_safe
@requires(Can.PRODUCE)
def calls(request: HttpRequest, pk: int) -> HttpResponse:
    """The ledger of a draft: every call exactly as it was sent and answered."""
    draft = get_object_or_404(Draft.objects.select_related("batch", "record").defer("record__private"), pk=pk)
    version = SampleVersion.objects.filter(draft=draft).select_related("sample").first()
    context = {"draft": draft, "version": version, "calls": queries.calls_of_draft(draft)}
    return render(request, "generation/calls.html", context)


# --------------------------------------------------------------------------------------------------------- releases


@requires(Can.READ_RESULTS)
def releases(request: HttpRequest) -> HttpResponse:
    """All releases, and for producers the form that freezes the next."""
    usual = {"benchmark": queries.latest_benchmark()}
    form = forms.FreezeForm(request.POST if request.method == "POST" else None, initial=usual)
    if request.method == "POST":
        require(request.user, Can.PRODUCE)
    if form.is_valid():
        services.handle_outcomes()  # what physicians decided a moment ago belongs to it
        data = form.cleaned_data
        try:
            made = release_services.freeze_release(data["name"], benchmark=data["benchmark"], actor=person(request))
        except GenerationError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, _("%(release)s is frozen.") % {"release": made})
            return redirect("generation:release", made.name, made.version)
    approved = queries.approved_counts()
    context = {
        "page": keyset(queries.releases(), request, size=25, newest_first=True),
        "form": form,
        "approved": [(label, *approved.get(name, (0, 0))) for name, label in forms.benchmark_choices()],
    }
    return render(request, "generation/releases.html", context, status=422 if form.errors else 200)


def _release(name: str, version: int) -> Release:
    return get_object_or_404(queries.releases(), name=name, version=version)


@require_safe
@requires(Can.READ_RESULTS)
def release(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """One release: what it is made of, from what and by whom, its checksum, its exports, the runs on it."""
    found = _release(name, version)
    context = {
        "release": found,
        "simulated": found.simulated,
        "simulated_reviewers": found.simulated_samples,
        "planted": queries.planted(found.benchmark, found.counts),
        "formats": [(format_name, exporters.load(format_name).label) for format_name in exporters.available()],
    }
    return render(request, "generation/release.html", context)


@require_safe
@requires(Can.READ_RESULTS)
def release_samples(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """The samples of a release: a list, and the one that is read."""
    found = _release(name, version)
    rows = queries.released_samples(found)
    page = keyset(rows.defer("exported"), request, size=25)
    wanted = request.GET.get("selected", "")
    chosen = rows.filter(pk=int(wanted)).first() if wanted.isdecimal() and len(wanted) < 19 else None
    if chosen is None and page.rows:
        chosen = rows.get(pk=page.rows[0].pk)
    place = next((i for i, row in enumerate(page.rows) if chosen and row.pk == chosen.pk), None)
    context: dict[str, object] = {
        "release": found,
        "page": page,
        "chosen": chosen,
        "place": place,
        "simulated": found.simulated,
        "simulated_reviewers": found.simulated_samples,
    }
    if chosen is not None:
        made = SampleVersion.objects.select_related("case").get(pk=chosen.version_id)
        rubrics = ReleasedRubric.objects.filter(sample=chosen).order_by("pk")
        context |= {"made": made, "blocks": made.case.frozen.blocks, "rubrics": rubrics}
    return render(request, "generation/release_samples.html", context)


@require_GET
@requires(Can.READ_RESULTS)
def release_export(request: HttpRequest, name: str, version: int, format_name: str) -> HttpResponseBase:  # noqa: ARG001
    """The whole release in one format, as a zip whose bytes depend on nothing else."""
    found = _release(name, version)
    file = archive.zipped_release(found, format_name)
    return FileResponse(
        file, as_attachment=True, filename=f"{name}-v{version}-{format_name}.zip", content_type="application/zip"
    )
