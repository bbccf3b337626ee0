"""Training pages: calibration items, physicians' results, and the tour with its practice case."""

from collections.abc import Sequence
from dataclasses import replace

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from review.answers.answer_form import fill_form
from review.answers.marked_text import marks
from review.answers.posted_answers import answers_from_post, without_blank_rows
from review.calibration import practice, queries, services
from review.calibration.forms import ExpectedForm
from review.common.decorators import posted_data, redirect_saying, render_form, requires, signed_in_account
from review.forms.queries import with_forms_in_force
from review.models import CalibrationItem, Case
from review.rules.blocks import passage_texts
from review.rules.case_spec import CaseSpec, answers_from_json, spec_from_json
from review.rules.consolidation import with_first_look
from review.rules.permissions import Can, require
from review.rules.questions import Answers, Problem, question_problems
from review.rules.state_machine import Role, State
from review.turns.checks import highlight_problems, with_allowed_highlights


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
    """The practice of a benchmark, with the form in force, for accounts that review or oversee."""
    require(request.user, Can.REVIEW, Can.OVERSEE, reading=True)
    result = practice.practice(benchmark)
    if result is None:
        raise Http404
    [spec] = with_forms_in_force([result.spec])
    spec = replace(spec, form=spec.form.at(Role.PRIMARY.stage)).in_language(get_language() or "")
    return replace(result, spec=spec)


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
    """The practice case: first look, remaining questions, explained answers, as a real case asks.

    Nothing is stored: the address of the second step holds the answers of the first look.
    """
    practised = _practice(request, benchmark)
    spec = practised.spec
    looks_first, posted = spec.policy.reveal_first_look, posted_data(request)
    first_look = Answers()
    if looks_first:
        first_look = answers_from_post(spec.form.first_look, request.GET, texts=passage_texts(spec.first_look))
        first_look = with_allowed_highlights(first_look, revealed=False)
        shown = replace(spec, form=spec.form.first_look, blocks=spec.first_look)
        missing = question_problems(shown.form, first_look) + highlight_problems(spec, first_look)
        if "do" in request.GET or (posted is None and not request.GET):
            return _practice_page(request, practised, shown, first_look)
        if missing:
            return _practice_page(request, practised, shown, first_look, missing)
    answers = answers_from_post(spec.form, posted or QueryDict(), texts=passage_texts(spec.blocks))
    answers = with_allowed_highlights(answers, revealed=True)
    if looks_first:
        answers = with_first_look(spec.form, answers, first_look)
    if posted is None or "do" in posted:
        return _practice_page(request, practised, spec, answers)
    answers = without_blank_rows(answers)
    if faults := practice.faults(spec, answers):
        return _practice_page(request, practised, spec, answers, faults)
    lines = practice.explain_answers(practised, answers)
    rights = [line.right for line in lines if line.right is not None]
    context = {"benchmark": benchmark, "lines": lines, "right": rights.count(True), "asked": len(rights)}
    return render(request, "review/calibration/tour_answers.html", context)


def _practice_page(
    request: HttpRequest,
    practised: practice.Practice,
    shown: CaseSpec,
    answers: Answers,
    faults: Sequence[Problem] = (),
) -> HttpResponse:
    """The practice case as `shown`: all of it, or what the first look shows."""
    looks_first = practised.spec.policy.reveal_first_look
    first_look_due = looks_first and shown is not practised.spec
    committed: list[str] = []
    view = "shown"
    if looks_first and not first_look_due:
        committed = [question.key for question in shown.form.questions if question.first_look]
        view = "changes"
    context = {
        "benchmark": shown.benchmark,
        "case": shown,
        "spec": shown,
        "sheet": fill_form(shown.form, answers, faults, committed=committed, blocks=shown.blocks),
        "marks": marks(shown, answers.highlights, []),
        "agreed_fields": (),
        "looks_first": looks_first,
        "first_look_due": first_look_due,
        "begins_with_text": True,
        "view": view,
    }
    return render_form(request, "review/calibration/tour_case.html", context, refused=faults)
