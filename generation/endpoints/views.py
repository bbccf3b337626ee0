"""Pages of endpoints."""

from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from generation import tasks
from generation.endpoints import forms, providers, queries, services
from generation.jobs.endpoint_choices import error_words, health, price
from generation.jobs.live_status import endpoint_now
from generation.llm.provider_words import DECISIONS
from review.charts import daily_bars
from review.charts.text_measure import LegendEntry
from review.common.decorators import posted_data, redirect_refused, redirect_saying, render_form, requires
from review.rules.permissions import Can

DAYS_SHOWN = 30


@requires(Can.CONNECT, "GET")
def endpoints(request: HttpRequest) -> HttpResponse:
    """All endpoints with their keys, prices and health."""
    rows = []
    for endpoint in queries.endpoints():
        rows.append((endpoint, forms.key_state(endpoint), price(endpoint), health(endpoint)))
    return render(request, "generation/endpoints/endpoints.html", {"rows": rows})


@requires(Can.CONNECT, acting=True)
def endpoint_new(request: HttpRequest) -> HttpResponse:
    """Add an endpoint; `?provider=` fills in what is known of a provider."""
    chosen = providers.BY_NAME.get(request.GET.get("provider", ""))
    initial = None
    if chosen:
        initial = chosen.initial
    form = forms.EndpointForm(posted_data(request), initial=initial)
    if not form.is_growing() and form.is_valid():
        added = services.add_endpoint(**form.cleaned_data)
        messages.success(request, _("Endpoint %(name)s added. Test it before its first use.") % {"name": added})
        return redirect(f"{reverse('generation:endpoint', args=[added.name])}#test")
    context = {"form": form, "providers": providers.PROVIDERS, "chosen": chosen}
    return render_form(request, "generation/endpoints/endpoint_new.html", context, refused=form.errors)


@requires(Can.CONNECT, "POST")
def endpoint_disable(request: HttpRequest, name: str) -> HttpResponse:
    """Disable an endpoint, or with `enable` offer it again."""
    row = services.set_disabled(queries.endpoint(name), disabled="enable" not in request.POST)
    if row.disabled:
        text = _("%(name)s is no longer offered. What runs goes on.")
    else:
        text = _("%(name)s is offered again.")
    return redirect_saying(request, text % {"name": row}, "generation:endpoint", name)


@requires(Can.CONNECT, "POST")
def endpoint_delete(request: HttpRequest, name: str) -> HttpResponse:
    """Delete an endpoint that was never used."""
    services.delete_endpoint(queries.endpoint(name))
    return redirect_saying(request, _("Endpoint %(name)s deleted.") % {"name": name}, "generation:endpoints")


@requires(Can.CONNECT, "POST")
def endpoint_test(request: HttpRequest, name: str) -> HttpResponse:
    """Ask an endpoint one question; its page shows the result."""
    result = tasks.test_endpoint(queries.endpoint(name), images="images" in request.POST)
    if result.answered:
        messages.success(request, _("Endpoint %(name)s answered.") % {"name": name})
    else:
        messages.error(
            request,
            _("Endpoint %(name)s did not answer. %(error)s") % {"name": name, "error": error_words(result.error)},
        )
    return redirect(f"{reverse('generation:endpoint', args=[name])}#test")


@requires(Can.CONNECT, "POST")
def endpoint_ending(request: HttpRequest, name: str) -> HttpResponse:
    """Decide what an unknown ending means."""
    endings = f"{reverse('generation:endpoint', args=[name])}#endings"
    try:
        services.decide_ending(queries.endpoint(name), request.POST.get("ending", ""), request.POST.get("meaning", ""))
    except ValidationError as error:
        return redirect_refused(request, " ".join(error.messages), endings)
    text = _("Decided. Retry the failed rows: replies that are paid for are read again.")
    return redirect_saying(request, text, endings)


@requires(Can.CONNECT)
def endpoint(request: HttpRequest, name: str) -> HttpResponse:
    """Change one endpoint. If it has answered already, its address and model cannot change."""
    row = queries.endpoint(name)
    called = queries.has_answered(row)
    form = forms.EndpointForm(posted_data(request), instance=row, called=called)
    if not form.is_growing() and form.is_valid():
        try:
            services.change_endpoint(queries.endpoint(name), **form.cleaned_data)
        except ValidationError as error:  # it has answered since the page was opened
            form.add_error(None, error)
        else:
            messages.success(request, _("Changes to endpoint %(name)s saved.") % {"name": row})
            return redirect("generation:endpoints")
    total, days = queries.usage(row, days=DAYS_SHOWN)
    test_at, test_cost = None, None
    if row.last_test:
        test_at, test_cost = datetime.fromisoformat(row.last_test["at"]), Decimal(row.last_test["cost"])
    legend = [
        LegendEntry(_("answered"), 0),
        LegendEntry(_("failed"), 1),
        LegendEntry(_("cached replies"), 0, hollow=True),
    ]
    days_used = [day for day in reversed(days) if day.calls or day.hits]
    calls = [(day.day, (day.calls - day.failed, day.failed, day.hits)) for day in days if day.day]
    context = {
        "endpoint": row,
        "called": called,
        "form": form,
        "key": forms.key_state(row),
        "now": endpoint_now(row),
        "currency": settings.MHB_CURRENCY,
        "test_at": test_at,
        "test_cost": test_cost,
        "unknown_endings": queries.unknown_endings(row),
        "meanings": [(meaning, forms.MEANINGS[meaning]) for meaning in DECISIONS],
        "total": total,
        "chart": daily_bars.days(calls, legend, title=_("Calls on each of the last 30 days."), stacked=True),
        "days": days_used,
    }
    return render_form(request, "generation/endpoints/endpoint.html", context, refused=form.errors)
