"""Adds and changes endpoints."""

from typing import Any

from generation.endpoints import queries
from generation.models import Endpoint


def add_endpoint(**fields: Any) -> Endpoint:
    """Make an endpoint. Raises ValidationError with one message per wrong field."""
    endpoint = Endpoint(**{"simulated": str(fields.get("model", "")).startswith("sim-"), **fields})
    endpoint.full_clean()
    endpoint.save()
    return endpoint


def change_endpoint(endpoint: Endpoint, **fields: Any) -> Endpoint:
    """Change an endpoint's settings. Raises ValidationError with one message per wrong field.

    Once it has answered, its address and model stay as they are: results name them. (Not once it was merely called: after a
    slip in the address, the batch and its records would be tied to an endpoint that nobody can mend.) Simulated stays
    simulated, so that no result loses its banner.
    """
    called = queries.has_answered(endpoint)
    changed = {name: value for name, value in fields.items() if not (called and name in ("url", "model"))}
    for name, value in changed.items():
        setattr(endpoint, name, value)
    endpoint.simulated = endpoint.simulated or endpoint.model.startswith("sim-")
    endpoint.full_clean()
    endpoint.save(update_fields=[*changed, "simulated"])
    return endpoint
