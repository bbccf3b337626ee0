"""Training pages: calibration items, physicians' results, and the tour with its practice case."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from review.answers.answer_form import fill_form
from review.calibration import practice, queries, services
from review.calibration.forms import ExpectedForm, PracticeForm
from review.common.decorators import posted_data, redirect_saying, render_form, requires, signed_in_account
from review.models import CalibrationItem, Case
from review.rules.case_spec import answers_from_json, spec_from_json
from review.rules.permissions import Can, require
from review.rules.questions import problems
from review.rules.state_machine import State


@requires(Can.OVERSEE, "GET")
def calibration(request: HttpRequest) -> HttpResponse:
    """All calibration items, and the results of all physicians."""
    answered = Q(cases__state__in=(State.APPROVED, State.REJECTED))
    context = {
        "items": queries.items().annotate(copies=Count("cases", filter=answered)).defer("spec"),
        "results": queries.results(),
        "pass_percent": round(100 * queries.PASS_SHARE),
        "pass_items": queries.PASS_ITEMS,
    }
    return render(request, "review/calibration/calibration.html", context)


@requires(Can.OVERSEE, acting=True)
def calibration_new(request: HttpRequest, case_id: int) -> HttpResponse:
    """Create a calibration item from a closed case. The form starts with the settled answers."""
    case = get_object_or_404(Case, pk=case_id)
    form = ExpectedForm(request.POST or None, form=case.localized_spec.form, expected=queries.suggested_answers(case))
    if request.method == "POST" and form.is_valid():
        services.make_item(case, form.answers(), actor=signed_in_account(request))
        return redirect_saying(request, _("Calibration case created."), "review:calibration")
    context = {"form": form, "title": case.title, "blocks": case.frozen.blocks, "language": case.language}
    return render_form(request, "review/calibration/calibration_item.html", context, refused=form.is_bound)


@requires(Can.OVERSEE)
def calibration_item(request: HttpRequest, item_id: int) -> HttpResponse:
    """One calibration item: its text, its expected answers, and a switch to deactivate it."""
    item = get_object_or_404(CalibrationItem, pk=item_id)
    spec = spec_from_json(item.spec).in_language(get_language() or "")
    posted = None
    if request.POST and "active" not in request.POST:
        posted = request.POST
    form = ExpectedForm(posted, form=spec.form, expected=answers_from_json(item.expected))
    if request.method == "POST" and "active" in request.POST:
        services.change_item(item, actor=signed_in_account(request), active=request.POST["active"] == "1")
        if item.active:
            messages.success(request, _("Calibration case activated."))
        else:
            messages.success(request, _("Calibration case deactivated."))
        return redirect("review:calibration")
    if form.is_bound and form.is_valid():
        services.change_item(item, actor=signed_in_account(request), expected=form.answers())
        return redirect_saying(request, _("Known answers saved."), "review:calibration")
    context = {"form": form, "title": item.title, "item": item, "blocks": spec.blocks, "language": spec.language}
    return render_form(request, "review/calibration/calibration_item.html", context, refused=form.is_bound)


def _practice(request: HttpRequest, benchmark: str) -> practice.Practice:
    """The practice of a benchmark, for accounts that review or oversee."""
    require(request.user, Can.REVIEW, Can.OVERSEE, reading=True)
    result = practice.practice(benchmark)
    if result is None:
        raise Http404
    return result


@require_GET
@login_required
def tour(request: HttpRequest, benchmark: str = "") -> HttpResponse:
    """What is judged, and the taxonomy by examples, before the practice case."""
    names = practice.names()
    largest = Case.objects.filter(benchmark__in=names).values_list("benchmark").annotate(n=Count("pk")).order_by("-n")
    chosen = benchmark
    if not chosen:
        chosen, _cases = largest.first() or (names[0], 0)
    context = {"practice": _practice(request, chosen), "benchmark": chosen, "benchmarks": names}
    return render(request, "review/calibration/tour.html", context)


@login_required
def tour_case(request: HttpRequest, benchmark: str) -> HttpResponse:
    """The practice case: first look, remaining questions, explained answers.

    Each step posts its answers to the next one; nothing is stored.
    """
    practised = _practice(request, benchmark)
    case_form = practised.spec.form
    first_keys = [question.key for question in case_form.first_look.questions]
    posted = posted_data(request)
    steps = 1
    if first_keys:
        steps = 2
    context = {"practice": practised, "benchmark": benchmark, "steps": steps}
    first = PracticeForm(posted, form=case_form.first_look, judged=False)
    if first_keys and not first.is_valid():
        context |= {"form": first, "blocks": practised.spec.first_look, "step": 1}
        return render_form(request, "review/calibration/tour_case.html", context, refused=posted is not None)
    judged, initial = None, None
    if posted is not None and "verdict_asked" in posted:
        judged = posted
    elif first_keys and posted is not None:
        initial = first.cleaned_data
    form = PracticeForm(judged, form=case_form, hidden=first_keys)
    if form.is_valid():
        given = form.answers()
        lines = practice.explain_answers(practised, given)
        rights = [line.right for line in lines if line.right is not None]
        context |= {"lines": lines, "right": rights.count(True), "asked": len(rights)}
        # Sources, notes, wordings and reasons, which the tour leaves out.
        context["also_asked"] = fill_form(case_form, given, problems(case_form, given)).problems
        return render(request, "review/calibration/tour_answers.html", context)
    if initial:
        form.initial = initial
    context |= {"form": form, "blocks": practised.spec.blocks, "step": steps}
    return render_form(request, "review/calibration/tour_case.html", context, refused=judged is not None)
