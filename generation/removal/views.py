"""The page that archives and deletes a source, a record or a batch."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from generation.errors import GenerationError
from generation.models import Batch, Source
from generation.removal import queries, services
from generation.removal.forms import DeletionForm
from generation.removal.queries import Subject
from review.cases.erasure import ERASED
from review.common.decorators import refusals_on, requires, signed_in_account
from review.rules.permissions import Can


@requires(Can.PRODUCE, "GET", "POST", acting=True)
def removal(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Archive something, restore it, or delete it for good; what each would do."""
    row = queries.subject(kind, pk)
    action = request.POST.get("action", "")
    form = DeletionForm(request.POST if action == "delete" else None)
    actor = None
    if request.method == "POST":
        actor = signed_in_account(request)
    try:
        if action == "archive":
            services.archive(kind, pk, actor=actor)
            messages.success(request, _("Archived. Lists and choices leave it out now."))
            return redirect(_address(row))
        if action == "restore":
            services.restore(kind, pk, actor=actor)
            messages.success(request, _("Restored."))
            return redirect(_address(row))
    except GenerationError as refusal:
        messages.error(request, str(refusal))
    if form.is_bound and form.is_valid():
        with refusals_on(form, GenerationError):
            services.delete(kind, pk, reason=form.cleaned_data["reason"], actor=actor)
            messages.success(request, _("Deleted. The audit trail keeps the reason and a digest."))
            return redirect("generation:batches" if isinstance(row, Batch) else "generation:sources")
    context: dict[str, Any] = {
        "row": row,
        "name": _name(row),
        "kind": kind,
        "address": _address(row),
        "extent": queries.extent(row),
        "released": queries.releases_of(queries.versions_of(queries.drafts_of(row))),
        "command": services.command(row),
        "is_erased": ERASED in (getattr(row, "label", ""), getattr(row, "title", "")),
        "form": form,
    }
    return render(request, "generation/removal/removal.html", context, status=422 if form.errors else 200)


def _name(row: Subject) -> str:
    if isinstance(row, Source):
        return row.name
    if isinstance(row, Batch):
        return _("Batch %(n)s") % {"n": row.pk}
    return row.title


def _address(row: Subject) -> str:
    if isinstance(row, Source):
        return reverse("generation:source", args=[row.name])
    if isinstance(row, Batch):
        return reverse("generation:batch", args=[row.pk])
    return reverse("generation:record", args=[row.source.name, row.pk])
