"""Pages of webhooks, and of what was sent to them and to people."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from generation import tasks
from generation.notifications import services
from generation.notifications.forms import DeliveryFilters, WebhookForm
from review.common.decorators import posted_data, redirect_saying, render_form, requires
from review.common.lists import list_context
from review.models import Delivery, Occasion, Webhook
from review.rules.permissions import Can


@requires(Can.CONNECT, "GET")
def webhooks(request: HttpRequest) -> HttpResponse:
    """All webhooks, each with its last delivery."""
    rows = []
    for hook in Webhook.objects.order_by("name"):
        occasions = [Occasion(name).label for name in hook.occasions]
        rows.append((hook, occasions, hook.deliveries.last()))
    return render(request, "generation/notifications/webhooks.html", {"rows": rows})


@requires(Can.CONNECT, acting=True)
def webhook_new(request: HttpRequest) -> HttpResponse:
    """Add a webhook."""
    return _edit(request, Webhook(occasions=[value for value, _label in services.OCCASIONS]))


@requires(Can.CONNECT)
def webhook(request: HttpRequest, name: str) -> HttpResponse:
    """Change one webhook."""
    return _edit(request, get_object_or_404(Webhook, name=name))


def _edit(request: HttpRequest, hook: Webhook) -> HttpResponse:
    form = WebhookForm(posted_data(request), instance=hook)
    name = hook.name
    if form.is_valid():
        if hook.pk:
            saved = Webhook.objects.get(pk=hook.pk)
        else:
            saved = Webhook()
        services.save_webhook(saved, **form.cleaned_data)
        messages.success(request, _("Webhook %(name)s saved.") % {"name": saved})
        return redirect("generation:webhook", saved.name)
    context = {"form": form, "name": name, "used": bool(hook.pk) and services.is_used(hook)}
    return render_form(request, "generation/notifications/webhook.html", context, refused=form.errors)


@requires(Can.CONNECT, "POST")
def webhook_test(request: HttpRequest, name: str) -> HttpResponse:
    """Send a test; its page shows how it went."""
    row = tasks.test_webhook(get_object_or_404(Webhook, name=name))
    if row.status == Delivery.Status.SENT:
        messages.success(request, _("The test was received."))
    else:
        messages.error(request, _("The test failed: %(error)s") % {"error": row.error})
    return redirect("generation:webhook", name)


@requires(Can.CONNECT, "POST")
def webhook_delete(request: HttpRequest, name: str) -> HttpResponse:
    """Delete a webhook that has received no message."""
    services.delete_webhook(get_object_or_404(Webhook, name=name))
    return redirect_saying(request, _("Webhook %(name)s deleted.") % {"name": name}, "generation:webhooks")


@requires(Can.CONNECT, "GET")
def deliveries(request: HttpRequest) -> HttpResponse:
    """The e-mails and requests of the last month, and what became of them."""
    filters = DeliveryFilters(request.GET)
    context = list_context(request, filters, services.deliveries(**filters.active), ("created_at", "status"))
    return render(request, "generation/notifications/deliveries.html", context)
