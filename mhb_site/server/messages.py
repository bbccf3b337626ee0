"""Messages to workers: each is signed with the site's secret, and others are dropped.

Access to the broker without the secret is not enough to start a task or to end a worker.
Messages only wake workers, and the sweeper finds the work that nobody was woken for: an unreadable
one, as a full disk leaves behind, or one of another site or version is dropped, too.
"""

import logging
from typing import Any

from django.utils.crypto import constant_time_compare, salted_hmac
from kombu.utils.json import dumps

log = logging.getLogger(__name__)

SIGNATURE = "mhb-signature"  # a header
_UNSIGNED = {SIGNATURE, "redelivered"}  # the broker sets the second


def sign(message: dict[str, Any]) -> None:
    """Add the signature to a message of kombu's virtual transports."""
    message["headers"][SIGNATURE] = _signature(message)


def is_ours(message: object) -> bool:
    """Whether a message from the broker, of any type, has been signed. Says so if not."""
    try:
        ours = constant_time_compare(message["headers"][SIGNATURE], _signature(message))  # type: ignore[index]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        ours = False
    if not ours:
        log.warning("dropped a queue message that is not of this site; the sweeper will pick up its work")
    return ours


def _signature(message: Any) -> str:
    headers = {name: value for name, value in message["headers"].items() if name not in _UNSIGNED}
    others = {name: value for name, value in message["properties"].items() if name != "delivery_info"}
    place = [message["properties"]["delivery_info"][name] for name in ("exchange", "routing_key")]
    parts = [message["body"], message["content-type"], message["content-encoding"], headers, others, place]
    return salted_hmac("mhb_site.server.messages", dumps(parts, sort_keys=True), algorithm="sha256").hexdigest()
