"""The page of a batch's merges."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _

from generation import errors
from generation.batches import queries as batches_queries
from generation.merges import forms, queries, services
from generation.models import Draft
from review.common.decorators import (
    posted_data,
    redirect_saying,
    refusals_on,
    render_form,
    requires,
    signed_in_account,
)
from review.common.paging import keyset_page
from review.rules.diffing import diff_words
from review.rules.permissions import Can

SHOWN = 20
DECISIONS_SHOWN = 50
NEAR_SHOWN = 20


@requires(Can.PRODUCE, "GET", "POST")
def merges(request: HttpRequest, pk: int) -> HttpResponse:
    """The drafts of a batch that go on as one, with distance and reason; a POST merges two more."""
    batch = queries.merging_batch(pk)
    form = forms.MergeForm(posted_data(request))
    if form.is_valid():
        with refusals_on(form, errors.GenerationError):
            services.merge_drafts(**form.cleaned_data, actor=signed_in_account(request), batch_id=batch.pk)
            return redirect_saying(request, _("Drafts merged."), "generation:merges", pk)
    merged_only = request.GET.get("show") != "all"
    page = keyset_page(queries.onward_drafts(batch, merged_only=merged_only), request, size=SHOWN)
    near = queries.near_matches(batch)
    shown = []
    for row in queries.groups(batch, page.rows):
        merged_texts = [(merged, diff_words(row.lead.text, merged.text)) for merged in row.merged]
        shown.append((row, merged_texts))
    near_rows = queries.near_rows(batch, near[:NEAR_SHOWN])
    context = {
        "batch": batch,
        "form": form,
        "counts": queries.merge_counts(batch),
        "only": merged_only,
        "page": page,
        "shown": shown,
        "near": [(row, diff_words(row.earlier_text, row.text)) for row in near_rows],
        "near_count": near.count(),
        "decisions": queries.decisions(batch)[:DECISIONS_SHOWN],
        "settings": batch.settings,
        "simulated": batches_queries.is_simulated(batch.pk),
    }
    return render_form(request, "generation/merges/merges.html", context, refused=form.errors)


@requires(Can.PRODUCE, "POST")
def merge_undo(request: HttpRequest, pk: int) -> HttpResponse:
    """Take a draft out of the one that it was merged into."""
    row = get_object_or_404(Draft, pk=pk)
    try:
        services.undo_merge(row.pk, actor=signed_in_account(request), reason=request.POST.get("reason", ""))
    except errors.NotMerged as error:  # a second click; the page shows what the first one did
        messages.warning(request, str(error))
    else:
        messages.success(request, _("Merge undone. Draft %(n)s now continues by itself.") % {"n": pk})
    return redirect("generation:merges", row.batch_id)
