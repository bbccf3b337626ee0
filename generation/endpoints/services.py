"""Adds and changes endpoints."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, RestrictedError
from django.utils.translation import gettext as _

from generation.endpoints import queries
from generation.errors import EndpointUsed
from generation.models import Endpoint
from generation.models.endpoints import base_address
from review.audit import acts
from review.audit.trail import recording_events


def add_endpoint(**fields: Any) -> Endpoint:
    """Add an endpoint. Raises ValidationError with one message per wrong field."""
    endpoint = Endpoint(**{"simulated": str(fields.get("model", "")).startswith("sim-"), **fields})
    endpoint.full_clean()
    with recording_events():
        endpoint.save()
        acts.record_act(acts.Kind.ENDPOINT, "added", endpoint.name, changes=acts.changes({}, _plain(fields)))
    return endpoint


def change_endpoint(endpoint: Endpoint, **fields: Any) -> Endpoint:
    """Change an endpoint's settings. Raises ValidationError with one message per wrong field.

    Once it has answered, its address and model can no longer change, as results refer to them. (A
    mere call is not enough: after a typo in the address, the batch and its records would be tied to
    an endpoint that nobody can correct.) A simulated endpoint stays simulated, so that no result
    loses its banner.
    """
    before = {name: getattr(endpoint, name) for name in fields}
    wanted = {**fields, "url": base_address(fields.get("url", endpoint.url))}
    fixed = [name for name in ("url", "model") if wanted.get(name, getattr(endpoint, name)) != getattr(endpoint, name)]
    if fixed and queries.has_answered(endpoint):
        reason = _("This cannot be changed. The endpoint has already been called, and results refer to it.")
        raise ValidationError(dict.fromkeys(fixed, reason))
    for name, value in fields.items():
        setattr(endpoint, name, value)
    endpoint.simulated = endpoint.simulated or endpoint.model.startswith("sim-")
    endpoint.full_clean()
    with recording_events():
        endpoint.save(update_fields=[*fields, "simulated"])
        after = {name: getattr(endpoint, name) for name in fields}
        if differing := acts.changes(_plain(before), _plain(after)):
            acts.record_act(acts.Kind.ENDPOINT, "changed", endpoint.name, changes=differing)
    return endpoint


@recording_events()
def set_disabled(endpoint: Endpoint, *, disabled: bool) -> Endpoint:
    """Offer an endpoint for new work or not; what runs goes on."""
    if endpoint.disabled != disabled:
        endpoint.disabled = disabled
        endpoint.save(update_fields=["disabled"])
        verb = "enabled"
        if disabled:
            verb = "disabled"
        acts.record_act(acts.Kind.ENDPOINT, verb, endpoint.name)
    return endpoint


@recording_events()
def delete_endpoint(endpoint: Endpoint) -> None:
    """Delete an endpoint that nothing refers to. Raises EndpointUsed."""
    name = endpoint.name
    try:
        with transaction.atomic():
            endpoint.delete()
    except (ProtectedError, RestrictedError, IntegrityError):
        raise EndpointUsed(name) from None
    acts.record_act(acts.Kind.ENDPOINT, "deleted", name)


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Values as they are compared: an amount does not change by its zeros."""
    plain = dict(fields)
    for name, value in fields.items():
        if isinstance(value, Decimal):
            plain[name] = value.normalize()
    return plain


@recording_events()
def decide_ending(endpoint: Endpoint, ending: str, meaning: str) -> Endpoint:
    """Decide what an unknown ending of an endpoint means, for replies to come and earlier ones.

    Rows that failed because of it are read again when they are retried, without a call unless the
    provider failed. Raises ValidationError if the ending is known, or the meaning is not.
    """
    fresh = Endpoint.objects.select_for_update(no_key=True).get(pk=endpoint.pk)
    return change_endpoint(fresh, endings={**fresh.endings, ending: meaning})


def get_or_create_endpoint(name: str) -> Endpoint | str:
    """The endpoint with this name, or a new one without a URL for the model with this name.

    An endpoint without a URL is never called; it represents a model known only from imported
    results. Returns the reason as text if no endpoint can have the name.
    """
    if existing := Endpoint.objects.filter(name=name).first():
        return existing
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:100]
    if not slug:
        return f"model {name}: needs a letter or digit"
    endpoint, _created = Endpoint.objects.get_or_create(
        name=slug, defaults={"model": name, "url": "", "concurrency": 1}
    )
    if endpoint.model == name:
        return endpoint
    return f"model {name}: {slug} is the name of an endpoint with another model"
