"""The pages of the playground."""

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from evaluation import tasks
from evaluation.playground import services, side_by_side
from evaluation.playground.forms import PlaygroundForm
from evaluation.playground.services import PlaygroundSettings
from generation.models import Endpoint
from review.common.decorators import refusals_on, requires, signed_in_account
from review.errors import ShownError
from review.rules.permissions import Can
from review.rules.text import unified_newlines


@requires(Can.MEASURE, "GET", "POST")
def playground(request: HttpRequest) -> HttpResponse:
    """Choose what to try and see its prompt; edit it, and send it to up to three models."""
    if request.method == "POST":
        data = request.POST
    else:
        data = request.GET
    if request.method != "POST" and "what" not in data:
        return _page(request, PlaygroundForm())
    form = PlaygroundForm(data)
    form.full_clean()
    if "what" not in form.cleaned_data:
        return _page(request, form)
    asked, endpoints = form.settings, form.cleaned_data.get("endpoints", ())
    if "send" not in request.POST:
        return _page(request, form, **_shown_prompt(form, asked, endpoints))
    if request.POST.get("shown") != _subject(asked):
        form.add_error(None, _("You changed what to try. Look at its prompt, then send it."))
        return _page(request, form, **_shown_prompt(form, asked, endpoints))
    turns = tuple(request.POST.getlist("turn"))
    with refusals_on(form, ShownError):
        # What nobody edited goes to each model in the format in which it is asked.
        if services.is_edited(asked, turns, [endpoint.model for endpoint in endpoints]):
            asked = asked.model_copy(update={"turns": turns})
    if not (endpoints or form.errors):
        form.add_error("endpoints", _("Choose at least one endpoint."))
    if not form.errors:
        key = _key(request.POST.get("key", ""))
        with refusals_on(form, ShownError):
            prepared = services.prepare(asked, next(iter(endpoints)).model)
            services.without_empty_turns(prepared.request)
            account = signed_in_account(request)
            start = partial(tasks.start_trial, asked, prepared, actor=account)
            side_by_side.send(key, asked, endpoints, account, start)
            return redirect("evaluation:playground-replies", key)
    return _page(request, form, **_shown_prompt(form, asked, endpoints))


@requires(Can.MEASURE, "GET")
def playground_replies(request: HttpRequest, trial: UUID) -> HttpResponse:
    """The replies to a prompt that was sent, side by side; polled until all are there."""
    sent = side_by_side.find(trial, signed_in_account(request))
    if sent is None:
        return _page(request, PlaygroundForm(), is_gone=True)
    replies = side_by_side.replies(sent)
    shown = {"replies": replies, "is_waiting": any(reply.is_waiting for reply in replies)}
    if request.headers.get("HX-Request"):
        return render(request, "evaluation/playground/_replies.html", shown)
    form = PlaygroundForm({**dict(sent.settings), "endpoints": list(sent.answers)})
    if form.is_valid():
        shown |= _shown_prompt(form, sent.settings, form.cleaned_data["endpoints"])
    return _page(request, form, **shown)


def _page(request: HttpRequest, form: PlaygroundForm, **shown: Any) -> HttpResponse:
    context = {"form": form, "has_endpoints": Endpoint.objects.usable().exists(), "key": uuid4(), **shown}
    status = 200
    if form.errors:
        status = 422
    return render(request, "evaluation/playground/playground.html", context, status=status)


def _shown_prompt(form: PlaygroundForm, asked: PlaygroundSettings, endpoints: Collection[Endpoint]) -> dict[str, Any]:
    """The prompt, for the page; or why there is none, on the form, with what the search found."""
    with suppress(ShownError) if form.errors else refusals_on(form, ShownError):
        by_endpoint = {endpoint: services.prepare(asked, endpoint.model) for endpoint in endpoints}
        prepared = next(iter(by_endpoint.values()), None) or services.prepare(asked)
        shown: dict[str, Any] = {
            "prepared": prepared,
            "subject": _subject(asked),
            "turns": [(message.role, message.text, len(message.images)) for message in prepared.request.messages],
            "temperatures": [(endpoint.name, own.temperature(endpoint)) for endpoint, own in by_endpoint.items()],
        }
        with suppress(ShownError):  # an empty prompt has no body yet
            bodies = []
            for endpoint, own in by_endpoint.items():
                bodies.append((endpoint.name, services.shown_body(own.body(endpoint))))
            shown["bodies"] = bodies
        return shown
    with suppress(ShownError):
        return {"matches": services.matches(asked)}
    return {}


def _subject(asked: PlaygroundSettings) -> str:
    """A digest of all that decides what the prompt is about."""
    parts = (asked.what, asked.on, unified_newlines(asked.text), asked.prompts, unified_newlines(asked.answer))
    return sha256("\0".join(parts).encode()).hexdigest()


def _key(text: str) -> UUID:
    """The key under which a page sends its prompt once; a new one if it is none."""
    try:
        return UUID(text)
    except ValueError:
        return uuid4()
