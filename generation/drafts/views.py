"""Pages of drafts and of the findings of checks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from generation.batches import queries as batches_queries
from generation.batches import services
from generation.batches.kind import BATCHES
from generation.drafts import forms
from generation.errors import GenerationError
from generation.models import Draft, SampleVersion
from generation.recipes import registry
from generation.samples import queries as samples_queries
from review.cases.forms import ReasonForm
from review.common.decorators import redirect_saying, requires, signed_in_account
from review.common.lists import BulkAction, apply_bulk_action, list_context
from review.errors import ReviewError
from review.models import User
from review.rules.blocks import Block
from review.rules.permissions import Can

RECORD_FIELDS = ("record__private", "record__content")  # large, and not shown in lists


def _action(name: str, label: Promise, service: Callable[..., object]) -> BulkAction:
    def act(key: int, actor: User, data: Mapping[str, Any]) -> object:
        return service(key, actor=actor, **data)

    return BulkAction(name, label, act, ReasonForm, (GenerationError, ReviewError))


DRAFT_ACTIONS = (
    _action("send-to-review", gettext_lazy("Send to review"), services.send_to_review),
    _action("discard", gettext_lazy("Discard"), services.discard_stopped),
)


@requires(Can.PRODUCE, "GET", "POST")
def findings(request: HttpRequest, pk: int) -> HttpResponse:
    """A batch's findings, filtered by the query string; a POST decides on the selected drafts."""
    batch = BATCHES.get(pk)
    drafts = Draft.objects.filter(batch=batch).select_related("record").defer("data", *RECORD_FIELDS)
    if response := apply_bulk_action(request, DRAFT_ACTIONS, drafts, lambda draft: draft.record.title):
        return response
    filters = forms.FindingFilters(request.GET, benchmark=batch.benchmark)
    rows = batches_queries.findings(batch, **filters.active).order_by("-pk")
    sorts = ("draft__record__title", "check_name", "draft__gate")
    context = {"batch": batch, **list_context(request, filters, rows, sorts, DRAFT_ACTIONS)}
    return render(request, "generation/drafts/findings.html", context, status=context["status"])


@requires(Can.PRODUCE, "GET")
def draft(request: HttpRequest, pk: int) -> HttpResponse:
    """One draft: result, findings, decisions, and for a stopped one the decision form."""
    rows = Draft.objects.select_related("batch", "record", "sample").defer("record__private", "record__content")
    draft = get_object_or_404(rows, pk=pk)
    version = SampleVersion.objects.filter(draft=draft).select_related("sample").first()
    is_made = bool(draft.data) and (draft.gate or version)  # one that was erased has no data
    new_sample = None
    blocks: Sequence[Block] = ()
    if is_made:
        new_sample = batches_queries.sample_of_draft(draft)
        blocks = registry.case_spec(draft.batch.benchmark, new_sample, "", draft.version).blocks
    context = {
        "draft": draft,
        "made": new_sample,
        "blocks": blocks,
        "lineage": samples_queries.lineage(draft.batch.benchmark, draft),
        "findings": draft.findings.select_related("other").order_by("pk"),
        "events": draft.gate_events.select_related("actor").order_by("pk"),
        "version": version,
        "form": forms.DecisionForm(),
        "simulated": batches_queries.is_simulated(draft.batch_id),
        "stopped": draft.gate == Draft.Gate.STOPPED,
    }
    return render(request, "generation/drafts/draft.html", context)


@requires(Can.PRODUCE, "POST")
def draft_send_to_review(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a stopped draft to review."""
    draft = get_object_or_404(Draft, pk=pk)
    version = services.send_to_review(draft.pk, actor=signed_in_account(request), reason=request.POST.get("reason", ""))
    messages.success(request, _("Sent to review as %(sample)s.") % {"sample": version.sample.key})
    return redirect("generation:draft", pk)


@requires(Can.PRODUCE, "POST")
def draft_discard(request: HttpRequest, pk: int) -> HttpResponse:
    """Discard a stopped draft."""
    draft = get_object_or_404(Draft, pk=pk)
    services.discard_stopped(draft.pk, actor=signed_in_account(request), reason=request.POST.get("reason", ""))
    return redirect_saying(request, _("Draft discarded."), "generation:draft", pk)
