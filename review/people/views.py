"""The admins' pages about people, and the page of one's own keyboard shortcuts."""

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from review.access import visibility
from review.answers import signatures
from review.assignments import case_queue
from review.calibration import queries as calibration_queries
from review.calibration import services
from review.cases.forms import SpecialtyForm
from review.common.decorators import (
    posted_data,
    redirect_refused,
    redirect_saying,
    refusal_text,
    render_form,
    requires,
    show_at,
    signed_in_account,
)
from review.common.lists import BulkAction, apply_bulk_action, list_context
from review.models import User
from review.people import accounts, invitations, queries, roster
from review.people.anonymise import anonymise
from review.people.forms import (
    AboutForm,
    KeysForm,
    OwnLanguagesForm,
    PasswordForm,
    PeopleFilters,
    PersonForm,
    RosterForm,
)
from review.rules.permissions import Can, UserRole
from review.rules.text_files import decoded

ACTIONS = (
    BulkAction("pause", gettext_lazy("Pause"), lambda key, actor, _data: accounts.set_paused(key, True, actor=actor)),
    BulkAction(
        "resume", gettext_lazy("Resume"), lambda key, actor, _data: accounts.set_paused(key, False, actor=actor)
    ),
    BulkAction(
        "specialty",
        gettext_lazy("Set specialty"),
        lambda key, actor, data: accounts.edit_person(key, {"specialty": data["specialty"]}, actor=actor),
        SpecialtyForm,
    ),
)


@requires(Can.OVERSEE, "GET", "POST")
def people(request: HttpRequest) -> HttpResponse:
    """All accounts, filtered by the URL; a post applies an action to the selected ones."""
    if response := apply_bulk_action(request, ACTIONS, User.objects.all()):
        return response
    filters = PeopleFilters(request.GET)
    sorts = ("username", "role", "hospital", "specialty", "done", "held", "left", "last_login")
    context = list_context(request, filters, queries.people(**filters.active), sorts, ACTIONS)
    return render(request, "review/people/people.html", context, status=context["status"])


@requires(Can.OVERSEE, acting=True)
def person_new(request: HttpRequest) -> HttpResponse:
    """Create an account."""
    form = PersonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        new, password, actor = form.save(commit=False), form.cleaned_data["password"], signed_in_account(request)
        if not password:
            return _show_invitations(request, accounts.invite_new([new], actor=actor))
        user = accounts.add_person(new, password, actor=actor)
        return redirect_saying(request, _("Account %(name)s created.") % {"name": user.username}, "review:people")
    return render_form(request, "review/people/person_new.html", {"form": form}, refused=form.is_bound)


@requires(Can.OVERSEE, "GET", "POST", acting=True)
def people_import(request: HttpRequest) -> HttpResponse:
    """Import the accounts of a file: first a preview, then the accounts and their links."""
    if request.method == "POST":
        form = RosterForm(request.POST, request.FILES)
    else:
        form = RosterForm()
    if not form.is_valid():
        return render_form(request, "review/people/import.html", {"form": form}, refused=form.is_bound)
    parsed = roster.read_roster(form.cleaned_data["name"], form.cleaned_data["data"])
    if not parsed.refusals and "import" in request.POST:
        return _show_invitations(request, accounts.import_people(parsed, actor=signed_in_account(request)))
    context: dict[str, object] = {"form": RosterForm(), "roster": parsed}
    if not parsed.refusals:
        context["again"] = {"name": parsed.file, "text": decoded(form.cleaned_data["data"])}
    return render_form(request, "review/people/import.html", context, refused=parsed.refusals)


def _show_invitations(request: HttpRequest, users: list[User]) -> HttpResponse:
    """The links that were not e-mailed; they are not stored, so only this page shows them."""
    sent = invitations.send_invitations(users, request.build_absolute_uri("/"))
    show_at(request, reverse("review:people"))  # a reload invites nobody again
    context = {
        "invited": sent,
        "links": any(invitation.link for invitation in sent),
        "table": invitations.links_as_csv(sent),
        "until": invitations.expires_at(users[0]),
    }
    return render(request, "review/people/invited.html", context)


@requires(Can.OVERSEE, back="review:person")
def person_invitation(request: HttpRequest, person_id: int) -> HttpResponse:
    """Invite a person (again), or withdraw the invitation."""
    shown, actor = _account(person_id), signed_in_account(request)
    if "withdraw" not in request.POST:
        return _show_invitations(request, [accounts.invite(shown.pk, actor=actor)])
    accounts.withdraw_invitation(shown.pk, actor=actor)
    return _done(request, shown, _("The invitation of %(name)s is no longer valid."))


@requires(Can.OVERSEE, "GET")
def person_detail(request: HttpRequest, person_id: int) -> HttpResponse:
    """One account: its work, and the forms to close it or to reset its password."""
    return _person_page(request, _account(person_id))


def _account(person_id: int) -> User:
    user = queries.people().filter(pk=person_id).first()
    if user is None:
        raise Http404
    return user


def _person_page(request: HttpRequest, shown: User, refused: PasswordForm | None = None) -> HttpResponse:
    standings = []
    if shown.role == UserRole.PHYSICIAN:
        standings = calibration_queries.standings(shown)
    context = {
        "shown": shown,
        "form": refused or PasswordForm(user=shown),
        "own": shown.pk == signed_in_account(request).pk,
        "recent": visibility.reviews_by(shown)[:20],
        "standings": standings,
        "today": case_queue.done_today(shown),
        "left_hour": visibility.count_released_cases(shown),
        "left_limit": settings.MHB_RELEASES_PER_HOUR,
        "has_second_factor": signatures.has_second_factor(shown),
        "invitable": invitations.is_invitable(shown),
        "invitation_open": invitations.is_open(shown),
        "invitation_until": invitations.expires_at(shown),
        "may_manage": accounts.may_manage(shown, signed_in_account(request)),
        "account_trail": accounts.account_trail(shown)[:20],
    }
    return render_form(request, "review/people/person.html", context, refused=refused)


@requires(Can.OVERSEE, back="review:person")
def person_active(request: HttpRequest, person_id: int) -> HttpResponse:
    """Close or reopen an account."""
    active = request.POST.get("active") == "1"
    shown = accounts.set_active(_account(person_id).pk, active, actor=signed_in_account(request))
    if shown.is_active:
        done = _("%(name)s can sign in again.")
    else:
        done = _("%(name)s can no longer sign in.")
    return _done(request, shown, done)


def _done(request: HttpRequest, shown: User, text: str) -> HttpResponse:
    """Back to the page of a person, which then says what was done."""
    return redirect_saying(request, text % {"name": shown.username}, "review:person", shown.pk)


@requires(Can.OVERSEE, "POST")
def person_anonymise(request: HttpRequest, person_id: int) -> HttpResponse:
    """Remove a person's names for good."""
    shown = _account(person_id)
    if request.POST.get("name") != shown.username:
        why = _("Type the username of the account to confirm.")
        return redirect_refused(request, why, "review:person", person_id)
    anonymise(person_id, actor=signed_in_account(request))
    return _done(request, shown, _("The person is anonymised."))


@requires(Can.OVERSEE, back="review:person")
def person_second_factor(request: HttpRequest, person_id: int) -> HttpResponse:
    """Remove a lost second factor."""
    shown = accounts.remove_second_factor(_account(person_id).pk, actor=signed_in_account(request))
    return _done(request, shown, _("Second factor removed for %(name)s."))


@requires(Can.OVERSEE, back="review:person")
def person_password(request: HttpRequest, person_id: int) -> HttpResponse:
    """Set a person's password."""
    shown = _account(person_id)
    form = PasswordForm(request.POST, user=shown)
    if not form.is_valid():
        return _person_page(request, shown, refused=form)
    accounts.set_password(person_id, form.cleaned_data["password"], actor=signed_in_account(request))
    return _done(request, shown, _("Password changed for %(name)s."))


@requires(Can.OVERSEE, acting=True)
def person_edit(request: HttpRequest, person_id: int) -> HttpResponse:
    """Edit a person's profile."""
    shown = get_object_or_404(User, pk=person_id)
    form = AboutForm(request.POST or None, instance=shown)
    if request.method == "POST" and form.is_valid():
        accounts.edit_person(person_id, form.cleaned_data, actor=signed_in_account(request))
        return _done(request, shown, _("Changes to %(name)s saved."))
    context = {"shown": shown, "form": form}
    return render_form(request, "review/people/person_edit.html", context, refused=form.is_bound)


@requires(Can.OVERSEE, back="review:person")
def person_pause(request: HttpRequest, person_id: int) -> HttpResponse:
    """Stop or resume assigning new cases to a physician."""
    get_object_or_404(User, pk=person_id)
    shown = accounts.set_paused(person_id, request.POST.get("paused") == "1", actor=signed_in_account(request))
    if shown.paused_at:
        done = _("%(name)s is paused and gets no new cases.")
    else:
        done = _("%(name)s gets new cases again.")
    return _done(request, shown, done)


@requires(Can.OVERSEE, back="review:person")
def person_calibration(request: HttpRequest, person_id: int) -> HttpResponse:
    """Offer a physician the calibration cases again."""
    count = services.offer_again(get_object_or_404(User, pk=person_id), actor=signed_in_account(request))
    text = _("Calibration cases offered again: %(n)s.") % {"n": count}
    return redirect_saying(request, text, "review:person", person_id)


@requires(Can.REVIEW, "POST")
def own_languages(request: HttpRequest) -> HttpResponse:
    """Store the languages in which a new physician reviews."""
    form = OwnLanguagesForm(request.POST)
    if not form.is_valid():
        return redirect_refused(request, refusal_text(form), "review:workbench")
    accounts.set_own_languages(signed_in_account(request), form.cleaned_data["languages"])
    return redirect_saying(request, _("Languages saved."), "review:workbench")


@login_required
def own_keys(request: HttpRequest) -> HttpResponse:
    """The user's single-key shortcuts."""
    me = signed_in_account(request)
    form = KeysForm(posted_data(request), user=me)
    if request.method == "POST" and form.is_valid():
        me.keys_off, me.keys = form.cleaned_data["off"], form.cleaned_data["keys"]
        me.save(update_fields=["keys_off", "keys"])
        return redirect_saying(request, _("Keyboard shortcuts saved."), "review:own-keys")
    return render_form(request, "review/people/own_keys.html", {"form": form}, refused=form.is_bound)
