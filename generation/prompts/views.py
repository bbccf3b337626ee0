"""Pages of prompt sets."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from generation import errors
from generation.models import Batch
from generation.prompts import forms, queries, services
from generation.recipes import registry
from review.common.decorators import posted_data, refusals_on, render_form, requires, signed_in_account
from review.rules.permissions import Can, allowed


@requires(Can.READ_RESULTS, "GET")
def prompts(request: HttpRequest) -> HttpResponse:
    """The prompt sets of each benchmark, and the form that compares two."""
    benchmarks = [(name, registry.label(name), queries.sets(name)) for name in registry.names()]
    return render(request, "generation/prompts/prompts.html", {"benchmarks": benchmarks})


@requires(Can.READ_RESULTS, "GET")
def prompt_set(request: HttpRequest, benchmark: str, name: str) -> HttpResponse:
    """One set's prompts, as they are sent."""
    shown = _shown(benchmark, name)
    if shown.stored:
        jobs = shown.stored.jobs.order_by("-pk")[:20]
    else:
        jobs = Batch.objects.none()
    context = {**_context(benchmark), "shown": shown, "jobs": jobs, "may_edit": allowed(request.user, Can.PRODUCE)}
    return render(request, "generation/prompts/prompt_set.html", context)


@requires(Can.READ_RESULTS, "GET")
def prompts_compare(request: HttpRequest, benchmark: str) -> HttpResponse:
    """Two sets, the differences marked."""
    first = _shown(benchmark, request.GET.get("a") or queries.DEFAULT)
    second = _shown(benchmark, request.GET.get("b") or queries.DEFAULT)
    context = {
        **_context(benchmark),
        "first": first,
        "second": second,
        "names": [shown.name for shown in queries.sets(benchmark)],
        "differences": queries.differences(first, second),
    }
    return render(request, "generation/prompts/compare.html", context)


@requires(Can.PRODUCE, "GET", "POST", acting=True)
def prompts_edit(request: HttpRequest, benchmark: str, name: str) -> HttpResponse:
    """Edit a set; saving makes a new version of a set of one's own."""
    base = _shown(benchmark, name)
    form = forms.PromptSetForm(posted_data(request), base=base)
    if form.is_valid():
        with refusals_on(form, errors.GenerationError):
            saved = services.save(
                benchmark,
                form.cleaned_data["name"],
                form.texts,
                based_on=base.key,
                note=form.cleaned_data["note"],
                actor=signed_in_account(request),
            )
            messages.success(request, _("Prompt set %(name)s saved.") % {"name": saved})
            return redirect("generation:prompt-set", benchmark, str(saved))
    context = {**_context(benchmark), "base": base, "form": form}
    return render_form(request, "generation/prompts/edit.html", context, refused=form.errors)


def _shown(benchmark: str, name: str) -> queries.ShownSet:
    try:
        return queries.shown_set(benchmark, name)
    except (errors.UnknownPrompts, errors.UnknownBenchmark) as unknown:
        raise Http404(str(unknown)) from unknown


def _context(benchmark: str) -> dict[str, str]:
    return {"benchmark": benchmark, "label": registry.label(benchmark)}
