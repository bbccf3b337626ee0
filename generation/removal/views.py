"""The page that archives and deletes a source, a record or a batch."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from generation.errors import GenerationError
from generation.models import Batch, Source
from generation.removal import queries, services
from generation.removal.forms import DeletionForm
from generation.removal.queries import Subject
from review.cases.erasure import ERASED
from review.common.decorators import refusals_on, render_form, requires, signed_in_account
from review.rules.permissions import Can


@requires(Can.PRODUCE, "GET", "POST", acting=True)
def removal(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Archive something, restore it, or delete it for good; what each would do."""
    row = queries.subject(kind, pk)
    action = request.POST.get("action", "")
    posted = None
    if action == "delete":
        posted = request.POST
    form = DeletionForm(posted)
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
            if isinstance(row, Batch):
                return redirect("generation:batches")
            return redirect("generation:sources")
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
    return render_form(request, "generation/removal/removal.html", context, refused=form.errors)


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
