"""The pages of guidelines, discussions and notices."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from review import errors
from review.cases import queries
from review.common import benchmarks as folders
from review.common import notifications
from review.common.decorators import redirect_saying, requires, signed_in_account
from review.discussion import guidelines as discussion_guidelines
from review.discussion import notices as discussion_notices
from review.discussion import remarks
from review.forms import queries as forms_queries
from review.models import Notice, Occasion, User
from review.rules import limits
from review.rules.permissions import Can, require
from review.rules.state_machine import State


class GuidelineForm(forms.Form):
    """The text of a guideline."""

    base = forms.IntegerField(min_value=0, required=False, widget=forms.HiddenInput)  # the version that was edited
    text = forms.CharField(
        label=gettext_lazy("Text"),
        max_length=limits.GUIDELINE,
        widget=forms.Textarea(attrs={"rows": 24}),
        help_text=gettext_lazy(
            "Write in Markdown. Saving creates a new version; submitted reviews keep the version they followed."
        ),
    )


class RemarkForm(forms.Form):
    """A remark, optionally about a passage."""

    text = forms.CharField(max_length=limits.COMMENT)
    quote = forms.CharField(max_length=limits.COMMENT, required=False)
    passage = forms.CharField(max_length=100, required=False)


class EmailsForm(forms.Form):
    """About what a person is e-mailed."""

    occasions = forms.MultipleChoiceField(
        label=gettext_lazy("E-mail me when"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    paused = forms.BooleanField(label=gettext_lazy("Pause all e-mails for now"), required=False)

    def __init__(self, person: User, data: QueryDict | None) -> None:
        initial = [name for name in Occasion.values if name not in person.emails_off]
        super().__init__(data, initial={"occasions": initial, "paused": person.emails_paused})
        self.fields["occasions"].choices = notifications.concerns(person)  # type: ignore[attr-defined]


@require_GET
@login_required
def guidelines(request: HttpRequest) -> HttpResponse:
    """The guidelines of each stage, by benchmark; those who oversee cases may edit them."""
    require(request.user, Can.REVIEW, Can.OVERSEE, reading=True)
    shown = []
    for benchmark in queries.benchmarks() or folders.names():
        by_stage = [
            (stage, discussion_guidelines.guideline(benchmark, stage)) for stage in discussion_guidelines.STAGES
        ]
        shown.append((benchmark, by_stage, forms_queries.senior_decides(benchmark)))
    return render(request, "review/discussion/guidelines.html", {"benchmarks": shown})


@requires(Can.OVERSEE, "GET", "POST")
def guideline_edit(request: HttpRequest, benchmark: str, stage: str) -> HttpResponse:
    """The versions of one guideline, and a form that creates the next."""
    if stage not in set(discussion_guidelines.STAGES) or benchmark not in {*queries.benchmarks(), *folders.names()}:
        raise Http404
    current = discussion_guidelines.guideline(benchmark, State(stage))
    if current:
        text = current.text
    else:
        text = discussion_guidelines.built_in(benchmark, State(stage))
    initial = {"text": text, "base": current.version if current else 0}
    form = GuidelineForm(request.POST if request.method == "POST" else None, initial=initial)
    status = 200
    if form.errors:
        status = 422
    if request.method == "POST" and form.is_valid():
        text, base = form.cleaned_data["text"], form.cleaned_data["base"] or 0
        try:
            new = discussion_guidelines.write_guideline(
                signed_in_account(request), benchmark=benchmark, stage=State(stage), text=text, base=base
            )
        except errors.StaleGuideline as stale:
            latest = discussion_guidelines.guideline(benchmark, State(stage))
            # Keep the text, but as an edit of the version that the page now shows below it.
            form = GuidelineForm({"text": text, "base": latest.version if latest else 0})
            form.add_error(None, stale.message)
            status = stale.status
        else:
            messages.success(request, _("Version %(version)d is now in effect.") % {"version": new.version})
            return redirect("review:guideline-edit", benchmark, stage)
    versions = discussion_guidelines.guideline_versions(benchmark, State(stage))
    context = {"form": form, "benchmark": benchmark, "stage": stage, "versions": versions}
    return render(request, "review/discussion/guideline_edit.html", context, status=status)


@require_POST
@login_required
def remark(request: HttpRequest, case_id: int) -> HttpResponse:
    """Add a remark and return to its page; a refused remark stays in its field."""
    author = signed_in_account(request)
    case = remarks.discussed_case(author, case_id)
    form = RemarkForm(request.POST)
    if form.is_valid():
        data = form.cleaned_data
        try:
            case = remarks.remark(author, case_id, data["text"], quote=data["quote"], passage=data["passage"]).case
        except (errors.EmptyText, errors.TooManyComments) as refused:
            form.add_error("text", refused.message)
        except errors.PassageUnknown as refused:
            form.add_error("quote", refused.message)
    htmx = getattr(request, "htmx", False)
    unknown = remarks.unknown_mentions(author, case, form.data.get("text", ""))
    sealed = remarks.sealed_mentions(author, form.data.get("text", ""))
    if form.errors:
        context = {"case": case, "remarks": remarks.discussion(author, case), "refused": form}
        return render(
            request, "review/discussion/_talk.html" if htmx else "review/discussion/remark.html", context, status=422
        )
    if htmx:
        context = {
            "case": case,
            "remarks": remarks.discussion(author, case),
            "unknown_mentions": unknown,
            "sealed_mentions": sealed,
        }
        return render(request, "review/discussion/_talk.html", context)
    if unknown:
        text = _("Nobody was notified under: %(names)s") % {"names": ", ".join(f"@{name}" for name in unknown)}
        messages.warning(request, text)
    if sealed:
        shown = ", ".join(f"@{name}" for name in sealed)
        messages.info(request, _("Notified only if they work on this case: %(names)s") % {"names": shown})
    assignment = author.assignments.filter(case=case).first()
    if assignment:
        url = reverse("review:case", args=[assignment.pk])
    else:
        url = reverse("review:history", args=[case.pk])
    return redirect(f"{url}#talk")


@require_GET
@login_required
def names(request: HttpRequest, case_id: int) -> HttpResponse:
    """Whom a remark can notify by an @, for the discussion that was opened."""
    author = signed_in_account(request)
    require(author, Can.REVIEW, Can.OVERSEE)
    people = remarks.reachable(author, remarks.discussed_case(author, case_id))
    return render(request, "review/discussion/_names.html", {"people": people})


@require_http_methods(["GET", "POST"])
@login_required
def notices(request: HttpRequest) -> HttpResponse:
    """The unread notices, which the frame of every page counts, and a choice of e-mails."""
    me = signed_in_account(request)
    form = EmailsForm(me, request.POST if request.method == "POST" else None)
    if form.is_valid():
        notifications.choose_emails(me, form.cleaned_data["occasions"], paused=form.cleaned_data["paused"])
        return redirect_saying(request, _("Your choice of e-mails was saved."), "review:notices")
    context = {"form": form, "emails": settings.MHB_EMAILS}
    return render(request, "review/discussion/notices.html", context, status=422 if form.errors else 200)


@require_POST
@login_required
def notice(request: HttpRequest, notice_id: int) -> HttpResponse:
    """Mark a notice as read and go to what it is about, on the page of its case."""
    reader = signed_in_account(request)
    opened = discussion_notices.mark_read(reader, notice_id)
    place = {Notice.Kind.MENTION: "talk", Notice.Kind.DISCUSSION: "answers"}.get(Notice.Kind(opened.kind), "trail")
    assignment = reader.assignments.filter(case=opened.case).first()
    if assignment is not None:
        return redirect(f"{reverse('review:case', args=[assignment.pk])}#{place}")
    return redirect(f"{reverse('review:history', args=[opened.case_id])}#{place}")
