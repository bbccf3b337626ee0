"""The page of the playground."""

from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from evaluation import tasks
from evaluation.playground import services
from evaluation.playground.forms import PlaygroundForm
from review.common.decorators import refusals_on, requires, signed_in_account
from review.errors import ShownError
from review.rules.permissions import Can


@requires(Can.MEASURE, "GET", "POST")
def playground(request: HttpRequest) -> HttpResponse:
    """Show a prompt as it would be sent (GET), or send it once (POST)."""
    data: QueryDict | None = request.POST if request.method == "POST" else request.GET
    if request.method != "POST" and "what" not in request.GET:
        data = None
    form = PlaygroundForm(data)
    context: dict[str, Any] = {"form": form}
    if data is not None and form.is_valid():
        endpoint = form.cleaned_data["endpoint"]
        with refusals_on(form, ShownError):
            prepared = services.prepare(form.settings)
            context |= {
                "prepared": prepared,
                "endpoint": endpoint,
                "turns": [(message.role, message.text, len(message.images)) for message in prepared.request.messages],
                "body": services.shown_body(prepared.body(endpoint)),
            }
            if request.method == "POST":
                context["outcome"] = tasks.try_out(form.settings, prepared, endpoint, actor=signed_in_account(request))
    status = 422 if form.errors else 200
    return render(request, "evaluation/playground/playground.html", context, status=status)
