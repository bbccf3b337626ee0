"""Pages and controls of jobs of any kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils.crypto import get_random_string
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django_htmx.http import trigger_client_event

from generation.errors import GenerationError, KeyReused
from generation.jobs import kinds, life_cycle, queries, services
from generation.jobs.estimate import Estimate
from generation.jobs.forms import BUDGET, LAUNCH_KEY, BudgetForm, LimitsForm, SpendingForm
from generation.jobs.kinds import JobKind
from generation.models import Job
from generation.trials import checking
from review.common.decorators import (
    redirect_refused,
    redirect_saying,
    refusal_text,
    refusals_on,
    requires,
    signed_in_account,
)
from review.common.paging import keyset_page
from review.errors import ShownError
from review.rules.permissions import allowed

CALLS_SHOWN = 5  # failed calls, on the page of a job
Page = Callable[[HttpRequest, JobKind[Any], int], HttpResponse]
View = Callable[..., HttpResponseBase]


def _for_kind(right: str, *methods: Literal["GET", "POST"]) -> Callable[[Page], View]:
    """Decorate a view of a job: it requires the kind's permission `right` (`read` or `control`)."""

    def decorate(page: Page) -> View:
        @wraps(page)
        def view(request: HttpRequest, pk: int, kind: str) -> HttpResponseBase:
            job_kind = kinds.kind_named(kind)

            @requires(getattr(job_kind, right), *methods, acting=right == "control")
            def guarded(request: HttpRequest) -> HttpResponse:
                try:
                    return page(request, job_kind, pk)
                except GenerationError as error:
                    if request.method != "POST" or error.status != 409:
                        raise
                    # The job has moved on: its page says how it is now.
                    return redirect_refused(request, str(error), job_kind.address("", pk))

            return guarded(request)

        return view

    return decorate


def _job_location(kind: JobKind[Any], job: Job) -> dict[str, Any]:
    """Context: a job with its title and the pages around it."""
    return {
        "job": job,
        "title": kind.title(job),
        "job_url": kind.address("", job.pk),
        "list_url": kind.list_address(),
        "list_title": kind.titles[1],
    }


def progress_context(kind: JobKind[Any], job: Job, request: HttpRequest) -> dict[str, Any]:
    """Context of a job's progress."""
    running, live, progress = job.status == Job.Status.RUNNING, kind.live(job), kind.progress(job)
    return {
        **_job_location(kind, job),
        "progress": progress,
        "bars": kind.bars(job),
        "tiles": kind.tiles(progress),
        "announced": progress.percent // 10 * 10,
        "mark": f"{job.status}-{job.calls}-{job.hits}-{progress.ended}",
        "live": live,
        "may_control": allowed(request.user, kind.control),
        "urls": {page: kind.address(page, job.pk) for page in _PAGES},
        "failures_url": kind.address("failures", job.pk),
        "running": running,
        "idle": running and not live.worker_lives,
    }


@dataclass(frozen=True, slots=True)
class Launch:
    """What a page launches, in two steps: a form, then the estimate with a budget to confirm.

    Attributes:
        form_page, estimate_page: the templates of both steps.
        estimate: the service that estimates the settings of the form.
        launch: launches them, with the budget; returns the URL to go to. Takes `actor` and `key`.
        more: further context of the second step.
    """

    form_page: str
    estimate_page: str
    estimate: Callable[[Any], Estimate]
    launch: Callable[..., str]
    more: Callable[[Any], Mapping[str, Any]] = lambda _settings: {}

    def respond(self, request: HttpRequest, form: SpendingForm, context: Mapping[str, Any]) -> HttpResponse:
        """Show the form, or the estimate of a sent one, or launch what was confirmed.

        `?estimate` asks for the estimate beside the form only. A refusal is shown on the form,
        which keeps what was typed.
        """
        if "estimate" in request.GET:
            return self._estimate_beside(request, form)
        going_back = "back" in request.POST or form.is_growing()
        if not going_back and form.is_valid():
            with refusals_on(form, ShownError, but=(KeyReused,)):
                return self._confirm(request, form)
        status = 200
        if form.errors and not going_back:
            status = 422
        return render(request, self.form_page, {"form": form, **context}, status=status)

    def _estimate_beside(self, request: HttpRequest, form: SpendingForm) -> HttpResponse:
        """The estimate beside the form, or why there is none yet."""
        estimate = None
        if form.is_valid():
            with refusals_on(form, ShownError, but=(KeyReused,)):
                estimate = self.estimate(form.settings)
        context = {"estimate": estimate, "problem": " ".join(map(str, form.non_field_errors()))}
        return render(request, "generation/jobs/_estimate_beside.html", context)

    def _confirm(self, request: HttpRequest, form: SpendingForm) -> HttpResponse:
        """Show the estimate with a proposed budget, or launch with the confirmed one."""
        settings, confirmed = form.settings, "confirmed" in request.POST
        budget = BudgetForm(request.POST if confirmed else None)
        if confirmed and budget.is_valid():
            actor, key = signed_in_account(request), request.POST.get(LAUNCH_KEY, "")
            return redirect(self.launch(settings.model_copy(update=budget.values), actor=actor, key=key))
        estimate = self.estimate(settings)
        budget.initial = {name: getattr(estimate, name) for name in BUDGET}
        carried = [*form.carried, (LAUNCH_KEY, get_random_string(32))]
        context = {"settings": settings, "estimate": estimate, "form": budget, "carried": carried}
        context["first_step"] = form.records_title
        status = 200
        if confirmed:
            status = 422
        return render(request, self.estimate_page, {**context, **self.more(settings)}, status=status)


def job_context(kind: JobKind[Any], job: Job, request: HttpRequest) -> dict[str, Any]:
    """Context of a job's page: progress, controls, budget and failures."""
    return {
        **progress_context(kind, job, request),
        "advice": life_cycle.advice(job),
        "first_result": kind.first_result(job) if job.paused_because == life_cycle.FIRST_RECORD else "",
        "model_checks": list(job.model_checks.values()),
        "adaptable": job.paused_because == checking.MODEL_CHECK
        and {entry["endpoint"]: remedy for entry in job.model_checks.values() if (remedy := checking.remedy_of(entry))},
        "failing_endpoints": queries.endpoints_behind_pause(job, kind.endpoints(job)),
        "budget": LimitsForm.for_job(job),
        "failures": kind.visible_calls(job, queries.failed_calls(job), request.user)[:CALLS_SHOWN],
        **kind.page_notes(job),
    }


@_for_kind("read", "GET")
def show(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """The page of a job whose kind has no page of its own."""
    return render(
        request, "generation/jobs/job.html", job_context(kind, kind.get_with_status(pk, request.user), request)
    )


@_for_kind("read", "GET")
def progress(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """A job's progress, read in one statement.

    When the job stops running, live.js reloads the whole page.
    """
    job = kind.get_with_status(pk, request.user)
    context = {**progress_context(kind, job, request), "fragment": True}
    answer = render(request, "generation/jobs/_progress.html", context)
    if context["running"]:
        return answer
    return trigger_client_event(answer, "mhb:changed")


@_for_kind("read", "GET")
def failures(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Failed calls of a job, all or with one error class (`?error=`)."""
    job = kind.get(pk)
    error = request.GET.get("error", "")
    calls = kind.visible_calls(job, queries.failed_calls(job, error), request.user)
    context = {
        **_job_location(kind, job),
        "page": keyset_page(calls, request, size=25, newest_first=True),
        "error": error,
        **kind.page_notes(job),
    }
    return render(request, "generation/jobs/failures.html", context)


@_for_kind("control")
def cancel(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Cancel a job. This cannot be undone, so the page asks for confirmation."""
    if request.method != "POST":
        job = kind.get_with_status(pk, request.user)
        context = {**progress_context(kind, job, request), "warning": kind.cancel_warning(kind.progress(job))}
        return render(request, "generation/jobs/cancel.html", context)
    services.cancel(kind.get(pk).pk)
    return redirect_saying(request, _("Cancelled. Results so far are kept."), kind.address("", pk))


def _controlled(act: Callable[[int], object], answer: Promise) -> View:
    """A view that does something to a job and says so."""

    @_for_kind("control", "POST")
    def control(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
        act(kind.get(pk).pk)
        return redirect_saying(request, str(answer), kind.address("", pk))

    return control


@_for_kind("control", "POST")
def budget(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Change a job's budget and pace. If it paused for its budget, it continues."""
    job, form = kind.get(pk), LimitsForm(request.POST)
    if not form.is_valid():
        return redirect_refused(request, refusal_text(form), kind.address("", pk))
    life_cycle.change_limits(job.pk, **{name: value for name, value in form.cleaned_data.items() if value != ""})
    return redirect_saying(request, _("Limits changed."), kind.address("", pk))


@_for_kind("control", "POST")
def retry(request: HttpRequest, kind: JobKind[Any], pk: int) -> HttpResponse:
    """Queue the failed rows of a job again."""
    count = services.retry_failed(kind.get(pk).pk)
    message = ngettext("Retrying %(count)d failed item.", "Retrying %(count)d failed items.", count)
    return redirect_saying(request, message % {"count": count}, kind.address("", pk))


_PAGES: dict[str, View] = {
    "progress": progress,
    "failures": failures,
    "cancel": cancel,
    "pause": _controlled(life_cycle.pause, gettext_lazy("Paused. Calls in progress will finish.")),
    "resume": _controlled(services.resume, gettext_lazy("Resumed.")),
    "adapt": _controlled(checking.adapt, gettext_lazy("The endpoints are changed. Resumed.")),
    "budget": budget,
    "retry": retry,
}


def routes(app: str) -> list[URLPattern]:
    """The routes of all kinds of jobs of an app."""
    patterns = []
    for kind in kinds.all_kinds():
        if kind.model._meta.app_label == app:
            place, arguments = f"{kind.plural}/<int:pk>/", {"kind": kind.name}
            for page, view in _PAGES.items():
                patterns.append(path(f"{place}{page}/", view, arguments, f"{kind.name}-{page}"))
            if not kind.own_page:
                patterns.append(path(place, show, arguments, kind.name))
    return patterns
