"""The admin pages on cases."""

from collections.abc import Callable
from dataclasses import replace

from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from review import errors
from review.answers.marked_text import marks
from review.answers.side_by_side import compare, named_columns
from review.assignments import annotation_formats, annotations, reassignment, retraction
from review.audit.trail import record_read
from review.calibration import queries as calibration_queries
from review.cases import queries, services
from review.cases.attention import attention
from review.cases.forms import (
    ACTIONS,
    AnnotationsForm,
    CaseFilters,
    LanguageForm,
    PriorityForm,
    SpecialtyForm,
    WithdrawForm,
)
from review.common.decorators import (
    download,
    redirect_refused,
    redirect_saying,
    refusal_text,
    requires,
    signed_in_account,
)
from review.common.figures import telling_age
from review.common.lists import apply_bulk_action, list_context
from review.discussion.remarks import discussion
from review.labels import CASE_STATES, ROLES
from review.models import Case, User
from review.people import queries as people_queries
from review.rewordings import queries as rewordings_queries
from review.rules.permissions import Can
from review.rules.state_machine import Role, State
from review.rules.text import whole_number
from review.turns.turn import readable_reviews


@requires(Can.OVERSEE, "GET")
@telling_age
def overview(request: HttpRequest) -> HttpResponse:
    """What needs attention, the number of cases in each state, and who holds which case."""
    benchmark = request.GET.get("benchmark", "")
    funnel = queries.funnel(benchmark)
    now = timezone.now()

    def step(state: str, label: object, count: int) -> dict[str, object]:
        filters = {"state": state, "benchmark": benchmark}
        oldest = funnel.oldest.get(state)
        return {
            "label": label,
            "count": count,
            "note": _("oldest: %(age)s") % {"age": timesince(oldest, now)} if oldest else "",
            "href": f"{reverse('review:cases')}?{urlencode({name: value for name, value in filters.items() if value})}",
        }

    total = sum(funnel.counts.values()) + funnel.unreviewed
    listed = [state for state in State if state != State.WITHDRAWN]
    context = {
        "steps": [
            step("", _("generated"), total),
            *(step(state, CASE_STATES[state], funnel.counts[state]) for state in listed),
        ],
        "largest": max(total, 1),
        "unreviewed": funnel.unreviewed,
        "withdrawn": funnel.counts[State.WITHDRAWN],
        "empty": not total,
        "attention": attention(),
        "holds": queries.held_assignments()[:50],
        "benchmark": benchmark,
        "benchmarks": queries.benchmarks(),
        "now": now,
    }
    return render(request, "review/cases/overview.html", context)


@requires(Can.OVERSEE, "GET", "POST")
def cases(request: HttpRequest) -> HttpResponse:
    """All cases, filtered by the query string (GET); a bulk action on the selected ones (POST)."""
    if response := apply_bulk_action(request, ACTIONS, Case.objects.defer("spec"), lambda case: case.title):
        return response
    filters = CaseFilters(request.GET)
    rows = queries.with_assignees(queries.cases(**filters.active)).defer("spec")
    context = list_context(request, filters, rows, ("title", "state", "priority", "opened_at", "specialty"), ACTIONS)
    return render(request, "review/cases/cases.html", context, status=context["status"])


@requires(Can.OVERSEE, "GET", "POST")
def annotate_elsewhere(request: HttpRequest) -> HttpResponse:
    """Tasks of waiting cases for another tool; its annotations (POST), which become drafts."""
    form, result = AnnotationsForm(request.POST or None, request.FILES or None), None
    if not form.is_growing() and form.is_valid():
        data = form.cleaned_data
        try:
            result = annotations.import_file(
                data["tool"],
                data["file"],
                data["file"].name,
                accounts=form.accounts,
                actor=signed_in_account(request),
            )
        except errors.WrongAnnotations as error:
            form.add_error("file", str(error.detail))
    benchmark = request.GET.get("benchmark", "")
    context = {
        "form": form,
        "result": result,
        "benchmark": benchmark,
        "benchmarks": queries.benchmarks(),
        "has_tasks": annotations.has_tasks(benchmark),
    }
    return render(request, "review/cases/annotate_elsewhere.html", context, status=422 if form.errors else 200)


@requires(Can.OVERSEE, "GET")
def task_file(request: HttpRequest, tool: str, file: str) -> HttpResponseBase:
    """One of the files for another tool."""
    known, actor = tool in annotation_formats.TOOLS, signed_in_account(request)
    written = {}
    if known:
        written = annotations.task_files(tool, request.GET.get("benchmark", ""), actor=actor)
    if file not in written:
        raise Http404
    kind = "application/json"
    if file.endswith(".xml"):
        kind = "application/xml"
    return download(written[file], file, kind)


@requires(Can.OVERSEE, "GET")
def history(request: HttpRequest, case_id: int) -> HttpResponse:
    """One case with its reviews and its whole history."""
    case = get_object_or_404(Case, pk=case_id)
    record_read(signed_in_account(request), case)
    return _history(request, case)


def _history(request: HttpRequest, case: Case, *, refused: WithdrawForm | PriorityForm | None = None) -> HttpResponse:
    reader, spec = signed_in_account(request), case.localized_spec
    columns = named_columns(readable_reviews(reader, case))
    last = {column.role: column for column in columns}
    # Marks in the text need short names: the role alone.
    short = [replace(column, who=str(ROLES[role])) for role, column in last.items()]
    context = {
        "case": case,
        "spec": spec,
        "comparison": compare(spec.form, columns),
        "columns": columns,
        "marks": marks(spec, (), short),
        "trail": queries.trail(case),
        "remarks": discussion(reader, case),
        "holds": queries.assignments_of(case),
        "versions": queries.versions(case),
        "rewording": rewordings_queries.pending().filter(case=case).first(),
        "final": State(case.state).final,
        "reviewers": list(people_queries.reviewers()),
        "settled": calibration_queries.was_settled(case),
        "withdraw_form": refused if isinstance(refused, WithdrawForm) else WithdrawForm(),
        "priority_form": refused
        if isinstance(refused, PriorityForm)
        else PriorityForm(initial={"priority": case.priority}),
        "simulated": case.simulated,
    }
    return render(request, "review/cases/history.html", context, status=422 if refused else 200)


@requires(Can.OVERSEE, back="review:history")
def withdraw(request: HttpRequest, case_id: int) -> HttpResponse:
    """Withdraw a case from review, with a reason."""
    return _change(request, case_id, WithdrawForm, services.withdraw, _("Case withdrawn."))


@requires(Can.OVERSEE, back="review:history")
def priority(request: HttpRequest, case_id: int) -> HttpResponse:
    """Set a case's priority in the queue."""
    return _change(request, case_id, PriorityForm, services.prioritise, _("Priority changed."))


def _change(
    request: HttpRequest,
    case_id: int,
    form_class: type[Form],
    service: Callable[..., Case],
    message: str,
) -> HttpResponse:
    """Change a case by a service that takes the form's fields; a refused form is shown again."""
    case, form = get_object_or_404(Case, pk=case_id), form_class(request.POST)
    if not form.is_valid() and isinstance(form, WithdrawForm | PriorityForm):
        return _history(request, case, refused=form)
    if not form.is_valid():  # a single field, whose input the page does not repeat
        return redirect_refused(request, refusal_text(form), "review:history", case_id)
    service(case_id, actor=signed_in_account(request), **form.cleaned_data)
    return redirect_saying(request, message, "review:history", case_id)


@requires(Can.OVERSEE, back="review:history")
def reassign(request: HttpRequest, case_id: int) -> HttpResponse:
    """Take a role from its holder, and open it to everybody or reserve it for a physician."""
    get_object_or_404(Case, pk=case_id)
    key = request.POST.get("physician", "")
    to = User.objects.filter(pk=whole_number(key) or 0).first()
    if request.POST.get("role") not in set(Role) or (key and to is None):
        raise Http404
    try:
        reassignment.reassign(case_id, Role(request.POST["role"]), to=to, actor=signed_in_account(request))
    except errors.NotReserved as refused:
        return redirect_refused(request, refused.detail or refused.message, "review:history", case_id)
    if to:
        message = _("Reserved for %(name)s.")
    else:
        message = _("Any eligible physician can take this role now.")
    return redirect_saying(request, message % {"name": to}, "review:history", case_id)


@requires(Can.OVERSEE, back="review:history")
def specialty(request: HttpRequest, case_id: int) -> HttpResponse:
    """Set the specialty that a case's reviewers must have."""
    return _change(request, case_id, SpecialtyForm, services.set_specialty, _("Specialty changed."))


@requires(Can.OVERSEE, back="review:history")
def language(request: HttpRequest, case_id: int) -> HttpResponse:
    """Set the language that the reviewers of a case must read."""
    return _change(request, case_id, LanguageForm, services.set_language, _("Language changed."))


@requires(Can.OVERSEE, back="review:history")
def set_back(request: HttpRequest, case_id: int) -> HttpResponse:
    """Reopen a role whose holder answered but left before the confirmation or the second vote."""
    get_object_or_404(Case, pk=case_id)
    form = WithdrawForm(request.POST)
    if request.POST.get("role") not in set(Role):
        raise Http404
    if not form.is_valid():
        return redirect_refused(request, refusal_text(form), "review:history", case_id)
    reason = form.cleaned_data["reason"]
    retraction.reopen_role(case_id, Role(request.POST["role"]), actor=signed_in_account(request), reason=reason)
    return redirect_saying(request, _("Role reopened for another physician."), "review:history", case_id)
