"""Adds, changes, tests and deletes webhooks, and lists what was sent to them and to people."""

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from generation.errors import WebhookUsed
from generation.llm.errors import LLMError
from generation.llm.http.access import check_address
from generation.notifications import sending
from review.audit import acts
from review.audit.trail import recording_events
from review.models import Delivery, Occasion, Webhook

EMAIL = "@"  # in place of a webhook's name: no slug
FIELDS = ("name", "url", "secret_env", "occasions", "active")
OCCASIONS = [choice for choice in Occasion.choices if choice[0] not in (Occasion.DIGEST, Occasion.TEST)]


def check(hook: Webhook) -> None:
    """Raise ValidationError, by field, for an address or a variable that is not allowed."""
    access = settings.MHB_ENDPOINT_ACCESS
    faults: dict[str, Any] = {}
    try:
        check_address(hook.url)
        access.check_url(hook.url)
    except LLMError as error:
        faults["url"] = [str(error)]
    try:
        access.check_key(hook.secret_env, hook.url)
    except LLMError as error:
        # Its name is not said again: what was typed may be the secret itself.
        faults["secret_env"] = [str(error).replace(f"Variable: {hook.secret_env}. ", "")]
    if faults:
        raise ValidationError(faults)


def save_webhook(hook: Webhook, **fields: Any) -> Webhook:
    """Add or change a webhook. Switching it off drops its waiting messages.

    Raises ValidationError.
    """
    before, verb = {}, "added"
    if hook.pk:
        before, verb = {name: getattr(hook, name) for name in fields}, "changed"
    for name, value in fields.items():
        setattr(hook, name, value)
    hook.full_clean()
    check(hook)
    with recording_events():
        hook.save()
        if not hook.active:
            waiting = hook.deliveries.filter(status=Delivery.Status.WAITING)
            waiting.update(status=Delivery.Status.GIVEN_UP, error="The webhook was switched off.")
        if differing := acts.changes(before, fields):
            acts.record_act(acts.Kind.WEBHOOK, verb, hook.name, changes=differing)
    return hook


def is_used(hook: Webhook) -> bool:
    """Whether the log has any message to a webhook but tests."""
    return hook.deliveries.exclude(occasion=Occasion.TEST).exists()


@recording_events()
def delete_webhook(hook: Webhook) -> None:
    """Delete a webhook that has received no message. Idempotent. Raises WebhookUsed."""
    locked = Webhook.objects.select_for_update().filter(pk=hook.pk).first()  # no message can be added meanwhile
    if locked is None:
        return
    if is_used(locked):
        raise WebhookUsed(hook.name)
    locked.delete()
    acts.record_act(acts.Kind.WEBHOOK, "deleted", hook.name)


def deliveries(*, to: str = "", status: str = "") -> QuerySet[Delivery]:
    """Messages of the last month, sent or waiting. `to`: the name of a webhook, or EMAIL."""
    rows = Delivery.objects.select_related("webhook", "person").order_by("-pk")
    if to:
        if to == EMAIL:
            rows = rows.filter(webhook=None)
        else:
            rows = rows.filter(webhook__name=to)
    if status:
        return rows.filter(status=status)
    return rows


def test_webhook(hook: Webhook) -> Delivery:
    """Send a test now; the row says how it went. If it failed, it is not repeated."""
    row = Delivery.objects.create(webhook=hook, occasion=Occasion.TEST, tries=1)
    if not sending.send(row):
        Delivery.objects.filter(pk=row.pk).update(status=Delivery.Status.GIVEN_UP)
    row.refresh_from_db()
    return row
