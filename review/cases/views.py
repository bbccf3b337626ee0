"""The admin's pages on cases."""

from collections.abc import Iterable
from dataclasses import replace

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from review import errors
from review.access import visibility
from review.answers.marked_text import marks
from review.answers.side_by_side import ReviewColumn, compare, named_columns
from review.assignments import claims
from review.calibration import queries as calibration_queries
from review.cases import queries, services
from review.cases.attention import attention
from review.cases.bulk import ACTIONS, LanguageForm
from review.cases.forms import CaseFilters, PriorityForm, WithdrawForm
from review.common.decorators import requires, signed_in_account
from review.common.lists import act_on_chosen, listing
from review.labels import CASE_STATES, ROLES
from review.models import Case, User
from review.people import queries as people_queries
from review.rewordings import queries as rewordings_queries
from review.rules.permissions import Can
from review.rules.state_machine import Role, State


@requires(Can.OVERSEE)
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """What needs a person, where all cases stand, what is in progress, and who holds what."""
    chosen = request.GET.get("benchmark", "")
    funnel = queries.funnel(chosen or None)
    now = timezone.now()

    def step(state: str, label: object, count: int) -> dict[str, object]:
        asked = {"state": state, "benchmark": chosen}
        oldest = funnel.oldest.get(state)
        return {
            "label": label,
            "count": count,
            "note": _("oldest: %(age)s") % {"age": timesince(oldest, now)} if oldest else "",
            "href": f"{reverse('review:cases')}?{urlencode({name: value for name, value in asked.items() if value})}",
        }

    whole = sum(funnel.counts.values()) + funnel.unreviewed
    shown = [state for state in State if state != State.WITHDRAWN]
    context = {
        "steps": [
            step("", _("generated"), whole),
            *(step(state, CASE_STATES[state], funnel.counts[state]) for state in shown),
        ],
        "largest": max(whole, 1),
        "unreviewed": funnel.unreviewed,
        "withdrawn": funnel.counts[State.WITHDRAWN],
        "empty": not whole,
        "attention": attention(),
        "holds": visibility.held_assignments()[:50],
        "benchmark": chosen,
        "benchmarks": queries.benchmarks(),
        "now": now,
    }
    return render(request, "review/cases/overview.html", context)


@requires(Can.OVERSEE)
@require_http_methods(["GET", "POST"])
def cases(request: HttpRequest) -> HttpResponse:
    """All cases, filtered by what stands in the address; a post acts on those that were chosen."""
    if acted := act_on_chosen(request, ACTIONS, Case.objects.defer("spec"), lambda case: case.title):
        return acted
    filters = CaseFilters(request.GET)
    found = queries.cases(**filters.wanted).defer("spec")
    context = listing(request, filters, found, ("title", "state", "priority", "opened_at", "specialty"), ACTIONS)
    return render(request, "review/cases/cases.html", context, status=context["status"])


@requires(Can.OVERSEE)
@require_GET
def history(request: HttpRequest, case_id: int) -> HttpResponse:
    """Everything about one case."""
    return _history(request, get_object_or_404(Case, pk=case_id))


def _history(request: HttpRequest, case: Case, *, refused: WithdrawForm | PriorityForm | None = None) -> HttpResponse:
    spec = case.shown
    voices = named_columns(visibility.reviews_shown_to(signed_in_account(request), case))
    context = {
        "case": case,
        "spec": spec,
        "comparison": compare(spec.form, voices),
        "voices": voices,
        "marks": marks(spec, spec.form, (), _last_words(voices)),
        "trail": queries.trail(case),
        "holds": visibility.held_assignments(case),
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


def _last_words(voices: Iterable[ReviewColumn]) -> list[ReviewColumn]:
    """The last review of each role, under the role's name: for the text, where there is little room."""
    last = {voice.role: voice for voice in voices}
    return [replace(voice, who=str(ROLES[role])) for role, voice in last.items()]


@requires(Can.OVERSEE)
def withdraw(request: HttpRequest, case_id: int) -> HttpResponse:
    """Take a case away from the physicians, with a reason."""
    if request.method != "POST":
        return redirect("review:history", case_id)
    case = get_object_or_404(Case, pk=case_id)
    form = WithdrawForm(request.POST)
    if not form.is_valid():
        return _history(request, case, refused=form)
    services.withdraw(case_id, actor=signed_in_account(request), reason=form.cleaned_data["reason"])
    messages.success(request, _("Case withdrawn."))
    return redirect("review:history", case_id)


@requires(Can.OVERSEE)
def priority(request: HttpRequest, case_id: int) -> HttpResponse:
    """Set a case's priority in the queue."""
    if request.method != "POST":
        return redirect("review:history", case_id)
    case = get_object_or_404(Case, pk=case_id)
    form = PriorityForm(request.POST)
    if not form.is_valid():
        return _history(request, case, refused=form)
    services.prioritise(case_id, actor=signed_in_account(request), priority=form.cleaned_data["priority"])
    messages.success(request, _("Priority changed."))
    return redirect("review:history", case_id)


@requires(Can.OVERSEE)
def reassign(request: HttpRequest, case_id: int) -> HttpResponse:
    """Take a role from its holder: for anybody, or for the physician chosen."""
    get_object_or_404(Case, pk=case_id)
    if request.method == "POST":
        chosen = request.POST.get("physician", "")
        to = User.objects.filter(pk=int(chosen)).first() if chosen.isascii() and chosen.isdigit() else None
        if request.POST.get("role") not in set(Role) or (chosen and to is None):
            raise Http404
        try:
            claims.reassign(case_id, Role(request.POST["role"]), to=to, actor=signed_in_account(request))
        except errors.NotReserved as refused:
            messages.error(request, refused.detail or refused.message)
        else:
            messages.success(
                request,
                _("Reserved for %(name)s.") % {"name": to}
                if to
                else _("Any eligible physician can take this role now."),
            )
    return redirect("review:history", case_id)


@requires(Can.OVERSEE)
def specialty(request: HttpRequest, case_id: int) -> HttpResponse:
    """Say which specialty a case's reviewers must have."""
    get_object_or_404(Case, pk=case_id)
    if request.method == "POST":
        wanted = request.POST.get("specialty", "").replace("\0", "")[:100]
        claims.set_specialty(case_id, wanted, actor=signed_in_account(request))
        messages.success(request, _("Specialty changed."))
    return redirect("review:history", case_id)


@requires(Can.OVERSEE)
def language(request: HttpRequest, case_id: int) -> HttpResponse:
    """Say which language the reviewers of a case have to read."""
    get_object_or_404(Case, pk=case_id)
    if request.method == "POST":
        form = LanguageForm(request.POST)
        if form.is_valid():
            claims.set_language(case_id, form.cleaned_data["language"], actor=signed_in_account(request))
            messages.success(request, _("Language changed."))
        else:
            messages.error(request, _("Enter a language code, for example en or zh."))
    return redirect("review:history", case_id)


@requires(Can.OVERSEE)
def set_back(request: HttpRequest, case_id: int) -> HttpResponse:
    """Open a role anew whose holder has answered and left before the confirmation or the second vote."""
    get_object_or_404(Case, pk=case_id)
    if request.method == "POST":
        form = WithdrawForm(request.POST)
        if request.POST.get("role") not in set(Role):
            raise Http404
        if form.is_valid():
            reason = form.cleaned_data["reason"]
            claims.set_back(case_id, Role(request.POST["role"]), actor=signed_in_account(request), reason=reason)
            messages.success(request, _("Role reopened for another physician."))
        else:
            messages.error(request, _("Give a reason for reopening the role."))
    return redirect("review:history", case_id)
