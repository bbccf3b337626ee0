"""The admin's pages on people."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods

from review.access import visibility
from review.answers import signatures
from review.assignments import eligibility
from review.calibration import queries as calibration_queries
from review.calibration import services
from review.cases.bulk import SpecialtyForm
from review.common.decorators import requires, signed_in_account
from review.common.lists import Action, act_on_chosen, listing
from review.models import User
from review.people import accounts, invitations, queries, roster
from review.people.forms import AboutForm, KeysForm, PasswordForm, PeopleFilters, PersonForm, RosterForm
from review.rules.permissions import Can, UserRole

ACTIONS = (
    Action("pause", gettext_lazy("Pause"), lambda key, actor, _said: accounts.set_paused(key, True, actor=actor)),
    Action("resume", gettext_lazy("Resume"), lambda key, actor, _said: accounts.set_paused(key, False, actor=actor)),
    Action(
        "specialty",
        gettext_lazy("Set specialty"),
        lambda key, actor, said: accounts.edit_person(key, {"specialty": said["specialty"]}, actor=actor),
        SpecialtyForm,
    ),
)


@requires(Can.OVERSEE)
@require_http_methods(["GET", "POST"])
def people(request: HttpRequest) -> HttpResponse:
    """All accounts with what they have done, filtered by what the address says; a post acts on those chosen."""
    if acted := act_on_chosen(request, ACTIONS, User.objects.all()):
        return acted
    filters = PeopleFilters(request.GET)
    sorts = ("username", "role", "hospital", "specialty", "done", "held", "left", "last_login")
    context = listing(request, filters, queries.people(**filters.wanted), sorts, ACTIONS)
    return render(request, "review/people/people.html", context, status=context["status"])


@requires(Can.OVERSEE)
def person_new(request: HttpRequest) -> HttpResponse:
    """Make an account."""
    form = PersonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        new, password, actor = form.save(commit=False), form.cleaned_data["password"], signed_in_account(request)
        if not password:
            return _invited(request, accounts.invite_new([new], actor=actor))
        made = accounts.add_person(new, password, actor=actor)
        messages.success(request, _("Account %(name)s created.") % {"name": made.username})
        return redirect("review:people")
    return render(request, "review/people/person_new.html", {"form": form}, status=422 if form.is_bound else 200)


@requires(Can.OVERSEE)
@require_http_methods(["GET", "POST"])
def people_import(request: HttpRequest) -> HttpResponse:
    """Make the accounts that a file lists: first what would happen, then the accounts and their links."""
    form = RosterForm(request.POST, request.FILES) if request.method == "POST" else RosterForm()
    if not form.is_valid():
        return render(request, "review/people/import.html", {"form": form}, status=422 if form.is_bound else 200)
    listed = roster.read_roster(form.cleaned_data["name"], form.cleaned_data["data"])
    if not listed.refusals and "import" in request.POST:
        return _invited(request, accounts.import_people(listed, actor=signed_in_account(request)))
    again = {"name": listed.file, "text": form.cleaned_data["data"].decode("utf-8-sig", "replace")}
    context = {"form": RosterForm(), "roster": listed, **({} if listed.refusals else {"again": again})}
    return render(request, "review/people/import.html", context, status=422 if listed.refusals else 200)


def _invited(request: HttpRequest, people: list[User]) -> HttpResponse:
    """The links of those who were invited just now and got no e-mail: they are stored nowhere, so only this page shows them."""
    handed_out = invitations.hand_out(people, request.build_absolute_uri("/"))
    context = {
        "invited": handed_out,
        "links": any(each.link for each in handed_out),
        "until": invitations.expires_at(people[0]),
    }
    return render(request, "review/people/invited.html", context)


@requires(Can.OVERSEE)
def person_invitation(request: HttpRequest, person_id: int) -> HttpResponse:
    """Invite somebody, once more if need be, or withdraw the invitation."""
    if request.method != "POST":
        return redirect("review:person", person_id)
    shown, actor = _account(person_id), signed_in_account(request)
    if "withdraw" not in request.POST:
        return _invited(request, [accounts.invite(shown.pk, actor=actor)])
    accounts.expire_invitation(shown.pk, actor=actor)
    messages.success(request, _("The invitation of %(name)s is no longer valid.") % {"name": shown.username})
    return redirect("review:person", person_id)


@requires(Can.OVERSEE)
@require_GET
def person_detail(request: HttpRequest, person_id: int) -> HttpResponse:
    """One account: what it has done, and the doors to close it or give it a new password."""
    return _person(request, _account(person_id))


def _account(person_id: int) -> User:
    found = queries.people().filter(pk=person_id).first()
    if found is None:
        raise Http404
    return found


def _person(request: HttpRequest, shown: User, refused: PasswordForm | None = None) -> HttpResponse:
    context = {
        "shown": shown,
        "form": refused or PasswordForm(user=shown),
        "own": shown.pk == signed_in_account(request).pk,
        "recent": visibility.reviews_by(shown)[:20],
        "standings": calibration_queries.standings(shown) if shown.role == UserRole.PHYSICIAN else [],
        "today": eligibility.done_today(shown),
        "left_hour": visibility.count_given_back(shown, visibility.HOUR),
        "left_limit": settings.MHB_RELEASES_PER_HOUR,
        "has_second_factor": signatures.has_second_factor(shown),
        "invitable": invitations.is_invitable(shown),
        "invitation_open": invitations.is_open(shown),
        "invitation_until": invitations.expires_at(shown),
        "may_take_over": accounts.may_take_over(shown, signed_in_account(request)),
        "account_trail": accounts.account_trail(shown)[:20],
    }
    return render(request, "review/people/person.html", context, status=422 if refused else 200)


@requires(Can.OVERSEE)
def person_active(request: HttpRequest, person_id: int) -> HttpResponse:
    """Close an account or open it again."""
    if request.method == "POST":
        shown = accounts.set_active(
            _account(person_id).pk, request.POST.get("active") == "1", actor=signed_in_account(request)
        )
        done = _("%(name)s can sign in again.") if shown.is_active else _("%(name)s can no longer sign in.")
        messages.success(request, done % {"name": shown.username})
    return redirect("review:person", person_id)


@requires(Can.OVERSEE)
def person_second_factor(request: HttpRequest, person_id: int) -> HttpResponse:
    """Take away the second factor of somebody who has lost it."""
    if request.method == "POST":
        shown = accounts.take_second_factor(_account(person_id).pk, actor=signed_in_account(request))
        messages.success(request, _("Second factor removed for %(name)s.") % {"name": shown.username})
    return redirect("review:person", person_id)


@requires(Can.OVERSEE)
def person_password(request: HttpRequest, person_id: int) -> HttpResponse:
    """Give somebody a new password."""
    if request.method != "POST":
        return redirect("review:person", person_id)
    shown = _account(person_id)
    form = PasswordForm(request.POST, user=shown)
    if not form.is_valid():
        return _person(request, shown, refused=form)
    accounts.set_password(person_id, form.cleaned_data["password"], actor=signed_in_account(request))
    messages.success(request, _("Password changed for %(name)s.") % {"name": shown.username})
    return redirect("review:person", person_id)


@requires(Can.OVERSEE)
def person_edit(request: HttpRequest, person_id: int) -> HttpResponse:
    """Change what is recorded about a person."""
    shown = get_object_or_404(User, pk=person_id)
    form = AboutForm(request.POST or None, instance=shown)
    if request.method == "POST" and form.is_valid():
        accounts.edit_person(person_id, form.cleaned_data, actor=signed_in_account(request))
        messages.success(request, _("Changes to %(name)s saved.") % {"name": shown.username})
        return redirect("review:person", person_id)
    return render(
        request, "review/people/person_edit.html", {"shown": shown, "form": form}, status=422 if form.is_bound else 200
    )


@requires(Can.OVERSEE)
def person_pause(request: HttpRequest, person_id: int) -> HttpResponse:
    """Hand a physician no new cases, or hand out again."""
    get_object_or_404(User, pk=person_id)
    if request.method == "POST":
        shown = accounts.set_paused(person_id, request.POST.get("paused") == "1", actor=signed_in_account(request))
        done = (
            _("%(name)s is paused and gets no new cases.") if shown.paused_at else _("%(name)s gets new cases again.")
        )
        messages.success(request, done % {"name": shown.username})
    return redirect("review:person", person_id)


@requires(Can.OVERSEE)
def person_calibration(request: HttpRequest, person_id: int) -> HttpResponse:
    """Offer a physician the calibration cases again."""
    shown = get_object_or_404(User, pk=person_id)
    if request.method == "POST":
        count = services.give_again(shown, actor=signed_in_account(request))
        messages.success(request, _("Calibration cases offered again: %(n)s.") % {"n": count})
    return redirect("review:person", person_id)


@login_required
def own_keys(request: HttpRequest) -> HttpResponse:
    """Which single keys act for the reader."""
    me = signed_in_account(request)
    form = KeysForm(request.POST if request.method == "POST" else None, user=me)
    if request.method == "POST" and form.is_valid():
        me.keys_off, me.keys = form.cleaned_data["off"], form.cleaned_data["keys"]
        me.save(update_fields=["keys_off", "keys"])
        messages.success(request, _("Keyboard shortcuts saved."))
        return redirect("review:own-keys")
    return render(request, "review/people/own_keys.html", {"form": form}, status=422 if form.is_bound else 200)
