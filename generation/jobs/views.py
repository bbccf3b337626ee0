"""Pages and controls of jobs of whatever kind."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRefresh

from generation import tasks
from generation.jobs import kinds, life_cycle, queries, services
from generation.jobs.forms import BudgetForm
from generation.jobs.kinds import JobKind
from generation.models import Job
from review.common.decorators import requires
from review.common.paging import keyset
from review.rules.permissions import allowed

CALLS_SHOWN = 5  # of those that failed, with what came back
Page = Callable[[HttpRequest, JobKind[Any], int], HttpResponse]
View = Callable[..., HttpResponseBase]


def _of_a_kind(right: str) -> Callable[[Page], View]:
    """Decorate a view of a job: whose role does not allow the kind's `right` gets NotAllowed (403)."""

    def decorate(page: Page) -> View:
        @wraps(page)
        def view(request: HttpRequest, pk: int, kind: str) -> HttpResponseBase:
            found = kinds.named(kind)

            @requires(getattr(found, right))
            def guarded(request: HttpRequest) -> HttpResponse:
                return page(request, found, pk)

            return guarded(request)

        return view

    return decorate


def _where(kind: JobKind[Any], job: Job) -> dict[str, Any]:
    """A job and its place among the pages."""
    return {
        "job": job,
        "title": kind.title(job),
        "page_of_job": kind.address("", job.pk),
        "list_page": kind.list_address(),
        "list_title": kind.titles[1],
    }


def progress_context(kind: JobKind[Any], job: Job, request: HttpRequest) -> dict[str, Any]:
    """What the progress of a job, watched or not, shows."""
    running, now, found = job.status == Job.Status.RUNNING, kind.live(job), kind.progress(job)
    return {
        **_where(kind, job),
        "progress": found,
        "bars": kind.bars(job),
        "tiles": kind.tiles(found),
        "live": now,
        "may_control": allowed(request.user, kind.control),
        "addresses": {what: kind.address(what, job.pk) for what in _PAGES},
        "failures_page": kind.address("failures", job.pk),
        "running": running,
        "idle": running and not now.worker_lives,
    }


def job_context(kind: JobKind[Any], job: Job, request: HttpRequest) -> dict[str, Any]:
    """The same, with what may be done about it: for the page of a job that `watched` has read."""
    return {
        **progress_context(kind, job, request),
        "advice": life_cycle.advice(job),
        "behind": queries.behind_the_pause(job, kind.endpoints(job)),
        "budget": BudgetForm.of(job),
        "failures": queries.failed_calls(job)[:CALLS_SHOWN],
        **kind.notes(job),
    }


@require_safe
@_of_a_kind("read")
def show(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """One job of a kind that has no page of its own."""
    return render(request, "generation/jobs/job.html", job_context(kind, kind.watched(pk), request))


@require_safe
@_of_a_kind("read")
def progress(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """How far a job is, in one statement; once it has ended, the page is loaded afresh."""
    found = kind.watched(pk)
    if found.status != Job.Status.RUNNING:
        return HttpResponseClientRefresh()
    return render(request, "generation/jobs/_progress.html", progress_context(kind, found, request))


@require_safe
@_of_a_kind("read")
def failures(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Every call of a job that ended in an error, or those of one class (`?error=`), with what came back."""
    found = kind.get(pk)
    error = request.GET.get("error", "")
    context = {
        **_where(kind, found),
        "page": keyset(queries.failed_calls(found, error), request, size=25, newest_first=True),
        "error": error,
        **kind.notes(found),
    }
    return render(request, "generation/jobs/failures.html", context)


@_of_a_kind("control")
def cancel(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Take nothing further of a job; it cannot be taken back, so the page asks first."""
    if request.method != "POST":
        found = kind.watched(pk)
        context = {**progress_context(kind, found, request), "lost": kind.lost(kind.progress(found))}
        return render(request, "generation/jobs/cancel.html", context)
    services.cancel(kind.get(pk).pk)
    messages.success(request, _("It was cancelled. What was done stays."))
    return redirect(kind.address("", pk))


@require_POST
@_of_a_kind("control")
def pause(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Start no further call of a job."""
    life_cycle.pause(kind.get(pk).pk)
    messages.success(request, _("It is paused. What was under way is brought to its end and kept."))
    return redirect(kind.address("", pk))


@require_POST
@_of_a_kind("control")
def resume(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Go on with it."""
    services.resume(kind.get(pk).pk)
    return _going_on(request, kind, pk, _("It goes on."))


@require_POST
@_of_a_kind("control")
def budget(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Give it another budget; one that had paused for want of it goes on."""
    found, form = kind.get(pk), BudgetForm(request.POST)
    if not form.is_valid():
        messages.error(request, form.said)
        return redirect(kind.address("", pk))
    data = form.cleaned_data
    life_cycle.set_budget(found.pk, money=data["budget_money"], calls=data["budget_calls"])
    return _going_on(request, kind, pk, _("The budget was changed."))


@require_POST
@_of_a_kind("control")
def retry(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Try again what failed."""
    count = services.retry_failed(kind.get(pk).pk)
    said = ngettext("%(count)d piece of work is tried again.", "%(count)d pieces of work are tried again.", count)
    return _going_on(request, kind, pk, said % {"count": count})


def _going_on(request: HttpRequest, kind: JobKind[Any], pk: int, said: str) -> HttpResponse:
    transaction.on_commit(partial(tasks.wake, tasks.work_on_job, pk))
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
    """The addresses of the jobs of an app, of every kind that it has."""
    found = []
    for kind in kinds.every():
        if kind.model._meta.app_label == app:
            place, given = f"{kind.plural}/<int:pk>/", {"kind": kind.name}
            found += [path(f"{place}{what}/", view, given, f"{kind.name}-{what}") for what, view in _PAGES.items()]
            if not kind.own_page:
                found.append(path(place, show, given, kind.name))
    return found
