"""Controls of a batch: cancel, pause, resume, budget, retry."""

from functools import partial

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from generation import tasks
from generation.batches import services
from generation.batches.views import get_batch, progress_context
from generation.jobs import forms
from review.common.decorators import requires
from review.rules.permissions import Can


@requires(Can.PRODUCE)
def batch_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Take no further draft of it; it cannot be taken back, so the page asks first."""
    found = get_batch(pk)
    if request.method != "POST":
        return render(request, "generation/batches/batch_cancel.html", {"batch": found, **progress_context(found)})
    services.cancel_batch(found.pk)
    messages.success(request, _("Batch cancelled. What it generated is kept."))
    return redirect("generation:batch", pk)


@require_POST
@requires(Can.PRODUCE)
def batch_pause(request: HttpRequest, pk: int) -> HttpResponse:
    """Start no further call of it."""
    services.pause_batch(get_batch(pk).pk)
    messages.success(request, _("Paused. Calls in progress will finish."))
    return redirect("generation:batch", pk)


@require_POST
@requires(Can.PRODUCE)
def batch_resume(request: HttpRequest, pk: int) -> HttpResponse:
    """Go on with it."""
    services.resume_batch(get_batch(pk).pk)
    transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
    messages.success(request, _("Resumed."))
    return redirect("generation:batch", pk)


@require_POST
@requires(Can.PRODUCE)
def batch_budget(request: HttpRequest, pk: int) -> HttpResponse:
    """Give it another budget; one that had paused for want of it goes on."""
    found = get_batch(pk)
    form = forms.BudgetForm(request.POST)
    if not form.is_valid():
        messages.error(request, form.said)
        return redirect("generation:batch", pk)
    data = form.cleaned_data
    services.set_batch_budget(found.pk, money=data["budget_money"], calls=data["budget_calls"])
    transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
    messages.success(request, _("Budget changed."))
    return redirect("generation:batch", pk)


@require_POST
@requires(Can.PRODUCE)
def batch_retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Try again what failed."""
    count = services.retry_failed(get_batch(pk).pk)
    transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
    said = ngettext("Retrying %(count)d draft.", "Retrying %(count)d drafts.", count)
    messages.success(request, said % {"count": count})
    return redirect("generation:batch", pk)
