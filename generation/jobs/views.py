"""Pages and controls of jobs of any kind."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import trigger_client_event

from generation import tasks
from generation.jobs import kinds, life_cycle, queries, services
from generation.jobs.forms import BudgetForm
from generation.jobs.kinds import JobKind
from generation.models import Job
from review.common.decorators import requires
from review.common.paging import keyset
from review.common.waking import wake_after_commit
from review.rules.permissions import allowed

CALLS_SHOWN = 5  # failed calls, on the page of a job
Page = Callable[[HttpRequest, JobKind[Any], int], HttpResponse]
View = Callable[..., HttpResponseBase]


def _of_a_kind(right: str) -> Callable[[Page], View]:
    """Decorate a view of a job: it needs the permission that the kind names as its `right`."""

    def decorate(page: Page) -> View:
        @wraps(page)
        def view(request: HttpRequest, pk: int, kind: str) -> HttpResponseBase:
            found = kinds.kind_named(kind)

            @requires(getattr(found, right))
            def guarded(request: HttpRequest) -> HttpResponse:
                return page(request, found, pk)

            return guarded(request)

        return view

    return decorate


def _where(kind: JobKind[Any], job: Job) -> dict[str, Any]:
    """A job with its title and the pages around it."""
    return {
        "job": job,
        "title": kind.title(job),
        "page_of_job": kind.address("", job.pk),
        "list_page": kind.list_address(),
        "list_title": kind.titles[1],
    }


def progress_context(kind: JobKind[Any], job: Job, request: HttpRequest) -> dict[str, Any]:
    """Context of a job's progress."""
    running, now, found = job.status == Job.Status.RUNNING, kind.live(job), kind.progress(job)
    return {
        **_where(kind, job),
        "progress": found,
        "bars": kind.bars(job),
        "tiles": kind.tiles(found),
        "announced": found.percent // 10 * 10,
        "mark": f"{job.status}-{job.calls}-{job.hits}-{found.ended}",
        "live": now,
        "may_control": allowed(request.user, kind.control),
        "addresses": {what: kind.address(what, job.pk) for what in _PAGES},
        "failures_page": kind.address("failures", job.pk),
        "running": running,
        "idle": running and not now.worker_lives,
    }


def job_context(kind: JobKind[Any], job: Job, request: HttpRequest) -> dict[str, Any]:
    """Context of a job's page: progress, controls, budget and failures."""
    return {
        **progress_context(kind, job, request),
        "advice": life_cycle.advice(job),
        "behind": queries.behind_the_pause(job, kind.endpoints(job)),
        "budget": BudgetForm.of(job),
        "failures": queries.failed_calls(job)[:CALLS_SHOWN],
        **kind.page_notes(job),
    }


@require_safe
@_of_a_kind("read")
def show(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """The page of a job whose kind has no page of its own."""
    return render(request, "generation/jobs/job.html", job_context(kind, kind.watched(pk), request))


@require_safe
@_of_a_kind("read")
def progress(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """A job's progress, in one statement; once it does not run any more, the whole page is refreshed (live.js)."""
    found = kind.watched(pk)
    context = {**progress_context(kind, found, request), "fragment": True}
    answer = render(request, "generation/jobs/_progress.html", context)
    return answer if context["running"] else trigger_client_event(answer, "mhb:changed")


@require_safe
@_of_a_kind("read")
def failures(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Failed calls of a job, all or with one error class (`?error=`)."""
    found = kind.get(pk)
    error = request.GET.get("error", "")
    context = {
        **_where(kind, found),
        "page": keyset(queries.failed_calls(found, error), request, size=25, newest_first=True),
        "error": error,
        **kind.page_notes(found),
    }
    return render(request, "generation/jobs/failures.html", context)


@_of_a_kind("control")
def cancel(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Cancel a job. This cannot be undone, so the page asks for confirmation."""
    if request.method != "POST":
        found = kind.watched(pk)
        context = {**progress_context(kind, found, request), "warning": kind.cancel_warning(kind.progress(found))}
        return render(request, "generation/jobs/cancel.html", context)
    services.cancel(kind.get(pk).pk)
    messages.success(request, _("Cancelled. Results so far are kept."))
    return redirect(kind.address("", pk))


@require_POST
@_of_a_kind("control")
def pause(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Pause a job: no new calls start."""
    life_cycle.pause(kind.get(pk).pk)
    messages.success(request, _("Paused. Calls in progress will finish."))
    return redirect(kind.address("", pk))


@require_POST
@_of_a_kind("control")
def resume(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Resume a job."""
    services.resume(kind.get(pk).pk)
    return _going_on(request, kind, pk, _("Resumed."))


@require_POST
@_of_a_kind("control")
def budget(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Change a job's budget. If it paused for its budget, it continues."""
    found, form = kind.get(pk), BudgetForm(request.POST)
    if not form.is_valid():
        messages.error(request, form.said)
        return redirect(kind.address("", pk))
    data = form.cleaned_data
    life_cycle.set_budget(found.pk, money=data["budget_money"], calls=data["budget_calls"])
    return _going_on(request, kind, pk, _("Budget changed."))


@require_POST
@_of_a_kind("control")
def retry(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Queue the failed rows of a job again."""
    count = services.retry_failed(kind.get(pk).pk)
    said = ngettext("Retrying %(count)d failed item.", "Retrying %(count)d failed items.", count)
    return _going_on(request, kind, pk, said % {"count": count})


def _going_on(request: HttpRequest, kind: JobKind[Any], pk: int, said: str) -> HttpResponse:
    wake_after_commit(tasks.work_on_job, pk)
    messages.success(request, said)
    return redirect(kind.address("", pk))


_PAGES: dict[str, View] = {
    "progress": progress,
    "failures": failures,
    "cancel": cancel,
    "pause": pause,
    "resume": resume,
    "budget": budget,
    "retry": retry,
}


def routes(app: str) -> list[URLPattern]:
    """The routes of all kinds of jobs of an app."""
    found = []
    for kind in kinds.all_kinds():
        if kind.model._meta.app_label == app:
            place, given = f"{kind.plural}/<int:pk>/", {"kind": kind.name}
            found += [path(f"{place}{what}/", view, given, f"{kind.name}-{what}") for what, view in _PAGES.items()]
            if not kind.own_page:
                found.append(path(place, show, given, kind.name))
    return found
